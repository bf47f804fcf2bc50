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
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from two_sides import compare, finetune, options, training_arguments

BATCH_SIZE, LEARNING_RATE, MAX_SEQ_LENGTH = 32, 5e-5, 128


class Task(NamedTuple):
    """Format of a task's TSV files, for plain transformers."""

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
    """Computes the metrics of transformers' text-classification example with scikit-learn and scipy."""
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


def stock(args: argparse.Namespace, name: str, seed: int) -> dict[str, float]:
    """Plain transformers: what its text-classification example does, without bertkit in the process."""
    import csv

    from datasets import load_dataset
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        set_seed,
    )

    task = TASKS[name]
    set_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    files = {split: str(args.data_dir / task.folder / f"{split}.tsv") for split in ("train", "dev")}
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
        chosen = rows.select(range(min(args.limit or len(rows), len(rows))))
        splits[split] = chosen.map(encode, batched=True, remove_columns=rows.column_names)
    with tempfile.TemporaryDirectory() as output_dir:
        trainer = Trainer(
            model=AutoModelForSequenceClassification.from_pretrained(
                args.model, num_labels=len(task.classes) or 1, dtype="float32", ignore_mismatched_sizes=True
            ),
            args=training_arguments(
                args,
                seed,
                output_dir,
                per_device_train_batch_size=BATCH_SIZE,
                per_device_eval_batch_size=BATCH_SIZE,
                learning_rate=LEARNING_RATE,
                num_train_epochs=task.epochs,
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
        return {task.score: trainer.evaluate()[f"eval_{task.score}"], "train_seconds": round(seconds, 1)}


def bertkit(args: argparse.Namespace, name: str, seed: int) -> dict[str, float]:
    """bertkit's command."""
    task = TASKS[name]
    given = ["glue", "--task", name, "--data-dir", str(args.data_dir), "--max-seq-length", str(MAX_SEQ_LENGTH)]
    given += ["--learning-rate", str(LEARNING_RATE), "--global-train-batch-size", str(BATCH_SIZE)]
    given += ["--num-train-epochs", str(task.epochs)]
    given += [] if args.limit is None else [f"--max-{kind}-samples={args.limit}" for kind in ("train", "eval")]
    with tempfile.TemporaryDirectory() as folder:
        results = finetune(args, seed, Path(folder) / "run", given, eval_strategy="no")
    return {task.score: results[f"eval_{task.score}"], "train_seconds": round(results["train_runtime"], 1)}


if __name__ == "__main__":
    compare(
        options(__doc__, list(TASKS), list(TASKS)).parse_args(),
        {name: task.score for name, task in TASKS.items()},
        {"stock": stock, "bertkit": bertkit},
    )
