"""The schedule that follows data and encoder, beside the best of a grid of nine, on seven tables.

    python benchmarks/schedule.py --model CHECKPOINT --data-dir DATA [--layers 6 2] [--rows 100 300 1000]
                                  [--tables sst2 rte …] [--seeds 42] [--recorded FILE] [--again]

A cell is a table of some rows, an encoder (the first layers of the checkpoint) and a seed. A run sees one file, of
which it holds out a tenth, and is scored on other rows. Its grid: learning rates 2e-5, 5e-5, 1e-4 and 3, 6, 12 epochs,
of which each run keeps the best by the tenth.
The best of nine is the one with the highest score on the scored rows, so it is selected with their noise; each cell
therefore has the interval of the paired difference to it too, and the score of always answering the most frequent
class: where no run exceeds that by more than chance, nothing was learned that a schedule could lose. Cells are added
to SCHEDULE.json as they end, and those that are there are left out, so the command can be repeated; with ``--again``
the chosen schedule and the best of nine run again in cells of other commits. Seconds are CPU seconds of the process,
with everything that `bertkit finetune` does but the states of the optimizer in checkpoints. `run_all.py --render`
writes SCHEDULE.md and the sentence of the documentation, by `schedule_page.py`.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

FILE = Path(__file__).parent / "SCHEDULE.json"
SCORED = 300  # rows that are scored
RATES, EPOCHS = (2e-5, 5e-5, 1e-4), (3, 6, 12)
GRID = [{"learning_rate": rate, "num_train_epochs": epochs} for rate in RATES for epochs in EPOCHS]
PHRASES = ("ADJP", "ADVP", "PRT", "SBAR")
Rows = list[dict[str, Any]]


# ---- tables ---------------------------------------------------------------------------------------------------------


def tsv(texts: tuple[str, ...], label: str, *files: str) -> Callable[[Path], tuple[Rows, Rows]]:
    """Training and other rows of two TSV files, in their order."""

    def read(data: Path) -> tuple[Rows, Rows]:
        sides = []
        for file in files:
            with (data / file).open(encoding="utf-8-sig", newline="") as stream:
                lines = csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
                names = ("text_a", "text_b")[: len(texts)]
                sides.append(
                    [
                        {**{to: line[name] for to, name in zip(names, texts, strict=True)}, "label": line[label]}
                        for line in lines
                    ]
                )
        return sides[0], sides[1]

    return read


def books(data: Path) -> tuple[Rows, Rows]:
    """Paragraphs of 20 to 80 words, and the book that each is from."""
    rows = []
    for file in sorted((data / "text" / "books").glob("*.txt")):
        text = file.read_text(encoding="utf-8-sig").partition("*** START OF")[2].partition("*** END OF")[0]
        for paragraph in text.split("\n\n"):
            words = paragraph.split()
            if 20 <= len(words) <= 80:
                rows.append({"text_a": " ".join(words), "label": file.stem})
    random.Random(0).shuffle(rows)
    return rows[:5000], rows[5000:]


def phrases(data: Path) -> tuple[Rows, Rows]:
    """Sentences of CoNLL-2000, and which of four types of phrases occur in each: several labels, or none."""

    def of_file(name: str) -> Rows:
        sentences = (data / "ner/conll2000-chunking" / name).read_text(encoding="utf-8").strip().split("\n\n")
        tokens = [[line.split(" ") for line in sentence.split("\n")] for sentence in sentences]
        kinds = [{line[-1].removeprefix("B-") for line in sentence} for sentence in tokens]
        return [
            {"text_a": " ".join(line[0] for line in sentence), "label": sorted(of.intersection(PHRASES))}
            for sentence, of in zip(tokens, kinds, strict=True)
        ]

    return of_file("train.txt"), of_file("test.txt")


def entities(data: Path) -> tuple[Rows, Rows]:
    """Sentences of WNUT-17, as their lines."""

    def of_file(name: str) -> Rows:
        lines = (data / "ner/wnut17" / name).read_text(encoding="utf-8").split("\n")
        sentences = "\n".join(line if line.strip() else "" for line in lines).strip().split("\n\n")
        return [{"lines": sentence.strip("\n")} for sentence in sentences if sentence.strip()]

    return of_file("train.conll"), of_file("dev.conll")


def write_json_lines(rows: Rows, file: Path) -> None:
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def write_sentences(rows: Rows, file: Path) -> None:
    file.write_text("\n\n".join(row["lines"] for row in rows) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class Source:
    """A table: its rows, the form of its files, and how it is fine-tuned on.

    Attributes:
        title: name for readers.
        read: returns the training rows and the rows to score, by the folder of the data.
        recipe: recipe of the task.
        metric: its score; one that predictions give.
        settings: values of the recipe.
        write: writes rows to a file.
        suffix: of the files.
    """

    title: str
    read: Callable[[Path], tuple[Rows, Rows]]
    recipe: str = "finetune/classification"
    metric: str = "accuracy"
    settings: dict[str, Any] = field(default_factory=lambda: {"task.text_columns": ["text_a"]})
    write: Callable[[Rows, Path], None] = write_json_lines
    suffix: str = ".jsonl"


PAIR = {"task.text_columns": ["text_a", "text_b"]}
SOURCES = {
    "sst2": Source("SST-2", tsv(("sentence",), "label", "glue/SST-2/train.tsv", "glue/SST-2/dev.tsv")),
    "sick": Source(
        "SICK (entailment)",
        tsv(
            ("sentence_A", "sentence_B"),
            "entailment_judgment",
            "nli/sick/SICK_train.txt",
            "nli/sick/SICK_test_annotated.txt",
        ),
        settings=PAIR,
    ),
    "wnut17": Source("WNUT-17", entities, "finetune/ner", "overall_f1", {}, write_sentences, ".conll"),
    "phrases": Source("CoNLL-2000 (types of phrases, several labels)", phrases, metric="f1_micro"),
    "books": Source("nine books (which a paragraph is from)", books),
    "mrpc": Source(
        "MRPC", tsv(("#1 String", "#2 String"), "Quality", "glue/MRPC/train.tsv", "glue/MRPC/dev.tsv"), settings=PAIR
    ),
    "rte": Source(
        "RTE", tsv(("sentence1", "sentence2"), "label", "glue/RTE/train.tsv", "glue/RTE/dev.tsv"), settings=PAIR
    ),
}  # fmt: skip


# ---- runs -----------------------------------------------------------------------------------------------------------


def first_layers(model: str, layers: int, folder: Path) -> str:
    """A checkpoint of the first layers of an encoder; the encoder itself if it has no more."""
    from transformers import AutoModel, AutoTokenizer

    network = AutoModel.from_pretrained(model, num_hidden_layers=layers)
    network.save_pretrained(folder)
    AutoTokenizer.from_pretrained(model).save_pretrained(folder)
    return str(folder)


def predictions(run: Path, file: Path) -> Any:
    """The predictions of a run for other rows than its own, as a side of a comparison."""
    from bertkit.inference.comparison import system_of
    from bertkit.inference.predicted import Outcome
    from bertkit.inference.predictor import build_predictor, load_task
    from bertkit.tasks.folds import load_splits
    from bertkit.tasks.splits import ColumnsOf

    task, config = load_task(str(run), {"validation_file": str(file)})
    task, splits = load_splits(task, ["validation"])
    predictor, rows = build_predictor(str(run), task, config, precision="float32"), splits["validation"].examples
    features = task.encode(ColumnsOf(rows), predictor.tokenizer)
    return system_of(run.name, [Outcome(task, predictor.outputs(features), features, ColumnsOf(rows), str(file))])


def recipe_of(source: Source, file: Path, seed: int, given: dict[str, float]) -> Any:
    """The recipe for a table, with these values of learning rate and epochs, or a schedule that follows the data."""
    from dataclasses import replace

    from bertkit.tasks.registry import load_recipe

    recipe = load_recipe(source.recipe, {**source.settings, "data.train_file": str(file), "train.seed": seed})
    train = {key: value for key, value in recipe.train.items() if key not in GRID[0]}
    always = {"eval_strategy": "epoch", "save_only_model": True, "fit_schedule": True, "report": False}
    of_grid = {"load_best_model_at_end": True} if given else {}
    return replace(recipe, train={**train, **always, **of_grid, **given})


def cell(
    source: Source, folder: Path, model: str, seed: int, grid: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """Fine-tunes with the chosen values and with those of the grid; compares the scores.

    Args:
        grid: its runs, if they have been measured; then only the best of them is repeated.
    """
    import bertkit
    from bertkit.inference.comparison import compare_systems

    train, other = (folder / f"{name}{source.suffix}" for name in ("train", "other"))
    systems, runs = [], []
    best = None if grid is None else best_of(grid)
    for number, given in enumerate([{}, *(GRID if best is None else [GRID[best]])]):
        started = time.process_time()
        out = folder / f"run-{number}"
        bertkit.finetune(recipe_of(source, train, seed, given), model=model, output_dir=out)
        seconds = time.process_time() - started
        systems.append(predictions(out, other))
        own = systems[-1]
        score = own.scores(own.runs[0], own.references)[source.metric]
        runs.append({**given, "score": points(score), "seconds": round(seconds, 1)})
        print(json.dumps(runs[-1]), file=sys.stderr, flush=True)
        for left in out.glob("**/*.safetensors"):
            left.unlink()
    if grid is None or best is None:
        grid = runs[1:]
        best = best_of(grid)
        of_best = systems[1 + best]
    else:
        grid = [*grid[:best], runs[1], *grid[best + 1 :]]
        of_best = systems[1]
    test = compare_systems([of_best, systems[0]], source.metric).comparisons[0].by_example
    interval = None if test.low is None else [points(test.low), points(test.high)]
    return {"chosen": runs[0], "best": grid[best], "interval": interval, "grid": grid}


def best_of(grid: list[dict[str, Any]]) -> int:
    """Number of the run of a grid with the highest score, the first of equal ones."""
    return max(range(len(grid)), key=lambda number: grid[number]["score"])


def guessing(train: Rows, scored: Rows) -> float:
    """Accuracy of always answering the most frequent class of the training rows, in points."""
    ((most, _),) = Counter(row["label"] for row in train).most_common(1)
    return points(mean(row["label"] == most for row in scored))


def points(score: float) -> float:
    """A score in points of a hundred."""
    return round(100 * score, 2)


# ---- cells -----------------------------------------------------------------------------------------------------------


def record_of(file: Path) -> dict[str, Any]:
    """The cells that have been measured so far."""
    from run_all import this_machine

    if file.exists():
        return dict(json.loads(file.read_text(encoding="utf-8")))
    command = "python benchmarks/schedule.py --model MODEL --data-dir DATA"
    return {"command": command, "machine": this_machine(), "cells": []}


def key_of(each: dict[str, Any]) -> tuple[Any, ...]:
    return each["table"], each["rows"], each["layers"], each["seed"]


def cells_to_measure(args: argparse.Namespace) -> Iterable[dict[str, Any]]:
    """All cells, the small ones first."""
    for seed in args.seeds:
        for rows in args.rows:
            for layers in args.layers:
                for table in args.tables:
                    yield {"table": table, "rows": rows, "layers": layers, "seed": seed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--layers", type=int, nargs="+", default=[6, 2])
    parser.add_argument("--rows", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--tables", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[42])
    parser.add_argument("--recorded", type=Path, default=FILE)
    parser.add_argument("--again", action="store_true", help="repeat what is chosen in cells of other commits")
    args = parser.parse_args()
    from run_all import commit

    for wanted in cells_to_measure(args):
        record = record_of(args.recorded)
        before = next((each for each in record["cells"] if key_of(each) == key_of(wanted)), None)
        if before is not None if not args.again else before is None or before["commit"] == commit():
            continue
        source = SOURCES[wanted["table"]]
        with tempfile.TemporaryDirectory() as work:
            folder = Path(work)
            train, other = source.read(args.data_dir)
            train, other = train[: wanted["rows"]], other[:SCORED]
            guess = guessing(train, other) if source.metric == "accuracy" else None
            source.write(train, folder / f"train{source.suffix}")
            source.write(other, folder / f"other{source.suffix}")
            model = first_layers(args.model, wanted["layers"], folder / "model")
            grid = None if before is None else before["grid"]
            measured = {
                **wanted,
                "commit": commit(),
                "guess": guess,
                **cell(source, folder, model, wanted["seed"], grid),
            }
        if before is None:
            record["cells"].append(measured)
        else:
            record["cells"][record["cells"].index(before)] = measured
        args.recorded.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        print(json.dumps({**wanted, "chosen": measured["chosen"], "best": measured["best"]}), flush=True)


if __name__ == "__main__":
    main()
