"""Comparison of runs, grids and files of predictions on the same examples: is a difference real?"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from bertkit import metrics
from bertkit.data.tables import Table, read_table
from bertkit.data.tables.classes import is_missing, is_number, names_of_labels
from bertkit.data.tables.labels import infer_problem
from bertkit.data.tables.table import to_number
from bertkit.data.tables.table_files import is_table
from bertkit.features.grids.definition import GRID_FILE, RUNS
from bertkit.features.grids.results import best_cells, limits, read_results
from bertkit.inference.comparison import Comparisons, System, collapse_notes, compare_systems, system_of
from bertkit.inference.evaluation import outcome_of
from bertkit.inference.facts import collapse_of, decision
from bertkit.inference.outcome import Outcome
from bertkit.metrics.intervals import MeanDecomposition, mean_terms, terms_of
from bertkit.runtime.errors import BertkitError, DataError, RecipeError, noted, raise_all, raise_listed, shown
from bertkit.runtime.reading.paths import workbook_and_sheet

_PREDICTION, _GOLD = "prediction", "gold"
_OF_CLASSES, _OF_NUMBERS = ("accuracy",), ("pearson", "spearmanr", "mse")


def compare(*systems: str | Path, metric: str | None = None) -> Comparisons:
    """Compares the predictions of each further system with those of the first one on the same examples.

    A run is compared by its predictions for its validation set, a grid by those of all runs of its best setting. A file
    of predictions is a table with the columns ``prediction`` and ``gold``.

    Args:
        systems: run directories, grids or files; at least two.
        metric: name of a metric of the task; its main metric by default, or the first one that can be computed from
            predictions. For files ``accuracy`` of classes, or ``pearson``, ``spearmanr`` or ``mse`` of numbers; by
            default ``gold`` is read as the labels of a table are: words and at most 20 different whole numbers are
            classes, more than 20 different numbers are numbers.

    Raises:
        RecipeError: fewer than two systems, or no such metric.
        DataError: a system is neither a run, a grid nor a file of predictions; the systems have different examples; a
            file is beside a run of rankings, lacks a column, or has a value that cannot be read; or ``gold`` has few
            different numbers with decimals, which can be classes or numbers.

    Examples:
        ```python
        comparisons = bertkit.compare("my-reviews", "my-reviews-2")
        comparisons.comparisons[0].models  # a sentence
        ```
    """
    if len(systems) == 1 and isinstance(systems[0], (list, tuple)):
        raise RecipeError("compare: got a list; give its entries as arguments: compare(*runs), or compare('a', 'b')")
    if len(systems) < 2:
        raise RecipeError("compare: give two or more run directories, grids or files of predictions")
    sides: list[System | Table] = []
    faults: list[str] = []
    for place in systems:
        with noted(faults, BertkitError):
            sides.append(_read_system(Path(place)))
    raise_all(faults)
    tables = [each for each in sides if isinstance(each, Table)]
    runs = [each for each in sides if isinstance(each, System)]
    if not tables:
        return compare_systems(runs, metric)
    if rankings := [each.name for each in runs if each.has_numbers and np.ndim(each.runs[0]) > 1]:
        raise DataError(
            f"{rankings[0]}: rankings are scored by query, and a file has a prediction for each example; compare runs "
            "of rankings with each other"
        )
    note = ""
    if metric in _OF_NUMBERS or metric in _OF_CLASSES:
        has_numbers = metric in _OF_NUMBERS
    elif runs:
        has_numbers = runs[0].has_numbers
    else:
        problem, reason = infer_problem(tables[0], _GOLD, ("--metric accuracy", "--metric pearson"))
        has_numbers = problem == "regression"
        note = f"{tables[0].source}: {_GOLD!r} has numbers, {reason}" if has_numbers else ""
    results = compare_systems(_read_numbers(sides) if has_numbers else _read_classes(sides, metric), metric)
    return dataclasses.replace(results, notes=(*results.notes, note)) if note else results


# ---- systems --------------------------------------------------------------------------------------------------------


def _read_system(place: Path) -> System | Table:
    if not os.path.exists(workbook_and_sheet(place)[0]):
        raise DataError(f"{place}: does not exist; give a run directory, a grid, or a file of predictions")
    if not place.is_dir() and is_table(place):
        return _read_predictions(place)
    if not (place / GRID_FILE).is_file():
        return system_of(str(place), [outcome_of(place)])
    definition, results = read_results(place)
    if results.best is None:
        raise DataError(f"{place}: no run of this grid has finished")
    cells = best_cells(definition, results)
    if definition.folds is None:
        of_seeds = system_of(str(place), [outcome_of(place / RUNS / cell.name) for cell in cells])
        return dataclasses.replace(of_seeds, notes=tuple(limits(results)))
    seeds = [[cell for cell in cells if cell.seed == seed] for seed in definition.seeds]
    complete = [of_seed for of_seed in seeds if len(of_seed) == definition.folds]
    if not complete:
        raise DataError(f"{place}: no seed of the best setting has finished all folds")
    of_folds = [[outcome_of(place / RUNS / cell.name) for cell in of_fold] for of_fold in zip(*complete, strict=True)]
    return dataclasses.replace(_join_folds(str(place), of_folds), notes=tuple(limits(results)))


def _join_folds(name: str, of_folds: Sequence[Sequence[Outcome]]) -> System:
    """Returns the outcomes of each fold, one of each seed, as a system whose examples are the whole training set.

    Each example is predicted by models that did not see it.
    """
    folds = [system_of(name, outcomes) for outcomes in of_folds]
    sizes = [len(fold.references) for fold in folds]
    starts = np.cumsum([0, *sizes[:-1]])  # of the numbers of texts: copies are in one fold
    texts = [outcomes[0].same_texts + start for outcomes, start in zip(of_folds, starts, strict=True)]
    return dataclasses.replace(
        folds[0],
        runs=[[*chain(*of_run)] for of_run in zip(*(fold.runs for fold in folds), strict=True)],
        references=[*chain(*(fold.references for fold in folds))],
        digests=[*chain(*(fold.digests or [] for fold in folds))],
        same_texts=np.concatenate(texts),
        places=[*chain(*(fold.places for fold in folds))],
        folds=tuple(sizes),
        verdict=(),  # a verdict is of one run
    )


# ---- files of predictions -------------------------------------------------------------------------------------------


def _read_predictions(place: Path) -> Table:
    """Reads a file of predictions."""
    table = read_table(place)
    columns = table.select(_PREDICTION, _GOLD)
    raise_listed(
        [
            f"{table.place(row)}: no value for {name!r}"
            for name, values in columns.items()
            for row, value in enumerate(values)
            if not isinstance(value, list) and is_missing(value)
        ]
    )
    return table


def _list_values(system: System | Table) -> list[Sequence[Any]]:
    """Returns the predictions of each run of a system, and the references, as plain data."""
    if isinstance(system, Table):
        return [system.columns[_PREDICTION], system.columns[_GOLD]]
    return [system.to_labels(values) for values in (*system.runs, system.references)]


def _replace_values(
    system: System | Table, columns: Sequence[Sequence[Any]], measure: Any, terms: Any, main_metric: str
) -> System:
    """Returns a system with other predictions and references: ``columns`` of each run, and of the references."""
    *runs, gold = columns
    if isinstance(system, Table):
        places = [f"{system.unit} {number}" for number in system.numbers_of_rows]
        notes = collapse_notes(
            system.source, [collapse_of(*(map(decision, values) for values in _list_values(system)))]
        )
        return System(system.source, runs, gold, measure, terms, main_metric, list, places=places, notes=notes)
    return System(system.name, runs, gold, measure, terms, main_metric, list, places=system.places, notes=system.notes)


def _read_numbers(systems: Sequence[System | Table]) -> list[System]:
    """Returns systems whose predictions and references are floats."""
    columns = [[list(map(to_number, values)) for values in _list_values(each)] for each in systems]
    raise_listed(
        [
            f"{each.place(row)}: {name!r} is {shown(each.columns[name][row])}; expected a number"
            for each, numbers in zip(systems, columns, strict=True)
            if isinstance(each, Table)
            for name, values in zip((_PREDICTION, _GOLD), numbers, strict=True)
            for row, value in enumerate(values)
            if not math.isfinite(value)
        ]
    )

    def measure(predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        values = metrics.regression(np.asarray(predictions, dtype=np.float64), np.asarray(references, dtype=np.float64))
        return {name: values[name] for name in _OF_NUMBERS}

    pairs = zip(systems, columns, strict=True)
    return [_replace_values(each, numbers, measure, terms_of, _OF_NUMBERS[0]) for each, numbers in pairs]


def _read_classes(systems: Sequence[System | Table], metric: str | None) -> list[System]:
    """Returns systems whose predictions and references are names of classes; ``1.0`` is ``1`` if all are whole numbers.

    Raises:
        DataError: a prediction is no number though all references are, and ``metric`` does not say that these are
            classes; the message lists the places.
    """
    texts = [[list(map(str, values)) for values in _list_values(each)] for each in systems]
    are_numbers = all(map(is_number, texts[0][-1]))
    if metric is None and are_numbers:
        raise_listed(
            [
                f"{each.place(row)}: {_PREDICTION!r} is {shown(value)}, where all values of {_GOLD!r} are numbers; "
                "mend or remove the row, or give --metric accuracy if all are names of classes"
                for each, of_system in zip(systems, texts, strict=True)
                if isinstance(each, Table)
                for row, value in enumerate(of_system[0])
                if not is_number(value)
            ]
        )
    values = {value for of_system in texts for column in of_system for value in column}
    names = names_of_labels(value for value in values if is_number(value) or not are_numbers)
    named = [[[names.get(value, value) for value in column] for column in of_system] for of_system in texts]

    def are_right(predictions: Sequence[Any], references: Sequence[Any]) -> list[bool]:
        return [one == two for one, two in zip(predictions, references, strict=True)]

    def measure(predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        return {"accuracy": float(np.mean(are_right(predictions, references)))}

    def terms(name: str, predictions: Sequence[Any], references: Sequence[Any]) -> MeanDecomposition | None:
        return mean_terms(are_right(predictions, references))

    pairs = zip(systems, named, strict=True)
    return [_replace_values(each, columns, measure, terms, _OF_CLASSES[0]) for each, columns in pairs]
