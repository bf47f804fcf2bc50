"""One cell of a grid: its run, made by `bertkit.finetune`, and the record of its result."""

from __future__ import annotations

import gc
import inspect
import json
import statistics
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertkit.errors import BertkitError, shortened
from bertkit.files import write_json
from bertkit.grids.definition import RUNS, Cell, Definition
from bertkit.inference.predictor import load_task
from bertkit.locks import FolderInUseError
from bertkit.progress import is_score
from bertkit.run.directory import is_finished, recorded
from bertkit.run.finetune import finetune
from bertkit.run.listing import RECORDS as RECORDS
from bertkit.run.scope import run_scope
from bertkit.run.tracking import run_group
from bertkit.tasks.base import Task
from bertkit.tasks.splits import is_scored

Record = Mapping[str, Any]
"""Result of a cell: ``score``, ``metrics``, ``collapsed``, and ``test_score`` if the task has a labelled test set; or
``error`` if the run failed."""


def record_of(folder: Path, cell: Cell) -> Record | None:
    """Returns the record of a cell in the grid of ``folder``; None if its run has not ended."""
    try:
        return dict(json.loads((folder / RECORDS / f"{cell.name}.json").read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None


def forget_failures(folder: Path) -> None:
    """Removes the records of failed cells, so that they are run again."""
    for path in (folder / RECORDS).glob("*.json"):
        if '"error"' in path.read_text(encoding="utf-8"):
            path.unlink(missing_ok=True)


def run_cell(definition: Definition, cell: Cell, folder: Path) -> Record | None:
    """Runs a cell, or continues its run, and writes the record.

    The lock of the run directory keeps other workers away. It ends with its process, so the cell of a killed worker can
    be taken at once.

    Returns:
        The record; None if another worker is running the cell.
    """
    place = folder / RUNS / cell.name
    try:
        with run_scope(place):
            # Another worker may have finished the cell before this one had the lock.
            return record_of(folder, cell) or _recorded(definition, cell, place, folder)
    except FolderInUseError:
        return None


def _recorded(definition: Definition, cell: Cell, place: Path, folder: Path) -> Record:
    record: dict[str, Any]
    try:
        recipe = definition.recipe_of(cell)
        if not is_finished(place):
            # Without the decorator of `finetune`, since this process holds the lock already.
            with run_group(folder):
                inspect.unwrap(finetune)(recipe, output_dir=place, resume=(place / "recipe.yaml").is_file())
        metrics, (task, _) = metrics_of(place), load_task(str(place), {})
        record = {
            "score": main_score(task, metrics),
            "metrics": metrics,
            "collapsed": bool(recorded(place).get("collapse")),
        }
        if (score := test_score(task, place)) is not None:
            record["test_score"] = score
    except Exception as error:  # any fault of one cell, such as memory that runs out, must not end the others
        record = {"error": described(error)}
        if not isinstance(error, BertkitError):
            record["traceback"] = "".join(traceback.format_exception(error))
    gc.collect()  # a trainer and its model refer to each other
    (folder / RECORDS).mkdir(exist_ok=True)
    write_json(folder / RECORDS / f"{cell.name}.json", record)
    return record


def described(error: Exception) -> str:
    """Formats an error as one line of at most 500 characters."""
    return shortened(f"{type(error).__name__}: {' '.join(str(error).split())}", 500)


def metrics_of(place: Path) -> dict[str, float]:
    """Returns the scores of a finished run on its validation sets, ``eval_…``."""
    found = json.loads((place / "eval_results.json").read_text(encoding="utf-8"))
    return {key: value for key, value in found.items() if is_score(key)}


def test_score(task: Task, place: Path) -> float | None:
    """Returns the main metric of a finished run on its test set, averaged over several; None without labels."""
    path = place / "predict_results.json"
    metrics = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    suffixes = [split.removeprefix("test") for split in task.splits if split.startswith("test")]
    known = [metrics[key] for suffix in suffixes if (key := f"predict_{task.main_metric}{suffix}") in metrics]
    return statistics.mean(known) if known else None


def main_score(task: Task, metrics: Mapping[str, float]) -> float:
    """Returns the main metric of a task, averaged over the validation sets."""
    suffixes = [split.removeprefix("validation") for split in task.splits if is_scored(split)]
    known = [metrics[key] for suffix in suffixes if (key := f"eval_{task.main_metric}{suffix}") in metrics]
    return statistics.mean(known)
