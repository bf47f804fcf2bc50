"""Choice of the best epoch for several labels per row that are rare: F1 at 0.5 against average precision.

    python benchmarks/sparse_labels.py --model MODEL --squad-file TRAIN_JSON [--train N] [--validation N] [--seed N]

The rows are questions of SQuAD. The labels are the four articles with the share of questions that is closest to 1 %;
all other questions have no label. Two runs differ in ``task.main_metric`` only, so their weights are the same after
each epoch, and they keep different ones.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import bertkit

_LABELS, _SHARE = 4, 0.01


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--squad-file", type=Path, required=True)
    parser.add_argument("--train", type=int, default=4000)
    parser.add_argument("--validation", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=42)
    given = parser.parse_args()

    rows = _rows(given.squad_file)
    splits = {"train": rows[: given.train], "validation": rows[given.train :][: given.validation]}
    for name, chosen in splits.items():
        found = sum(len(row["labels"]) for row in chosen) / _LABELS / len(chosen)
        sys.stdout.write(f"{name}: {len(chosen)} rows, {found:.2%} positives per label\n")
    with TemporaryDirectory() as scratch:
        files = {f"data.{name}_file": _written(Path(scratch) / f"{name}.jsonl", splits[name]) for name in splits}
        for metric in ("f1_micro", "average_precision"):
            run = bertkit.finetune(
                "finetune/classification",
                output_dir=Path(scratch) / metric,
                overrides={
                    **files,
                    "model.name_or_path": given.model,
                    "data.max_seq_length": 32,
                    "task.main_metric": metric,
                    "train.seed": given.seed,
                    "train.num_train_epochs": 4,
                    "train.learning_rate": 1e-4,
                    "train.global_train_batch_size": 16,
                },
            )
            state = json.loads((run.output_dir / "trainer_state.json").read_text())
            for entry in state["log_history"]:
                if "eval_f1_micro" in entry and metric == "f1_micro":
                    sys.stdout.write(f"epoch {entry['epoch']:g}: {_scores(entry)}\n")
            sys.stdout.write(f"kept by {metric}: {_scores(run.metrics)}\n")


def _rows(file: Path) -> list[dict[str, object]]:
    """Returns the questions of all articles in random order, with the labels of the four rare articles."""
    articles = json.loads(file.read_text())["data"]
    questions = {
        article["title"]: [each["question"].strip() for part in article["paragraphs"] for each in part["qas"]]
        for article in articles
    }
    wanted = _SHARE * sum(map(len, questions.values()))
    rare = sorted(questions, key=lambda title: abs(len(questions[title]) - wanted))[:_LABELS]
    rows: list[dict[str, object]] = [
        {"text": text, "labels": [title] if title in rare else []}
        for title, texts in questions.items()
        for text in texts
    ]
    random.Random(0).shuffle(rows)
    return rows


def _written(file: Path, rows: list[dict[str, object]]) -> str:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def _scores(metrics: dict[str, float]) -> str:
    return f"F1 at 0.5 {metrics['eval_f1_micro']:.4f}, average precision {metrics['eval_average_precision']:.4f}"


if __name__ == "__main__":
    main()
