"""Labels where they are worth most: rounds of `bertkit next`, beside random rows and other choices.

    python benchmarks/next.py --model CHECKPOINT --data-dir DATA [--tables trec …] [--seeds 0 1 2] [--ways random …]
                              [--model-of probe|finetune] [--rounds 4] [--recorded FILE] [--vectors FOLDER]

A cell is a table, a seed, a way to choose and a kind of model. 2,000 rows are drawn; 50 of them are labelled, and 50
more are chosen from the others in each of ``--rounds`` rounds. After each, 1,000 other rows are scored. The model is a
linear probe on the vectors of the frozen checkpoint, which ``--vectors`` keeps in a folder, or a fine-tuning with
``--folds 0``. Of a probe on rows that `bertkit next` has chosen, the learning curve is computed after each round too,
to be compared with the accuracies that the next rounds reach. The method was chosen on the first four tables of
`next_page.py`, the others are independent of it.
Results are added to NEXT.json as they end, and those that are there are left out, so the command can be repeated.
`run_all.py --render` writes NEXT.md and the table of the documentation.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from few_rows_tables import ALL, Rows, pool_and_scored
from next_page import CHOSEN_ON
from next_ways import WAYS

from bertkit.features.next.curve import learning_curve, why_no_curve
from bertkit.tasks.base import softmax
from bertkit.tasks.classification.decisions import best_temperatures
from bertkit.training.warm_start.linear_head import fit_by_folds, folds_to_fit
from bertkit.training.warm_start.pairs import differences

HERE = Path(__file__).parent
FILE = HERE / "NEXT.json"
POOL, SCORED, STEP, ROUNDS = 2000, 1000, 50, 4
READ = 5000  # rows of a table that seeds draw from, and that are scored if there are no others
LONGEST = 64  # tokens of a text


def rows_of(table: str, data: Path) -> tuple[Rows, Rows]:
    """Rows to draw from, and those that are scored: no text is in both."""
    rows, scored = pool_and_scored(ALL[table], data)
    random.Random(11).shuffle(rows)
    rows, missing = rows[:READ], max(0, SCORED - len(scored))
    return rows[: len(rows) - missing], [*scored[:SCORED], *rows[len(rows) - missing :]]


class Probe:
    """A linear model of the frozen checkpoint's vectors, calibrated by folds.

    Of pairs it reads, as a fine-tuning on few pairs does at first, how far the vectors are apart and their products
    too; rows are chosen by the vectors alone, as those of a run.
    """

    def __init__(self, vectors: np.ndarray, labels: np.ndarray, rows: list[int], are_pairs: bool):
        self.vectors, self.rows, self.inputs = vectors, rows, vectors
        if are_pairs:
            self.inputs = np.concatenate([vectors, differences(*np.split(vectors, 2, axis=1))], axis=1)
        self.known, self.targets = np.unique(labels[rows], return_inverse=True)
        folds = folds_to_fit(np.arange(len(rows)), self.targets.tolist())
        self.head, self.logits = fit_by_folds(self.inputs[rows], self.targets, folds, len(self.known))
        self.temperature = best_temperatures(self.logits, self.targets)

    def probabilities(self, rows: np.ndarray) -> np.ndarray:
        return softmax(self.head.logits(self.inputs[rows]) / self.temperature)

    def embedded(self, rows: np.ndarray) -> np.ndarray:
        return self.vectors[rows]

    def curve(self, probabilities: np.ndarray) -> list[dict[str, float]]:
        """The learning curve, whose points are one to four rounds ahead; empty if there is none."""
        if why_no_curve(self.targets):
            return []
        own = softmax(self.logits / self.temperature)
        shift = float(probabilities.max(axis=1).mean() - own.max(axis=1).mean())
        is_right = self.logits.argmax(axis=1) == self.targets
        more = [STEP * number for number in range(1, ROUNDS + 1)]
        found = learning_curve(self.vectors[self.rows], self.targets, is_right, shift, more)
        return [{name: round(float(value), 4) for name, value in vars(each).items()} for each in found.points]


class FineTuned:
    """A fine-tuned checkpoint, which held a tenth of the rows out."""

    def __init__(self, texts: list[str], labels: np.ndarray, rows: list[int], model: str, folder: Path):
        import bertkit

        self.texts = texts
        table = [{"text": texts[row], "label": f"c{labels[row]}"} for row in rows]
        settings = {"folds": 0, "max_seq_length": LONGEST, "report": False}
        run = bertkit.finetune("classification", train_file=table, model=model, output_dir=folder, **settings)
        self.loaded = bertkit.load(run.output_dir, device="cpu")
        self.known = np.array([int(name[1:]) for name in self.loaded.task.settings.label_names])

    def probabilities(self, rows: np.ndarray) -> np.ndarray:
        found = self.loaded.predict([self.texts[row] for row in rows], all_probabilities=True)
        return np.array([list(each["probabilities"].values()) for each in found])

    def embedded(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self.loaded.embed([self.texts[row] for row in rows]))

    def curve(self, probabilities: np.ndarray) -> list[dict[str, float]]:
        return []


class Cells:
    """The cells of a table: its rows are read, and their vectors computed, once.

    Attributes:
        labels: class of each row, (N,) int64; the scored rows are the last ones.
    """

    def __init__(self, table: str, data: Path, model: str, kind: str, kept: Path | None):
        rows, scored = rows_of(table, data)
        self.texts = [row["text"] for row in [*rows, *scored]]
        self.seconds = [row["text_b"] for row in [*rows, *scored] if "text_b" in row]
        names = sorted({row["label"] for row in [*rows, *scored]})
        self.labels = np.array([names.index(row["label"]) for row in [*rows, *scored]])
        self.number, self.model, self.kind = len(rows), model, kind
        self.vectors = np.empty(0)
        if kind == "finetune" and self.seconds:
            raise SystemExit(f"{table}: fine-tunings are of single texts")
        if kind == "probe":
            self.vectors = self._vectors(None if kept is None else kept / f"{table}.npy")

    def _vectors(self, place: Path | None) -> np.ndarray:
        import bertkit

        if place is not None and place.exists():
            return np.asarray(np.load(place))
        loaded = bertkit.load(self.model, device="cpu")
        both = [self.texts, self.seconds] if self.seconds else [self.texts]
        found = np.concatenate([loaded.embed(texts, max_seq_length=LONGEST) for texts in both], axis=1)
        if place is not None:
            np.save(place, found)
        return found

    def trained(self, rows: list[int], folder: Path) -> Probe | FineTuned:
        if self.kind == "probe":
            return Probe(self.vectors, self.labels, rows, bool(self.seconds))
        return FineTuned(self.texts, self.labels, rows, self.model, folder)

    def measure(self, way: str, seed: int, rounds: int) -> dict[str, Any]:
        """The scores after each round, and the learning curve of each but the last."""
        pool = np.random.default_rng(seed).permutation(self.number)[:POOL]
        rows = pool[:STEP].tolist()
        scored = np.arange(self.number, len(self.labels))
        scores, curves = [], []
        with tempfile.TemporaryDirectory() as work:
            for number in range(rounds + 1):
                model = self.trained(rows, Path(work) / str(number))
                found = model.known[model.probabilities(scored).argmax(axis=1)]
                scores.append(round(float((found == self.labels[scored]).mean()), 4))
                if number < rounds:
                    others = np.setdiff1d(pool, rows)
                    probabilities = model.probabilities(others)
                    if way == "next":
                        curves.append(model.curve(probabilities))
                    vectors = model.embedded(others), model.embedded(np.array(rows))
                    rows = [*rows, *others[WAYS[way](probabilities, *vectors, STEP, seed)].tolist()]
        return {"scores": scores, **({"curves": curves} if any(curves) else {})}


def as_text(record: dict[str, Any]) -> str:
    """The record as JSON, with a line for each cell."""
    lines = ",\n  ".join(json.dumps(each) for each in record["measured"])
    head = json.dumps({name: value for name, value in record.items() if name != "measured"}, indent=1)
    return head.removesuffix("\n}") + f',\n "measured": [\n  {lines}\n ]\n}}\n'


def wanted(args: argparse.Namespace, done: set[tuple[Any, ...]]) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """The tables with the ways and seeds that are to be measured."""
    for table in args.tables:
        cells = [(way, seed) for seed in args.seeds for way in args.ways]
        if cells := [each for each in cells if (table, each[1], each[0], args.model_of) not in done]:
            yield table, cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data-dir", required=True, type=Path)
    parser.add_argument("--tables", nargs="+", default=list(CHOSEN_ON), choices=list(ALL))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--model-of", default="probe", choices=["probe", "finetune"])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--recorded", type=Path, default=FILE)
    parser.add_argument("--vectors", type=Path)
    args = parser.parse_args()
    from run_all import this_machine

    command = "python benchmarks/next.py --model MODEL --data-dir DATA"
    record: dict[str, Any] = {"command": command, "machine": this_machine(), "measured": []}
    if args.recorded.exists():
        record = json.loads(args.recorded.read_text(encoding="utf-8"))
    git = ["git", "-C", str(HERE), "rev-parse", "--short=8", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    done = {(each["table"], each["seed"], each["way"], each["model"]) for each in record["measured"]}
    for table, cells in wanted(args, done):
        of_table = Cells(table, args.data_dir, args.model, args.model_of, args.vectors)
        for way, seed in cells:
            found = of_table.measure(way, seed, args.rounds)
            print(table, seed, way, *found["scores"], flush=True)
            cell = {"table": table, "seed": seed, "way": way, "model": args.model_of, "commit": commit}
            record["measured"].append({**cell, **found})
            args.recorded.write_text(as_text(record), encoding="utf-8")


if __name__ == "__main__":
    main()
