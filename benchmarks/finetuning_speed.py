"""SST-2 fine-tuning, bertkit beside transformers: its example's defaults, and the best that its Trainer can be told.

    python benchmarks/finetuning_speed.py --model CHECKPOINT --data-dir GLUE_FOLDER [--examples 19200] [--rounds 3]

All train on the same examples with batch 32, ``example``, whose steps are all alike, on the first sixteenth of them.
``example``: padded to 128, float32. ``stock``: padded to the longest of a batch, batches of like length, bf16 autocast
where it pays. ``bertkit``: ``bertkit finetune glue --task sst2``. Examples a second are those of a run without its
first ten steps, in which memory is taken and kernels are made for the first shapes; medians of the rounds, each in a
process of its own, by turns. Prints one JSON line.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from by_turns import by_turns, machine, report, step_clock

BATCH_SIZE, MAX_SEQ_LENGTH, LEARNING_RATE = 32, 128, 2e-5
WARM_UP = 10  # steps
SIDES = ("example", "stock", "bertkit")


def stock(args: argparse.Namespace, best: bool) -> None:
    """Trains plain transformers, its best way or its example's."""
    from datasets import Dataset
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
        default_data_collator,
    )

    from bertkit.placement.resolve import computes_bf16_fast

    lines = (Path(args.data_dir) / "SST-2" / "train.tsv").read_text(encoding="utf-8").splitlines()[1:]
    rows = [line.rsplit("\t", 1) for line in lines[: args.examples]]
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    padding = False if best else "max_length"
    inputs = tokenizer([text for text, _ in rows], truncation=True, max_length=MAX_SEQ_LENGTH, padding=padding)
    with tempfile.TemporaryDirectory() as output_dir:
        trainer = Trainer(
            model=AutoModelForSequenceClassification.from_pretrained(args.model, dtype="float32"),
            args=TrainingArguments(
                output_dir=output_dir,
                per_device_train_batch_size=BATCH_SIZE,
                learning_rate=LEARNING_RATE,
                num_train_epochs=1,
                train_sampling_strategy="group_by_length" if best else "random",
                bf16=best and computes_bf16_fast(args.device),
                save_strategy="no",
                disable_tqdm=True,
                use_cpu=args.device == "cpu",
            ),
            train_dataset=Dataset.from_dict({**inputs, "labels": [int(label) for _, label in rows]}),
            data_collator=DataCollatorWithPadding(tokenizer) if best else default_data_collator,
        )
        trainer.train()


def bertkit(args: argparse.Namespace) -> None:
    """Trains as bertkit's command does."""
    import bertkit

    overrides: dict[str, Any] = {
        "train.num_train_epochs": 1,
        "train.save_strategy": "no",
        "train.eval_strategy": "no",
        "train.load_best_model_at_end": False,
        "train.learning_rate": LEARNING_RATE,
        "train.global_train_batch_size": BATCH_SIZE,
        "data.max_train_samples": args.examples,
        "data.max_eval_samples": 8,
        "data.max_seq_length": MAX_SEQ_LENGTH,
        "placement.device": args.device,
    }
    with tempfile.TemporaryDirectory() as folder:
        bertkit.finetune(
            "finetune/glue/sst2",
            model=args.model,
            data_dir=args.data_dir,
            output_dir=Path(folder) / "run",
            overrides=overrides,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--examples", type=int, default=19_200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", choices=["cpu", "auto"], default="cpu")
    parser.add_argument("--side", choices=SIDES, help="this side alone, in this process")
    args = parser.parse_args()
    if args.side is not None:
        steps = step_clock()
        if args.side == "bertkit":
            bertkit(args)
        else:
            args.examples //= 16 if args.side == "example" else 1
            stock(args, best=args.side == "stock")
        seconds, lengths = steps.timed(WARM_UP - 1)
        report(examples_per_second=len(lengths) / seconds)
        return
    shared = [__file__, "--model", args.model, "--data-dir", args.data_dir, "--examples", str(args.examples)]
    found = by_turns({side: [*shared, "--device", args.device, "--side", side] for side in SIDES}, args.rounds)
    ours = found["bertkit"]["examples_per_second"]
    result = {
        **{side: {name: round(value, 1) for name, value in each.items()} for side, each in found.items()},
        **{f"times_{side}": round(ours / found[side]["examples_per_second"], 2) for side in ("example", "stock")},
        "examples": args.examples,
        **machine(),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
