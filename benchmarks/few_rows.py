"""Fine-tuning on small tables with the defaults, beside what else can be done with the same rows and checkpoint.

    python benchmarks/few_rows.py --model CHECKPOINT --data-dir DATA [--tables sst2 …] [--rows 100 10c …]
                                  [--draws 0 1 2] [--ways words …] [--before CLONE] [--recorded FILE] [--again]
                                  [--keep FOLDER]

A cell is a table, a number of rows and a draw of them. Every way sees the same rows and answers the same other rows, up
to 1,000, in a process of its own with one thread: words under a linear model, the checkpoint's vectors under one,
SetFit, transformers' Trainer, bertkit, and with ``--before`` the bertkit of another clone. Measured are the score on
the other rows (accuracy; average precision of all pairs of a row and one of several labels; Pearson's correlation of
numbers), the log loss, the expected calibration error (15 bins), the CPU seconds of the process, and what bertkit said
of its own score, beside its accuracy on up to 1,000 further rows of the file that the training rows are of. Results
are added to FEW_ROWS.json as they end, and those that are there are left out, so the command can be repeated; with
``--again``, those of bertkit at other commits are measured again. ``--keep`` keeps the rows and what
bertkit's run predicts for them, out of folds and on the other rows, in a folder of each cell.
`run_all.py --render` writes FEW_ROWS.md and the table of the documentation.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from few_rows_tables import ALL, TABLES, Rows, Table, drawn
from few_rows_ways import WAYS

HERE = Path(__file__).parent
FILE = HERE / "FEW_ROWS.json"
BINS = 15
SMALLEST = 1e-7  # probability that a log loss counts
CODE = "bertkit", "recipes"  # what decides the results of bertkit
Key = tuple[str, str, int, str]


# ---- scores ---------------------------------------------------------------------------------------------------------


def of_classes(answers: list[dict[str, float]], other: Rows) -> dict[str, float]:
    given = [row["label"] for row in other]
    best = [max(each, key=each.__getitem__) for each in answers]
    right = np.array([answer == label for answer, label in zip(best, given, strict=True)])
    of_label = np.array([each.get(label, 0.0) for each, label in zip(answers, given, strict=True)])
    sure = np.array([each[answer] for each, answer in zip(answers, best, strict=True)])
    return {"score": float(right.mean()), "loss": log_loss(of_label), "calibration": calibration(sure, right)}


def of_several(answers: list[dict[str, float]], other: Rows) -> dict[str, float]:
    from sklearn.metrics import average_precision_score

    names = sorted(set(answers[0]).union(*(row["label"] for row in other)))
    chances = np.array([[each.get(name, 0.0) for name in names] for each in answers])
    given = np.array([[name in row["label"] for name in names] for row in other])
    precision = average_precision_score(given.ravel(), chances.ravel())
    of_truth = np.where(given, chances, 1 - chances)
    return {
        "score": float(precision),
        "loss": log_loss(of_truth),
        "calibration": calibration(chances.ravel(), given.ravel()),
    }


def of_numbers(answers: list[float], other: Rows) -> dict[str, float]:
    return {"score": float(np.corrcoef(answers, [row["label"] for row in other])[0, 1])}


def log_loss(chances: np.ndarray) -> float:
    return float(-np.log(np.clip(chances, SMALLEST, 1)).mean())


def calibration(said: np.ndarray, right: np.ndarray) -> float:
    """Expected calibration error: mean distance of what is said from what is right, by bins of equal width."""
    of_bin = np.minimum((said * BINS).astype(int), BINS - 1)
    parts = [of_bin == number for number in range(BINS)]
    return float(sum(abs(said[part].mean() - right[part].mean()) * part.mean() for part in parts if part.any()))


SCORES: dict[str, Any] = {"classes": of_classes, "several": of_several, "numbers": of_numbers}


# ---- cells ----------------------------------------------------------------------------------------------------------


def measure(
    way: str, table: Table, parts: tuple[Rows, Rows, Rows], model: str, package: Path, kept: Path | None = None
) -> dict[str, Any]:
    """Runs one way in a process of its own; returns its scores and seconds, or the end of what it printed.

    Args:
        parts: the training rows, the rows to score, and rows like those of the training.
        package: folder of the bertkit that is imported.
        kept: folder to which the rows and the predictions are copied; None for none.
    """
    program = "bertkit" if way == "before" else way
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        for name, rows in zip(("train", "other", "alike"), parts, strict=True):
            (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        paths = os.pathsep.join(filter(None, (str(package), os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths, "HF_HUB_OFFLINE": "1"}
        command = [sys.executable, str(HERE / "few_rows_ways.py"), program, table.kind, work, model]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            return {"failed": done.stderr[-500:]}
        answers = json.loads((folder / "answers.json").read_text(encoding="utf-8"))
        if kept is not None:
            kept.mkdir(parents=True, exist_ok=True)
            for name in ("train.jsonl", "other.jsonl", "answers.json", "run/out_of_fold.jsonl"):
                if (folder / name).is_file():
                    shutil.copy(folder / name, kept)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        found = {name: round(value, 4) for name, value in SCORES[table.kind](answers, parts[1]).items()}
        estimate = folder / "estimate.json"
        said = {"estimate": json.loads(estimate.read_text(encoding="utf-8"))} if estimate.is_file() else {}
        return {**found, "seconds": round(seconds, 1), **said}


def record_of(file: Path) -> dict[str, Any]:
    """Reads the results so far."""
    from run_all import this_machine

    if file.exists():
        return dict(json.loads(file.read_text(encoding="utf-8")))
    command = "python benchmarks/few_rows.py --model MODEL --data-dir DATA --before CLONE"
    return {"command": command, "machine": this_machine(), "measured": []}


def key_of(each: dict[str, Any]) -> Key:
    return each["table"], each["rows"], each["draw"], each["way"]


def wanted(args: argparse.Namespace) -> Iterator[Key]:
    """All that is to be measured, the small cells first."""
    ways = [*args.ways, *(["before"] if args.before else [])]
    for draw in args.draws:
        for rows in args.rows:
            for table in args.tables:
                kind = ALL[table].kind
                if rows.endswith("c") and kind != "classes":
                    continue
                yield from ((table, rows, draw, way) for way in ways if (way, kind) != ("setfit", "numbers"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--tables", nargs="+", choices=ALL, default=list(TABLES))
    parser.add_argument(
        "--rows", nargs="+", default=["100", "300", "1000"], help="a number; 10c for 10 of each class; all"
    )
    parser.add_argument("--draws", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--before", type=Path, help="a clone of another commit of bertkit")
    parser.add_argument("--recorded", type=Path, default=FILE)
    parser.add_argument("--again", action="store_true", help="repeat bertkit where it was measured at another commit")
    parser.add_argument("--keep", type=Path, help="folder for the rows and predictions of bertkit")
    args = parser.parse_args()
    from run_all import commit_of

    for key in wanted(args):
        name, rows, draw, way = key
        table = ALL[name]
        package = args.before if way == "before" else HERE.parent
        at = commit_of(package, CODE) if way in ("bertkit", "before") else None
        record = record_of(args.recorded)
        done = {key_of(each): each for each in record["measured"]}
        if key in done and (done[key].get("commit") == at or not args.again):
            continue
        parts = drawn(table, args.data_dir, rows, draw)
        kept = args.keep / "-".join((name, rows, str(draw))) if args.keep and way == "bertkit" else None
        found = measure(way, table, parts, args.model, package, kept)
        print(json.dumps({"cell": key, **found}), flush=True)
        if "failed" in found:
            continue
        record = record_of(args.recorded)
        kept = [each for each in record["measured"] if key_of(each) != key]
        entry = {"table": name, "rows": rows, "draw": draw, "way": way, "examples": len(parts[0]), **found}
        record["measured"] = [*kept, {**entry, **({"commit": at} if at else {})}]
        args.recorded.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
