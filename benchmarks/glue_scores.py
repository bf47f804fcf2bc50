"""Dev scores of GLUE tasks, bertkit beside plain transformers: same checkpoint, same data, same hyper-parameters.

    python benchmarks/glue_scores.py --model CHECKPOINT --data-dir GLUE_FOLDER [--tasks rte mrpc stsb sst2]
                                     [--seeds 42 43 44] [--side stock|bertkit|both] [--mixed-precision bf16|no]

Both sides: batch 32, learning rate 5e-5, linear decay, no warm-up, no weight decay, at most 128 tokens, bf16 autocast
over float32 weights (or float32 throughout), examples of like length grouped into a batch (the time that both save
makes three seeds bearable on a CPU); three epochs, of SST-2 one. Each run prints one JSON line; the last line is the
summary.
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
from typing import Any, NamedTuple

BATCH_SIZE, LEARNING_RATE, MAX_SEQ_LENGTH = 32, 5e-5, 128


class Task(NamedTuple):
    """What plain transformers needs to know of a task's TSV files."""

    folder: str
    texts: tuple[str, ...]
    label: str
    classes: tuple[str, ...]  # none for a number
    score: str
    epochs: int


TASKS = {
    "rte": Task("RTE", ("sentence1", "sentence2"), "label", ("entailment", "not_entailment"), "accuracy", 3),
    "mrpc": Task("MRPC", ("#1 String", "#2 String"), "Quality", ("0", "1"), "combined_score", 3),
    "stsb": Task("STS-B", ("sentence1", "sentence2"), "score", (), "combined_score", 3),
    "sst2": Task("SST-2", ("sentence",), "label", ("0", "1"), "accuracy", 1),
}


def stock_scores(outcome: Any) -> dict[str, float]:
    """What transformers' text-classification example computes, from scikit-learn and scipy."""
    import numpy as np
    from scipy.stats import pearsonr, spearmanr
    from sklearn.metrics import f1_score

    logits, labels = outcome.predictions, outcome.label_ids
    if logits.shape[-1] == 1:
        numbers = logits[:, 0]
        pearson, spearman = float(pearsonr(numbers, labels)[0]), float(spearmanr(numbers, labels)[0])
        return {"pearson": pearson, "spearmanr": spearman, "combined_score": (pearson + spearman) / 2}
    chosen = np.argmax(logits, -1)
    accuracy, f1 = float((chosen == labels).mean()), float(f1_score(labels, chosen))
    return {"accuracy": accuracy, "f1": f1, "combined_score": (accuracy + f1) / 2}


def stock(
    model: str, data_dir: Path, task: Task, name: str, seed: int, limit: int | None, mixed_precision: str
) -> dict[str, float]:
    """Plain transformers: what its text-classification example does, without bertkit in the process."""
    import csv

    from datasets import load_dataset
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
    files = {split: str(data_dir / task.folder / f"{split}.tsv") for split in ("train", "dev")}
    # As text, and with quotes as plain characters: the library's defaults lose rows of these files.
    loaded = load_dataset(
        "csv",
        data_files=files,
        delimiter="\t",
        quoting=csv.QUOTE_NONE,
        keep_default_na=False,
        encoding="utf-8-sig",
    )

    def encode(rows: dict[str, list[str]]) -> dict[str, Any]:
        features = tokenizer(
            *(rows[column] for column in task.texts), truncation=True, max_length=MAX_SEQ_LENGTH, padding=False
        )
        labels = [task.classes.index(str(label)) if task.classes else float(label) for label in rows[task.label]]
        return {**features, "labels": labels}  # not "label": that column would stay text

    splits = {}
    for split, rows in loaded.items():
        chosen = rows.select(range(min(limit or len(rows), len(rows))))
        splits[split] = chosen.map(encode, batched=True, remove_columns=rows.column_names)
    with tempfile.TemporaryDirectory() as output_dir:
        trainer = Trainer(
            model=AutoModelForSequenceClassification.from_pretrained(
                model, num_labels=len(task.classes) or 1, dtype="float32", ignore_mismatched_sizes=True
            ),
            args=TrainingArguments(
                output_dir=output_dir,
                per_device_train_batch_size=BATCH_SIZE,
                per_device_eval_batch_size=BATCH_SIZE,
                learning_rate=LEARNING_RATE,
                num_train_epochs=task.epochs,
                train_sampling_strategy="group_by_length",
                save_strategy="no",
                bf16=mixed_precision == "bf16",
                logging_steps=500,
                seed=seed,
                use_cpu=True,
            ),
            train_dataset=splits["train"],
            eval_dataset=splits["dev"],
            processing_class=tokenizer,
            data_collator=DataCollatorWithPadding(tokenizer),
            compute_metrics=stock_scores,
        )
        started = time.perf_counter()
        trainer.train()
        seconds = time.perf_counter() - started
        return {"score": trainer.evaluate()[f"eval_{task.score}"], "train_seconds": round(seconds, 1)}


def bertkit(
    model: str, data_dir: Path, task: Task, name: str, seed: int, limit: int | None, mixed_precision: str
) -> dict[str, float]:
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
            "placement.mixed_precision": mixed_precision,
        }
        command = [sys.executable, "-m", "bertkit", "finetune", "glue", "--task", name, "--model", model]
        command += ["--data-dir", str(data_dir), "--output-dir", str(output_dir), "--seed", str(seed)]
        command += ["--learning-rate", str(LEARNING_RATE), "--global-train-batch-size", str(BATCH_SIZE)]
        command += ["--num-train-epochs", str(task.epochs), "--max-seq-length", str(MAX_SEQ_LENGTH)]
        command += [] if limit is None else ["--max-train-samples", str(limit), "--max-eval-samples", str(limit)]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        results = json.loads((output_dir / "all_results.json").read_text())
        return {"score": results[f"eval_{task.score}"], "train_seconds": round(results["train_runtime"], 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data-dir", required=True, type=Path)
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[42, 43, 44])
    parser.add_argument("--side", choices=["stock", "bertkit", "both"], default="both")
    parser.add_argument("--mixed-precision", choices=["bf16", "no"], default="bf16")
    parser.add_argument("--limit", type=int, default=None, help="rows of each file, for a quick look")
    args = parser.parse_args()

    import torch
    import transformers

    where = {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "mixed_precision": args.mixed_precision,
    }
    sides = {"stock": stock, "bertkit": bertkit}
    chosen = sides if args.side == "both" else {args.side: sides[args.side]}
    summary: dict[str, Any] = {}
    for name in args.tasks:
        scores: dict[str, list[float]] = {side: [] for side in chosen}
        for seed in args.seeds:
            for side, run in chosen.items():
                result = run(args.model, args.data_dir, TASKS[name], name, seed, args.limit, args.mixed_precision)
                scores[side].append(result["score"])
                print(json.dumps({"task": name, "side": side, "seed": seed, **result, **where}), flush=True)
        summary[name] = {
            side: {
                "metric": TASKS[name].score,
                "scores": dict(zip(map(str, args.seeds), (round(value, 4) for value in values), strict=True)),
                "mean": round(statistics.mean(values), 4),
                "sd": round(statistics.stdev(values), 4) if len(values) > 1 else None,
            }
            for side, values in scores.items()
        }
    print(json.dumps({"summary": summary}), flush=True)


if __name__ == "__main__":
    main()
