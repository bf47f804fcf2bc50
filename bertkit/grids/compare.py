"""Comparison of runs, grids and files of predictions on the same examples: is a difference real?"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bertkit import metrics
from bertkit.errors import BertkitError, DataError, RecipeError, listed, raise_listed, shown
from bertkit.grids.definition import GRID_FILE, RUNS, read
from bertkit.grids.results import best_cells, collect, limits
from bertkit.inference.comparison import Comparisons, System, collapse_notes, compare_systems, system_of
from bertkit.inference.evaluation import outcome_of
from bertkit.inference.predicted import collapse_of, decision
from bertkit.metrics.intervals import MeanDecomposition, mean_terms, terms_of
from bertkit.tables import Table, read_table
from bertkit.tables.classes import is_missing, names_of_labels
from bertkit.tables.labels import infer_problem
from bertkit.tables.table import to_number
from bertkit.tables.table_files import is_table
from bertkit.tasks.registry import task_of_recipe

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
        DataError: the systems have different examples; a file lacks a column, or a value that can be read; or ``gold``
            has few different numbers with decimals, which can be classes or numbers.
        CheckpointError: a folder is neither a run nor a grid.
    """
    if len(systems) < 2:
        raise RecipeError("compare: give two or more run directories, grids or files of predictions")
    found: list[System | Table] = []
    faults: list[str] = []
    for place in systems:
        try:
            found.append(_system(Path(place)))
        except BertkitError as error:
            faults.append(str(error))
    if faults:
        raise DataError(listed(faults))
    tables = [each for each in found if isinstance(each, Table)]
    runs = [each for each in found if isinstance(each, System)]
    if not tables:
        return compare_systems(runs, metric)
    has_numbers, note = _has_numbers(tables, runs, metric)
    as_files = _of_numbers(found) if has_numbers else _of_classes(found, metric)
    results = compare_systems(as_files, metric)
    return dataclasses.replace(results, notes=(*results.notes, note)) if note else results


# ---- systems --------------------------------------------------------------------------------------------------------


def _system(place: Path) -> System | Table:
    if not place.exists():
        raise DataError(f"{place}: does not exist; give a run directory, a grid, or a file of predictions")
    if place.is_file() and is_table(place):
        return _table(place)
    if not (place / GRID_FILE).is_file():
        return system_of(str(place), [outcome_of(place)])
    definition = read(place)
    results = collect(definition, task_of_recipe(definition.recipe), place)
    if results.best is None:
        raise DataError(f"{place}: no run of this grid has finished")
    cells = best_cells(definition, results)
    folds = sorted({cell.fold for cell in cells if cell.fold is not None})
    if not folds:
        of_seeds = system_of(str(place), [outcome_of(place / RUNS / cell.name) for cell in cells])
        return dataclasses.replace(of_seeds, notes=tuple(limits(results)))
    # The folds of one seed together are the training set, predicted by models that did not see the example.
    seeds = [[cell for cell in cells if cell.seed == seed] for seed in definition.seeds]
    complete = [of_seed for of_seed in seeds if len(of_seed) == len(folds)]
    if not complete:
        raise DataError(f"{place}: no seed of the best setting has finished all folds")
    of_folds = [
        system_of(str(place), [outcome_of(place / RUNS / cell.name) for cell in of_fold])
        for of_fold in zip(*(sorted(of_seed, key=lambda cell: cell.fold or 0) for of_seed in complete), strict=True)
    ]
    return dataclasses.replace(
        of_folds[0],
        runs=[_chain(of_run) for of_run in zip(*(fold.runs for fold in of_folds), strict=True)],
        references=_chain([fold.references for fold in of_folds]),
        digests=_chain([fold.digests or [] for fold in of_folds]),
        folds=tuple(len(fold.references) for fold in of_folds),
        notes=tuple(limits(results)),
    )


def _chain(parts: Sequence[Sequence[Any]]) -> list[Any]:
    return [each for part in parts for each in part]


# ---- files of predictions -------------------------------------------------------------------------------------------


def _table(place: Path) -> Table:
    """Reads a file of predictions.

    Raises:
        DataError: a column does not exist, or a cell is empty.
    """
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


def _collapse(table: Table) -> tuple[str, ...]:
    values = (map(decision, table.columns[name]) for name in (_PREDICTION, _GOLD))
    return collapse_notes(table.source, [collapse_of(*values)])


def _has_numbers(tables: Sequence[Table], runs: Sequence[System], metric: str | None) -> tuple[bool, str]:
    """Returns whether the values are numbers rather than classes, and a note on it if both were possible.

    Raises:
        DataError: they can be both, see `infer_problem`.
    """
    if metric in _OF_NUMBERS or metric in _OF_CLASSES:
        return metric in _OF_NUMBERS, ""
    if runs:
        return runs[0].has_numbers, ""
    problem, reason = infer_problem(tables[0], _GOLD, ("--metric accuracy", "--metric pearson"))
    is_regression = problem == "regression"
    return is_regression, f"{tables[0].source}: {_GOLD!r} has numbers, {reason}" if is_regression else ""


def _of_numbers(found: Sequence[System | Table]) -> list[System]:
    """Returns systems whose predictions and references are floats.

    Raises:
        DataError: a value is no number; the message lists the places.
    """
    systems: list[System] = []
    faults: list[str] = []
    for each in found:
        if isinstance(each, System):
            columns = [list(map(to_number, each.to_labels(values))) for values in (*each.runs, each.references)]
            systems.append(_numbers(each.name, columns[:-1], columns[-1], notes=each.notes))
            continue
        numbers = {name: list(map(to_number, each.columns[name])) for name in (_PREDICTION, _GOLD)}
        faults += [
            f"{each.place(row)}: {name!r} is {shown(each.columns[name][row])}; expected a number"
            for name, values in numbers.items()
            for row, value in enumerate(values)
            if not math.isfinite(value)
        ]
        systems.append(_numbers(each.source, [numbers[_PREDICTION]], numbers[_GOLD], _places(each), _collapse(each)))
    raise_listed(faults)
    return systems


def _numbers(
    name: str,
    runs: Sequence[Sequence[float]],
    gold: Sequence[float],
    places: Sequence[str] = (),
    notes: tuple[str, ...] = (),
) -> System:
    return System(name, runs, gold, _regression, terms_of, _OF_NUMBERS[0], list, places=places, notes=notes)


def _of_classes(found: Sequence[System | Table], metric: str | None) -> list[System]:
    """Returns systems whose predictions and references are names of classes; ``1.0`` is ``1`` if all are whole numbers.

    Raises:
        DataError: a prediction is no number though all references are, and ``metric`` does not say that these are
            classes; the message lists the places.
    """
    columns = [
        [*each.runs, each.references] if isinstance(each, System) else [each.columns[_PREDICTION], each.columns[_GOLD]]
        for each in found
    ]
    texts = [
        [
            [str(value) for value in (each.to_labels(values) if isinstance(each, System) else values)]
            for values in of_system
        ]
        for each, of_system in zip(found, columns, strict=True)
    ]
    are_numbers = all(map(_is_number, texts[0][-1]))
    if metric is None and are_numbers:
        raise_listed(
            [
                f"{each.place(row)}: {_PREDICTION!r} is {shown(value)}, where all values of {_GOLD!r} are numbers; "
                "mend or remove the row, or give --metric accuracy if all are names of classes"
                for each, of_system in zip(found, texts, strict=True)
                if isinstance(each, Table)
                for row, value in enumerate(of_system[0])
                if not _is_number(value)
            ]
        )
    values = {value for of_system in texts for column in of_system for value in column}
    names = names_of_labels(value for value in values if _is_number(value) or not are_numbers)
    systems = []
    for each, of_system in zip(found, texts, strict=True):
        *runs, gold = [[names.get(value, value) for value in values] for values in of_system]
        name, places = (each.source, _places(each)) if isinstance(each, Table) else (each.name, ())
        notes = _collapse(each) if isinstance(each, Table) else each.notes
        systems.append(
            System(name, runs, gold, _accuracy, _accuracy_terms, _OF_CLASSES[0], list, places=places, notes=notes)
        )
    return systems


def _is_number(text: str) -> bool:
    return math.isfinite(to_number(text))


def _places(table: Table) -> list[str]:
    return [f"{table.unit} {number}" for number in table.numbers_of_rows]


def _accuracy(predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
    return {"accuracy": float(np.mean(_right(predictions, references)))}


def _accuracy_terms(name: str, predictions: Sequence[Any], references: Sequence[Any]) -> MeanDecomposition | None:
    return mean_terms(_right(predictions, references))


def _right(predictions: Sequence[Any], references: Sequence[Any]) -> list[bool]:
    return [one == two for one, two in zip(predictions, references, strict=True)]


def _regression(predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
    values = metrics.regression(np.asarray(predictions, dtype=np.float64), np.asarray(references, dtype=np.float64))
    return {name: values[name] for name in _OF_NUMBERS}
