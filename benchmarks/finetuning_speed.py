"""Fine-tuning on SST-2 beside transformers: the same examples, sizes and batch.

    python benchmarks/finetuning_speed.py sst2 --model CHECKPOINT --data-dir GLUE [--count 19200] [--rounds 3]
                                               [--precisions no|bf16] [--batch-size 32]

``example`` is transformers' example with its defaults: padded to 128, float32; its steps are all alike, so it trains
for at most sixteen, of which four are not timed. ``stock`` is the best that its Trainer can be told: padded to the
longest of a batch, batches of like length, fused AdamW, bf16 autocast where the processor has instructions for it, no
evaluation. ``bertkit``: the command. ``--precisions no`` is float32 for both.

Speeds are those of a run without its first ten steps (of ``example`` four), in which memory is taken and kernels are
made for the first shapes, tokens without padding; medians of the rounds, each in a process of its own, by turns.
``rate`` is the share of the matrix products' rate that the machine shows on its own, by the products that these tokens
need. Prints one JSON line.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import plain_finetuning
from by_turns import (
    by_turns,
    machine,
    of_layers,
    placement_of,
    rate_alone,
    report,
    rounded,
    step_clock,
)

SEED = 42
WARM_UP, EXAMPLE_WARM_UP, EXAMPLE_STEPS = 10, 4, 16
SIDES = ("example", "stock", "bertkit")


def sentences(args: argparse.Namespace) -> dict[str, Any]:
    """Inputs of the first sentences of SST-2, and their labels."""
    from transformers import AutoTokenizer

    lines = (args.data_dir / "SST-2" / "train.tsv").read_text(encoding="utf-8").splitlines()[1:]
    rows = [line.rsplit("\t", 1) for line in lines[: args.count]]
    padding = "max_length" if args.side == "example" else False
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    inputs = tokenizer([text for text, _ in rows], truncation=True, max_length=128, padding=padding)
    return {**inputs, "labels": [int(label) for _, label in rows]}


def stock(args: argparse.Namespace) -> None:
    """Trains plain transformers, its best way or its example's."""
    import transformers
    from datasets import Dataset

    from bertkit.runtime.placement.resolve import computes_bf16_fast

    is_bf16 = args.mixed_precision == "bf16" if args.mixed_precision else computes_bf16_fast(args.device)
    collator: Any = transformers.default_data_collator
    if args.side == "stock":
        collator = transformers.DataCollatorWithPadding(transformers.AutoTokenizer.from_pretrained(args.model))
    values: dict[str, Any] = {
        "optim": "adamw_torch_fused",
        "bf16": args.side == "stock" and is_bf16,
        "train_sampling_strategy": "random" if args.side == "example" else "group_by_length",
        "per_device_train_batch_size": args.batch_size,
        "learning_rate": 2e-5,
        "num_train_epochs": args.epochs,
        "torch_compile_backend": args.compiler,
    }
    model = transformers.AutoModelForSequenceClassification.from_pretrained(args.model, dtype="float32")
    plain_finetuning.trained(args, SEED, model, Dataset.from_dict(sentences(args)), collator, **values)


def bertkit(args: argparse.Namespace, run: Path | None = None) -> None:
    """Trains as bertkit's command does, in this process; the run is a folder to keep, or a temporary one."""
    import bertkit

    overrides: dict[str, Any] = {
        "train.num_train_epochs": 1,
        "train.save_strategy": "no",
        "train.eval_strategy": "no",
        "train.load_best_model_at_end": False,
        "train.global_train_batch_size": args.batch_size,
        "data.max_train_samples": args.count,
        "data.max_eval_samples": 8,
        "train.learning_rate": 2e-5,
        "data.max_seq_length": 128,
        "data.data_dir": str(args.data_dir),
        **placement_of(args.device),
        **args.overrides,
    }
    if args.mixed_precision is not None:
        overrides["placement.mixed_precision"] = args.mixed_precision
    with tempfile.TemporaryDirectory() as folder:
        bertkit.finetune(
            "finetune/glue/sst2", model=args.model, output_dir=run or Path(folder) / "run", overrides=overrides
        )


def one_side(args: argparse.Namespace) -> None:
    """Trains a side in this process and reports its steps."""
    [args.mixed_precision] = args.precisions or [None]
    steps, warm_up = step_clock(), EXAMPLE_WARM_UP if args.side == "example" else WARM_UP
    if args.side == "bertkit":
        bertkit(args)
    else:
        args.count = min(args.count, EXAMPLE_STEPS * args.batch_size) if args.side == "example" else args.count
        stock(args)
    seconds, lengths = steps.timed(warm_up - 1)
    needed = 3 * of_layers(*size_of(args.model), lengths, 1)  # the backward pass has two
    speeds = {"examples_a_second": len(lengths) / seconds, "tokens_a_second": sum(lengths) / seconds}
    report(**speeds, products_a_second=needed / seconds)


def size_of(model: str) -> tuple[int, int]:
    """Layers and width of a checkpoint."""
    config = json.loads(Path(model, "config.json").read_text())
    return config["num_hidden_layers"], config["hidden_size"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["sst2"])
    parser.add_argument("--model", required=True, help="the checkpoint")
    parser.add_argument("--data-dir", required=True, type=Path)
    parser.add_argument("--precisions", nargs=1, choices=["no", "bf16"], help="by default the fastest")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--count", type=int, default=19_200, help="examples")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", help="this side alone, in this process")
    parser.set_defaults(device="cpu", compiler=None, overrides={}, epochs=1)  # of `gpu.py`
    args = parser.parse_args()
    if args.side is not None:
        one_side(args)
        return
    shared = [__file__, args.what, "--data-dir", str(args.data_dir), "--count", str(args.count)]
    shared += ["--batch-size", str(args.batch_size)]
    shared += ["--precisions", *args.precisions] if args.precisions else []
    from bertkit.runtime.placement.resolve import computes_bf16_fast

    sides = {side: [*shared, "--model", args.model, "--side", side] for side in SIDES}
    results = by_turns(sides, args.rounds)
    products = [each.pop("products_a_second") for each in results.values()][-1]
    own = results["bertkit"]
    times: dict[str, float] = {
        f"times_{side}": round(own["examples_a_second"] / results[side]["examples_a_second"], 2)
        for side in ("example", "stock")
    }
    tokens = args.batch_size * own["tokens_a_second"] / own["examples_a_second"]
    precision = args.precisions[0] if args.precisions else "bf16" if computes_bf16_fast(args.device) else "no"
    rate = rate_alone(precision, args.device, size_of(args.model)[1], round(tokens))
    times |= {"rate": round(products / rate, 3), "gflops_alone": round(rate / 1e9, 1)}
    print(json.dumps({**rounded(results, 1), **times, "count": args.count, **machine()}))


if __name__ == "__main__":
    main()
