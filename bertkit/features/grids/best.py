"""Predictions of the test sets and the report, which the runs of a grid leave out, for those of its best setting."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path

from bertkit.features.grids.definition import RUNS, Definition
from bertkit.features.grids.results import GridResults, best_cells
from bertkit.features.grids.workers import record_of, write_record
from bertkit.inference.evaluation import outcome_of
from bertkit.runtime.files import read_json
from bertkit.tasks.splits import splits_to_write
from bertkit.training.runs.evaluate import score_split, suffix_of, write_split
from bertkit.training.runs.listeners import complete_run
from bertkit.training.runs.record import write_results

_RESULTS = "predict_results.json"


def complete_best(definition: Definition, results: GridResults, tests: Sequence[str]) -> None:
    """Predicts the test sets by the best run, those with labels by all runs of its setting, and writes its report.

    What is there stays. The score on the test sets is added to the record of a run.
    """
    folder = results.output_dir
    if results.best_run is None:
        return
    cells = sorted(best_cells(definition, results), key=lambda cell: cell.name != results.best_run) if tests else []
    for cell in cells:
        place = folder / RUNS / cell.name
        if not (place / _RESULTS).is_file():
            _predict(place, tests)
        written = read_json(place / _RESULTS)
        names = [f"predict_{results.metric}{suffix_of(name)}" for name in tests]
        scores = [written[name] for name in names if name in written]
        if not scores:
            break  # without labels the predictions of the best run are enough
        # A process may be killed between the results and the record.
        write_record(folder, cell, {**(record_of(folder, cell) or {}), "test_score": statistics.mean(scores)})
    best = folder / RUNS / results.best_run
    complete_run(definition.recipe, best, lambda: outcome_of(best, with_training=True))


def _predict(place: Path, tests: Sequence[str]) -> None:
    """Writes predictions and results of test sets, with the scores of those that have labels."""
    metrics: dict[str, float] = {}
    for name in tests:
        outcome = outcome_of(place, name)
        results = score_split(outcome, name)
        metrics |= {key: value for key, value in results.items() if math.isfinite(value)}
        if name in splits_to_write(outcome.task, tests):
            write_split(outcome, name, place)
    write_results(place, {"predict": metrics})
