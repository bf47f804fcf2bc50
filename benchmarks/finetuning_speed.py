"""Fine-tuning beside transformers: SST-2 and SQuAD, the same examples, sizes and batch.

    python benchmarks/finetuning_speed.py sst2 --model CHECKPOINT --data-dir GLUE [--count 19200] [--rounds 3]
                                               [--precisions no|bf16]
    python benchmarks/finetuning_speed.py squad --tokenizer DIR --data-dir SQUAD [--sizes base large] [--count 1600]
                                                [--precisions bf16] [--batch-size 16] [--rounds 3]
    both: [--device cpu|cuda|auto]

SST-2, batch 32. ``example`` is transformers' example with its defaults: padded to 128, float32; its steps are all
alike, so it trains for at most sixteen, of which four are not timed. ``stock`` is the best that its Trainer can be
told: padded to the longest of a batch, batches of like length, fused AdamW, bf16 autocast where the processor has
instructions for it, no evaluation. ``bertkit``: the command. ``--precisions no`` is float32 for both.

SQuAD 1.1, an epoch of the first ``--count`` questions: windows of 384 tokens of which 128 are shared, batches of like
length. Weights are random, which takes as long as any others: a checkpoint of each size is made once, with the
tokenizer, and both sides start from it. ``stock`` is transformers' BertForQuestionAnswering, the tokenizer's own
windows and the Trainer as above, which takes a batch at once, padded to a multiple of 16, so that the CPU's library
makes few kernels; ``bertkit`` is the command, which on CPUs cuts the batch by itself.

Speeds are those of a run without its first ten steps (of ``example`` four), in which memory is taken and kernels are
made for the first shapes, tokens without padding; medians of the rounds, each in a process of its own, by turns.
``rate`` is the share of the matrix products' rate that the machine shows on its own, by the products that these tokens
need; of SQuAD for each side. One JSON line for each size and precision.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import plain_finetuning
from by_turns import (
    DEVICES,
    SIZES,
    by_turns,
    device_of,
    machine,
    of_layers,
    placement_of,
    rate_alone,
    report,
    rounded,
    shape_of,
    step_clock,
)

SEED = 42
WARM_UP, EXAMPLE_WARM_UP, EXAMPLE_STEPS = 10, 4, 16
SIDES = {"sst2": ("example", "stock", "bertkit"), "squad": ("stock", "bertkit")}


def windows(args: argparse.Namespace) -> dict[str, Any]:
    """Inputs of the training windows of SQuAD, and the positions of the answers."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(args.tokenizer)
    rows = plain_finetuning.questions(plain_finetuning.squad_files(args.data_dir, "1.1")["train"], args.count)
    encoded = plain_finetuning.windows_of(rows, tokenizer)
    return {name: encoded[name] for name in (*tokenizer.model_input_names, "start_positions", "end_positions")}


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

    head, learning_rate = transformers.AutoModelForQuestionAnswering, 5e-5
    values: dict[str, Any] = {"optim": "adamw_torch_fused"}
    if args.what == "sst2":
        head, learning_rate = transformers.AutoModelForSequenceClassification, 2e-5
        is_bf16 = args.mixed_precision == "bf16" if args.mixed_precision else computes_bf16_fast(device_of(args.device))
        values["bf16"] = args.side == "stock" and is_bf16
        values["train_sampling_strategy"] = "random" if args.side == "example" else "group_by_length"
    collator: Any = transformers.default_data_collator
    if args.side == "stock":
        tokenizer = transformers.AutoTokenizer.from_pretrained(args.model)
        multiple = 16 if args.what == "squad" else None
        collator = transformers.DataCollatorWithPadding(tokenizer, pad_to_multiple_of=multiple)
    data = Dataset.from_dict(sentences(args) if args.what == "sst2" else windows(args))
    values |= {"per_device_train_batch_size": args.batch_size, "learning_rate": learning_rate, "num_train_epochs": 1}
    plain_finetuning.trained(args, SEED, head.from_pretrained(args.model, dtype="float32"), data, collator, **values)


def bertkit(args: argparse.Namespace) -> None:
    """Trains as bertkit's command does, in this process."""
    import bertkit

    overrides: dict[str, Any] = {
        "train.num_train_epochs": 1,
        "train.save_strategy": "no",
        "train.eval_strategy": "no",
        "train.load_best_model_at_end": False,
        "train.global_train_batch_size": args.batch_size,
        "data.max_train_samples": args.count,
        "data.max_eval_samples": 8,
        **placement_of(args.device),
    }
    if args.what == "sst2":
        overrides |= {"train.learning_rate": 2e-5, "data.max_seq_length": 128, "data.data_dir": str(args.data_dir)}
    else:
        files = plain_finetuning.squad_files(args.data_dir, "1.1")
        overrides |= {"data.train_file": str(files["train"]), "data.validation_file": str(files["dev"])}
        overrides |= {"data.max_seq_length": plain_finetuning.WINDOW, "data.doc_stride": plain_finetuning.OVERLAP}
        overrides["train.learning_rate"] = 5e-5
    if args.mixed_precision is not None:
        overrides["placement.mixed_precision"] = args.mixed_precision
    recipe = {"sst2": "finetune/glue/sst2", "squad": "finetune/squad/v1"}[args.what]
    with tempfile.TemporaryDirectory() as folder:
        bertkit.finetune(recipe, model=args.model, output_dir=Path(folder) / "run", overrides=overrides)


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
    layers, width = SIZES[args.sizes[0]] if args.what == "squad" else size_of(args.model)
    read = None if args.what == "squad" else 1
    needed = 3 * of_layers(layers, width, lengths, read)  # the backward pass has two
    speeds = {"examples_a_second": len(lengths) / seconds, "tokens_a_second": sum(lengths) / seconds}
    report(**speeds, products_a_second=needed / seconds)


def size_of(model: str) -> tuple[int, int]:
    """Layers and width of a checkpoint."""
    config = json.loads(Path(model, "config.json").read_text())
    return config["num_hidden_layers"], config["hidden_size"]


def make_checkpoint(args: argparse.Namespace, size: str, folder: Path) -> None:
    """Random weights of a size, and the tokenizer, in ``folder``."""
    from transformers import AutoTokenizer, BertConfig, BertForQuestionAnswering

    tokenizer = AutoTokenizer.from_pretrained(args.tokenizer)
    config = BertConfig(vocab_size=len(tokenizer), **shape_of(size))
    BertForQuestionAnswering(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def compare_squad(args: argparse.Namespace, shared: list[str]) -> None:
    """Prints a line for each size and precision."""
    device = device_of(args.device)
    lengths = [len(window) for window in windows(args)["input_ids"]]
    for size in args.sizes:
        with tempfile.TemporaryDirectory() as folder:
            make_checkpoint(args, size, Path(folder))
            for precision in args.precisions:
                one = [*shared, "--tokenizer", folder, "--model", folder, "--sizes", size, "--precisions", precision]
                results = by_turns({side: [*one, "--side", side] for side in SIDES["squad"]}, args.rounds)
                tokens = round(args.batch_size * statistics.mean(lengths))
                rate = rate_alone(precision, device, SIZES[size][1], tokens)
                shares = {
                    f"rate_{side}": round(each.pop("products_a_second") / rate, 3) for side, each in results.items()
                }
                own, other = results["bertkit"], results["stock"]
                case = {"size": size, "precision": precision, "batch_size": args.batch_size, "windows": len(lengths)}
                ratios = {
                    "times_as_fast": round(own["tokens_a_second"] / other["tokens_a_second"], 2),
                    "memory": round(own["peak_mib"] / other["peak_mib"], 2),
                    "tokens_a_window": round(statistics.mean(lengths), 1),
                    "gflops_alone": round(rate / 1e9, 1),
                }
                print(
                    json.dumps({**case, **rounded(results, 0), **ratios, **rounded({"": shares}, 3)[""], **machine()})
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=SIDES)
    parser.add_argument("--model", help="the checkpoint; of SQuAD, of one side")
    parser.add_argument("--tokenizer", help="of SQuAD")
    parser.add_argument("--data-dir", required=True, type=Path)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=["base"], help="of SQuAD")
    parser.add_argument("--precisions", nargs="+", choices=["no", "bf16"], help="of SQuAD bf16, of SST-2 the fastest")
    parser.add_argument("--batch-size", type=int, help="32, of SQuAD 16")
    parser.add_argument("--count", type=int, help="examples; 19,200, of SQuAD 1,600 questions")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", choices=DEVICES, default="cpu")
    parser.add_argument("--side", help="this side alone, in this process")
    args = parser.parse_args()
    args.batch_size = args.batch_size or {"sst2": 32, "squad": 16}[args.what]
    args.count = args.count or {"sst2": 19_200, "squad": 1600}[args.what]
    if args.side is not None:
        one_side(args)
        return
    shared = [__file__, args.what, "--data-dir", str(args.data_dir), "--count", str(args.count)]
    shared += ["--batch-size", str(args.batch_size), "--device", args.device]
    if args.what == "squad":
        args.precisions = args.precisions or ["bf16"]
        compare_squad(args, shared)
        return
    shared += ["--precisions", *args.precisions] if args.precisions else []
    from bertkit.runtime.placement.resolve import computes_bf16_fast

    sides = {side: [*shared, "--model", args.model, "--side", side] for side in SIDES["sst2"]}
    results = by_turns(sides, args.rounds)
    products = [each.pop("products_a_second") for each in results.values()][-1]
    own = results["bertkit"]
    times: dict[str, float] = {
        f"times_{side}": round(own["examples_a_second"] / results[side]["examples_a_second"], 2)
        for side in ("example", "stock")
    }
    device, tokens = device_of(args.device), args.batch_size * own["tokens_a_second"] / own["examples_a_second"]
    precision = args.precisions[0] if args.precisions else "bf16" if computes_bf16_fast(device) else "no"
    rate = rate_alone(precision, device, size_of(args.model)[1], round(tokens))
    times |= {"rate": round(products / rate, 3), "gflops_alone": round(rate / 1e9, 1)}
    print(json.dumps({**rounded(results, 1), **times, "count": args.count, **machine()}))


if __name__ == "__main__":
    main()
