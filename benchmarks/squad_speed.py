"""SQuAD fine-tuning, bertkit beside transformers' BertForQuestionAnswering and Trainer: same windows, sizes and batch.

    python benchmarks/squad_speed.py --tokenizer DIR --data-dir SQUAD_FOLDER [--sizes base large] [--precisions bf16]
                                     [--batch-size 16] [--questions 1600] [--rounds 3] [--device auto]

Weights are random, which takes as long as any others: a checkpoint of each size is made once, with the tokenizer, and
both sides start from it. They train an epoch on the first ``--questions`` of SQuAD 1.1, windows of 384 tokens of which
128 are shared, batches of like length, AdamW and a linear schedule. transformers: the tokenizer's own windows and the
Trainer, which takes a batch at once. bertkit: ``bertkit finetune squad``, which on CPUs cuts it by itself. Tokens a
second, without padding, are those of a run without its first ten steps, in which memory is taken and kernels are made;
medians of the rounds, each in a process of its own, by turns. ``rate`` is the share of the matrix products' rate that
the machine shows on its own, by the products that these tokens need. One JSON line for each size and precision.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import products
import squad_scores
from by_turns import by_turns, machine, report, step_clock
from two_sides import training_arguments

SEED, LEARNING_RATE, EVALUATED = 42, 5e-5, 8
WARM_UP = 10  # steps
SIDES = ("stock", "bertkit")


def windows(args: argparse.Namespace) -> dict[str, Any]:
    """Inputs of the training windows, and the positions of the answers."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(args.tokenizer)
    rows = squad_scores.rows_of(squad_scores.files_of(args.data_dir, "1.1")["train"], args.questions)
    found = squad_scores.windows_of(rows, tokenizer)
    return {name: found[name] for name in (*tokenizer.model_input_names, "start_positions", "end_positions")}


def make_checkpoint(args: argparse.Namespace, size: str, folder: Path) -> None:
    """Random weights of a size, and the tokenizer, in ``folder``."""
    from transformers import AutoTokenizer, BertConfig, BertForQuestionAnswering

    tokenizer = AutoTokenizer.from_pretrained(args.tokenizer)
    config = BertConfig(vocab_size=len(tokenizer), **products.shape_of(size))
    BertForQuestionAnswering(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def stock(args: argparse.Namespace) -> None:
    """Trains plain transformers in this process."""
    from datasets import Dataset
    from transformers import AutoTokenizer, BertForQuestionAnswering, DataCollatorWithPadding, Trainer

    with tempfile.TemporaryDirectory() as output_dir:
        trainer = Trainer(
            model=BertForQuestionAnswering.from_pretrained(args.model),
            args=training_arguments(
                args,
                SEED,
                output_dir,
                per_device_train_batch_size=args.batch_size,
                learning_rate=LEARNING_RATE,
                num_train_epochs=1,
                report_to="none",
                disable_tqdm=True,
            ),
            train_dataset=Dataset.from_dict(windows(args)),
            data_collator=DataCollatorWithPadding(AutoTokenizer.from_pretrained(args.tokenizer)),
        )
        trainer.train()


def bertkit(args: argparse.Namespace) -> None:
    """Trains as bertkit's command does, in this process."""
    import bertkit

    files = squad_scores.files_of(args.data_dir, "1.1")
    overrides: dict[str, Any] = {
        "data.train_file": str(files["train"]),
        "data.validation_file": str(files["dev"]),
        "data.max_train_samples": args.questions,
        "data.max_eval_samples": EVALUATED,
        "data.max_seq_length": squad_scores.MAX_SEQ_LENGTH,
        "data.doc_stride": squad_scores.OVERLAP,
        "train.num_train_epochs": 1,
        "train.learning_rate": LEARNING_RATE,
        "train.global_train_batch_size": args.batch_size,
        "train.save_strategy": "no",
        "train.eval_strategy": "no",
        "train.load_best_model_at_end": False,
        "placement.mixed_precision": args.mixed_precision,
        "placement.device": args.device,
    }
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        bertkit.finetune("finetune/squad/v1", model=args.model, output_dir=run, overrides=overrides)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--data-dir", required=True, type=Path)
    parser.add_argument("--sizes", nargs="+", choices=products.SIZES, default=["base"])
    parser.add_argument("--precisions", nargs="+", choices=["no", "bf16"], default=["bf16"])
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--questions", type=int, default=1600)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", choices=["cpu", "auto"], default="cpu")
    parser.add_argument("--side", choices=SIDES, help="this side alone, in this process")
    parser.add_argument("--model", help="of that side: the checkpoint")
    args = parser.parse_args()
    if args.side is not None:
        [args.mixed_precision] = args.precisions
        steps = step_clock()
        (bertkit if args.side == "bertkit" else stock)(args)
        if len(steps.ends) <= WARM_UP:
            raise SystemExit(f"{len(steps.ends)} steps are too few to time any; give more --questions")
        seconds, lengths = steps.timed(WARM_UP - 1)
        needed = 3 * products.of_layers(*products.SIZES[args.sizes[0]], lengths)  # the backward pass has two
        report(tokens_a_second=sum(lengths) / seconds, products_a_second=needed / seconds)
        return

    device = products.device_of(args.device)
    lengths = [len(window) for window in windows(args)["input_ids"]]
    shared = [__file__, "--tokenizer", args.tokenizer, "--data-dir", str(args.data_dir), "--device", args.device]
    shared += ["--batch-size", str(args.batch_size), "--questions", str(args.questions)]
    for size in args.sizes:
        with tempfile.TemporaryDirectory() as folder:
            make_checkpoint(args, size, Path(folder))
            for precision in args.precisions:
                one = [*shared, "--model", folder, "--sizes", size, "--precisions", precision]
                found = by_turns({side: [*one, "--side", side] for side in SIDES}, args.rounds)
                tokens = args.batch_size * statistics.mean(lengths)
                rate = products.rate_alone(precision, device, products.SIZES[size][1], round(tokens))
                reached = {f"rate_{side}": each.pop("products_a_second") / rate for side, each in found.items()}
                result = {
                    "size": size,
                    "precision": precision,
                    "batch_size": args.batch_size,
                    "windows": len(lengths),
                    "tokens_a_window": round(statistics.mean(lengths), 1),
                    **{side: {name: round(value) for name, value in each.items()} for side, each in found.items()},
                    "times_as_fast": round(found["bertkit"]["tokens_a_second"] / found["stock"]["tokens_a_second"], 2),
                    "memory": round(found["bertkit"]["peak_mib"] / found["stock"]["peak_mib"], 2),
                    **{name: round(value, 3) for name, value in reached.items()},
                    "gflops_alone": round(rate / 1e9, 1),
                    **machine(),
                }
                print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
