"""Dev accuracy of SST-2 after one epoch, bertkit beside plain transformers, same checkpoint and hyper-parameters.

    python benchmarks/sst2_score.py --model CHECKPOINT --data-dir GLUE_DIR --seeds 42 43 44 [--side stock|bertkit]

Both sides: batch 32, learning rate 5e-5, linear decay, no warm-up, no weight decay, at most 128 tokens, float32,
examples of like length grouped into a batch (the order of magnitude it saves makes three seeds bearable on a CPU).
Each run prints one JSON line; the last line is the summary.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BATCH_SIZE, LEARNING_RATE, MAX_SEQ_LENGTH = 32, 5e-5, 128


def read_tsv(path: Path, limit: int | None) -> dict[str, list]:
    rows = [line.rstrip("\n").split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    rows = rows[:limit]
    return {"sentence": [row[0] for row in rows], "label": [int(row[1]) for row in rows]}


def stock(model: str, data_dir: Path, seed: int, limit: int | None) -> dict[str, float]:
    """Plain transformers: what its text-classification example does, without bertkit in the process."""
    import numpy as np
    from datasets import Dataset
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
        set_seed,
    )

    set_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(model)
    splits = {}
    for split in ("train", "dev"):
        dataset = Dataset.from_dict(read_tsv(data_dir / "SST-2" / f"{split}.tsv", limit))
        splits[split] = dataset.map(
            lambda rows: tokenizer(rows["sentence"], truncation=True, max_length=MAX_SEQ_LENGTH, padding=False),
            batched=True,
            remove_columns=["sentence"],
        )
    with tempfile.TemporaryDirectory() as output_dir:
        trainer = Trainer(
            model=AutoModelForSequenceClassification.from_pretrained(model, num_labels=2, dtype="float32"),
            args=TrainingArguments(
                output_dir=output_dir,
                per_device_train_batch_size=BATCH_SIZE,
                per_device_eval_batch_size=BATCH_SIZE,
                learning_rate=LEARNING_RATE,
                num_train_epochs=1,
                train_sampling_strategy="group_by_length",
                save_strategy="no",
                logging_steps=500,
                seed=seed,
                use_cpu=True,
            ),
            train_dataset=splits["train"],
            eval_dataset=splits["dev"],
            processing_class=tokenizer,
            data_collator=DataCollatorWithPadding(tokenizer),
            compute_metrics=lambda p: {"accuracy": float((np.argmax(p.predictions, -1) == p.label_ids).mean())},
        )
        started = time.perf_counter()
        trainer.train()
        seconds = time.perf_counter() - started
        return {"accuracy": trainer.evaluate()["eval_accuracy"], "train_seconds": seconds}


def bertkit(model: str, data_dir: Path, seed: int, limit: int | None) -> dict[str, float]:
    """The command a user types, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        output_dir = Path(folder) / "run"
        settings = {
            "train.warmup_steps": 0,
            "train.weight_decay": 0,
            "train.adam_epsilon": 1e-8,
            "train.train_sampling_strategy": "group_by_length",
            "train.save_strategy": "no",
            "train.eval_strategy": "no",
            "train.load_best_model_at_end": "false",
            "placement.mixed_precision": "no",
        }
        command = [sys.executable, "-m", "bertkit", "finetune", "glue", "--task", "sst2", "--model", model]
        command += ["--data-dir", str(data_dir), "--output-dir", str(output_dir), "--seed", str(seed)]
        command += ["--learning-rate", str(LEARNING_RATE), "--global-train-batch-size", str(BATCH_SIZE)]
        command += ["--num-train-epochs", "1", "--max-seq-length", str(MAX_SEQ_LENGTH)]
        command += [] if limit is None else ["--max-train-samples", str(limit), "--max-eval-samples", str(limit)]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        results = json.loads((output_dir / "all_results.json").read_text())
        return {"accuracy": results["eval_accuracy"], "train_seconds": results["train_runtime"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data-dir", required=True, type=Path)
    parser.add_argument("--seeds", nargs="+", type=int, default=[42, 43, 44])
    parser.add_argument("--side", choices=["stock", "bertkit", "both"], default="both")
    parser.add_argument("--limit", type=int, default=None, help="rows of each file, for a quick look")
    args = parser.parse_args()

    import torch
    import transformers

    where = {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
    }
    sides = {"stock": stock, "bertkit": bertkit}
    chosen = sides if args.side == "both" else {args.side: sides[args.side]}
    accuracies: dict[str, list[float]] = {name: [] for name in chosen}
    for seed in args.seeds:
        for name, run in chosen.items():
            result = run(args.model, args.data_dir, seed, args.limit)
            accuracies[name].append(result["accuracy"])
            print(json.dumps({"side": name, "seed": seed, **result, **where}), flush=True)
    summary = {
        name: {"mean": statistics.mean(values), "stdev": statistics.stdev(values) if len(values) > 1 else None}
        for name, values in accuracies.items()
    }
    print(json.dumps({"summary": summary, "seeds": args.seeds}), flush=True)


if __name__ == "__main__":
    main()
