"""The schedule that follows data and encoder, beside the best of a grid of learning rates and epochs.

    python benchmarks/schedule.py --model CHECKPOINT --data-dir GLUE [--tasks sst2 rte] [--rows 100 300 1000]
                                  [--seeds 42]

Each cell is a table of the first rows of a task's training set; the first 400 rows of its dev set are both the
validation set, by which epochs are compared, and what is scored. The grid: learning rates 2e-5, 5e-5, 1e-4 and 3, 6, 12
epochs. Prints one JSON line for each run, and a summary: the share of cells in which the chosen schedule is at most one
point below the best of the nine, the largest difference in points, and the seconds of both.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
import time
from pathlib import Path

import bertkit
from bertkit.tables import read_table

RATES, EPOCHS = (2e-5, 5e-5, 1e-4), (3, 6, 12)
SCORED = 400  # rows of a dev set
TASKS = {"sst2": ("SST-2", ("sentence",), "label"), "rte": ("RTE", ("sentence1", "sentence2"), "label")}


def write_table(file: Path, rows: int, folder: Path, texts: tuple[str, ...], label: str) -> None:
    """Writes the first rows of a TSV file of GLUE as CSV, its columns of texts and labels."""
    table = read_table(file.with_suffix(".tsv"))
    with (folder / file.with_suffix(".csv").name).open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([*texts, label])
        writer.writerows(list(zip(*(table.columns[name] for name in (*texts, label)), strict=True))[:rows])


def run_once(
    folder: Path, model: str, texts: tuple[str, ...], seed: int, given: dict[str, float]
) -> tuple[float, float]:
    """Fine-tunes once; returns the accuracy in points and the seconds."""
    overrides = {"data.train_file": str(folder / "train.csv"), "data.validation_file": str(folder / "dev.csv")}
    overrides |= {
        "task.text_columns": list(texts),
        "task.label_column": "label",
        "train.seed": seed,
        "train.report": False,
    }
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as out:
        run = bertkit.finetune(
            "finetune/classification", model=model, output_dir=f"{out}/run", overrides=overrides | given
        )
    return 100 * run.metrics["eval_accuracy"], time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--rows", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--seeds", type=int, nargs="+", default=[42])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    args = parser.parse_args()
    grid = [{"train.learning_rate": rate, "train.num_train_epochs": epochs} for rate in RATES for epochs in EPOCHS]
    below, seconds = [], {"chosen": 0.0, "three_epochs": 0.0, "grid": 0.0}
    for name in args.tasks:
        source, texts, label = TASKS[name]
        for rows in args.rows:
            for seed in args.seeds:
                with tempfile.TemporaryDirectory() as work:
                    folder = Path(work)
                    write_table(args.data_dir / source / "train", rows, folder, texts, label)
                    write_table(args.data_dir / source / "dev", SCORED, folder, texts, label)
                    scores = []
                    for given in [{}, *grid]:
                        score, taken = run_once(folder, args.model, texts, seed, given)
                        scores.append(score)
                        seconds["grid" if given else "chosen"] += taken
                        seconds["three_epochs"] += taken if given == grid[0] else 0.0
                        line = {"task": name, "rows": rows, "seed": seed, **given}
                        print(json.dumps({**line, "accuracy": round(score, 2), "seconds": round(taken, 1)}), flush=True)
                below.append(max(scores[1:]) - scores[0])
    within = sum(each <= 1 for each in below) / len(below)
    points = {"within_a_point": round(within, 3), "most_below": round(max(below), 2), "cells": len(below)}
    print(json.dumps({**points, **{f"seconds_{name}": round(value) for name, value in seconds.items()}}))


if __name__ == "__main__":
    main()
