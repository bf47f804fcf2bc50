"""Comparison of runs, grids and files of predictions on the same examples: is a difference real?"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bertkit.errors import BertkitError, DataError, RecipeError, did_you_mean, listed
from bertkit.grids.definition import GRID_FILE, RUNS, read
from bertkit.grids.results import best_cells, collect
from bertkit.inference.outcomes import Outcome, outcome_of
from bertkit.metrics.agreement import Agreement, agreement
from bertkit.metrics.correlation import pearson, spearman
from bertkit.metrics.jackknife import Measure
from bertkit.metrics.statistics import Test, by_example, by_run
from bertkit.tables import read_table
from bertkit.tables.table import to_number
from bertkit.tables.table_files import is_table
from bertkit.tasks.construction import task_of_recipe

LEVEL = 0.05
_SHOWN = 20  # examples of a disagreement that the results hold for each side
_FEW = 100  # examples; below this number an accuracy has an interval of about ± 10 points
_PREDICTION, _GOLD = "prediction", "gold"

Scores = Callable[[Sequence[Any], Sequence[Any]], dict[str, float]]


@dataclass(frozen=True)
class System:
    """Predictions of one or several runs for the same examples.

    Attributes:
        name: the argument of `compare` that it comes from.
        runs: seed → predictions, one per example, in the form of the metric.
        references: one per example.
        scores: computes the metrics of predictions and references.
        main_metric: the metric that is compared by default.
        named: converts predictions or references to plain data, with the names of classes.
        digests: digest of each example; None for files of predictions.
    """

    name: str
    runs: Mapping[int | None, Sequence[Any]]
    references: Sequence[Any]
    scores: Scores
    main_metric: str
    named: Callable[[Sequence[Any]], list[Any]]
    digests: Sequence[str] | None


@dataclass(frozen=True)
class Comparison:
    """Comparison of a system B with the first one, A.

    Attributes:
        a, b: names of the systems.
        scores_a, scores_b: score of each run.
        by_example: whether the difference holds for other examples, given these runs.
        by_run: whether it holds for other seeds; its ``p`` is None for single runs.
        agreement: right and wrong examples of the first run of both.
        only_a, only_b: examples that only one of them gets right: number from 0, reference and both predictions.
        verdict: the conclusion in one sentence.
        is_different: whether the difference is significant in all tests that apply.
    """

    a: str
    b: str
    scores_a: tuple[float, ...]
    scores_b: tuple[float, ...]
    by_example: Test
    by_run: Test
    agreement: Agreement
    only_a: tuple[dict[str, Any], ...]
    only_b: tuple[dict[str, Any], ...]
    verdict: str
    is_different: bool


@dataclass(frozen=True)
class Comparisons:
    """Result of `compare`.

    Attributes:
        metric: the metric that is compared.
        examples: number of examples.
        comparisons: each further system with the first one.
        notes: limits of the comparison, such as too few examples.
    """

    metric: str
    examples: int
    comparisons: tuple[Comparison, ...]
    notes: tuple[str, ...]


def compare(*systems: str | Path, metric: str | None = None) -> Comparisons:
    """Compares the predictions of each further system with those of the first one on the same examples.

    A run is compared by its predictions for its validation set, a grid by those of all runs of its best setting. A file
    of predictions is a table with the columns ``prediction`` and ``gold``.

    Args:
        systems: run directories, grids or files; at least two.
        metric: name of a metric of the task; its main metric by default, or the first one that can be computed from
            predictions. For files ``accuracy``, or ``pearson`` if all values are numbers with a decimal point.

    Raises:
        RecipeError: fewer than two systems, or no such metric.
        DataError: the systems have different examples, or a file lacks a column.
        CheckpointError: a folder is neither a run nor a grid.
    """
    if len(systems) < 2:
        raise RecipeError("compare: give two or more run directories, grids or files of predictions")
    found: list[System] = []
    faults: list[str] = []
    for place in systems:
        try:
            found.append(_system(Path(place)))
        except BertkitError as error:
            faults.append(str(error))
    if faults:
        raise DataError(listed(faults))
    if any(system.digests is None for system in found):
        found = list(map(_as_file, found))
    first, *others = found
    _check_same_examples(found)
    known = first.scores(next(iter(first.runs.values())), first.references)
    usual = first.main_metric if first.main_metric in known else next(iter(known))
    chosen = usual if metric is None else metric
    if chosen not in known:
        raise RecipeError(f"--metric: no metric {chosen!r}; expected {', '.join(known)}{did_you_mean(chosen, known)}")
    level = LEVEL / len(others)

    def measure(predictions: Sequence[Any], references: Sequence[Any]) -> float:
        value = float(first.scores(predictions, references)[chosen])
        return value if math.isfinite(value) else 0.0  # a correlation is not defined for a sample of equal values

    comparisons = tuple(_compared(first, other, measure, level) for other in others)
    notes = _notes(found, len(others))
    if metric is None and chosen != first.main_metric:
        notes = (*notes, f"{first.main_metric} needs probabilities; the predictions are compared by {chosen}")
    return Comparisons(chosen, len(first.references), comparisons, notes)


# ---- systems --------------------------------------------------------------------------------------------------------


def _system(place: Path) -> System:
    if not place.exists():
        raise DataError(f"{place}: does not exist; give a run directory, a grid, or a file of predictions")
    if place.is_file() and is_table(place):
        return _of_file(place)
    if not (place / GRID_FILE).is_file():
        return _of_outcomes(str(place), {None: outcome_of(place)})
    definition = read(place)
    results = collect(definition, task_of_recipe(definition.recipe), place)
    if results.best is None:
        raise DataError(f"{place}: no run of this grid has finished")
    cells = best_cells(definition, results)
    folds = sorted({cell.fold for cell in cells if cell.fold is not None})
    if not folds:
        return _of_outcomes(str(place), {cell.seed: outcome_of(place / RUNS / cell.name) for cell in cells})
    # The folds of one seed together are the training set, predicted by models that did not see the example.
    seeds = {seed: [cell for cell in cells if cell.seed == seed] for seed in definition.seeds}
    parts = {
        seed: [_of_outcomes(str(place), {seed: outcome_of(place / RUNS / cell.name)}) for cell in of_seed]
        for seed, of_seed in seeds.items()
        if len(of_seed) == len(folds)
    }
    if not parts:
        raise DataError(f"{place}: no seed of the best setting has finished all folds")
    first = next(iter(parts.values()))
    runs: dict[int | None, Sequence[Any]] = {
        seed: _chain([next(iter(each.runs.values())) for each in of_seed]) for seed, of_seed in parts.items()
    }
    return dataclasses.replace(
        first[0],
        runs=runs,
        references=_chain([part.references for part in first]),
        digests=_chain([part.digests or [] for part in first]),
    )


def _chain(parts: Sequence[Sequence[Any]]) -> list[Any]:
    return [each for part in parts for each in part]


def _of_outcomes(name: str, outcomes: Mapping[int | None, Outcome]) -> System:
    judged = {key: outcome.judged() for key, outcome in outcomes.items()}
    first = next(iter(outcomes.values()))
    return System(
        name,
        {key: predictions for key, (predictions, _) in judged.items()},
        next(iter(judged.values()))[1],
        first.task.measured,
        first.task.main_metric,
        first.task.named,
        first.digests(),
    )


def _of_file(place: Path) -> System:
    table = read_table(place)
    columns = table.select(_PREDICTION, _GOLD)
    return _of_values(str(place), {None: columns[_PREDICTION]}, columns[_GOLD])


def _of_values(name: str, runs: Mapping[int | None, Sequence[Any]], gold: Sequence[Any]) -> System:
    numbers = list(map(to_number, gold))
    if all(isinstance(value, float) or (isinstance(value, str) and "." in value) for value in gold) and all(
        number == number for number in numbers
    ):
        as_numbers = {key: [to_number(value) for value in values] for key, values in runs.items()}
        return System(name, as_numbers, numbers, _regression, "pearson", list, None)
    as_text = {key: list(map(str, values)) for key, values in runs.items()}
    return System(name, as_text, list(map(str, gold)), _accuracy, "accuracy", list, None)


def _as_file(system: System) -> System:
    """Returns a run in the form of a file: names of classes instead of ids."""
    if system.digests is None:
        return system
    runs = {key: system.named(predictions) for key, predictions in system.runs.items()}
    return _of_values(system.name, runs, system.named(system.references))


def _accuracy(predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
    from sklearn.metrics import accuracy_score

    return {"accuracy": float(accuracy_score(list(references), list(predictions)))}


def _regression(predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
    return {
        "pearson": pearson(np.asarray(predictions), np.asarray(references)),
        "spearmanr": spearman(np.asarray(predictions), np.asarray(references)),
    }


def _check_same_examples(systems: Sequence[System]) -> None:
    """Checks that all systems have the same examples in the same order.

    Raises:
        DataError: they do not.
    """
    first = systems[0]
    for other in systems[1:]:
        if len(other.references) != len(first.references):
            raise DataError(
                f"{first.name} has {len(first.references)} examples and {other.name} {len(other.references)}; compare "
                "systems on the same examples"
            )
        pairs = zip(
            first.digests or first.named(first.references), other.digests or other.named(other.references), strict=True
        )
        different = [number for number, (one, two) in enumerate(pairs) if one != two]
        if different:
            what = "the examples" if first.digests is not None else "the values of gold"
            raise DataError(
                f"{first.name} and {other.name}: {what} differ in {len(different)} places, first in example "
                f"{different[0]} (from 0); compare systems on the same examples in the same order"
            )


# ---- one comparison -------------------------------------------------------------------------------------------------


def _compared(a: System, b: System, measure: Measure, level: float) -> Comparison:
    scores_a, scores_b = (
        {key: measure(predictions, system.references) for key, predictions in system.runs.items()} for system in (a, b)
    )
    of_runs = by_run(list(scores_a.values()), list(scores_b.values()), level=level)
    of_examples = by_example(list(a.runs.values()), list(b.runs.values()), a.references, measure)
    named_a, named_b = (system.named(next(iter(system.runs.values()))) for system in (a, b))
    gold = a.named(a.references)
    counts = agreement(*(list(map(_comparable, each)) for each in (named_a, named_b, gold)))
    rows = [
        {"index": number, "gold": reference, "a": one, "b": two}
        for number, (reference, one, two) in enumerate(zip(gold, named_a, named_b, strict=True))
    ]
    only_a, only_b = (
        tuple(row for row in rows if _is_right(row, right) and not _is_right(row, wrong))[:_SHOWN]
        for right, wrong in (("a", "b"), ("b", "a"))
    )
    is_different, verdict = _verdict(a, b, of_examples, of_runs, level)
    return Comparison(
        a.name,
        b.name,
        tuple(scores_a.values()),
        tuple(scores_b.values()),
        of_examples,
        of_runs,
        counts,
        only_a,
        only_b,
        verdict,
        is_different,
    )


def _comparable(value: Any) -> Any:
    """Returns a named prediction or reference in a form that is equal if the answer is right."""
    if isinstance(value, dict):  # question answering: a text, and the texts that count as right
        return _Answer(value)
    return tuple(value) if isinstance(value, list) else value


class _Answer:
    """Text of an answer, or the set of texts that are right; equal to another if both have a text in common."""

    def __init__(self, value: dict[str, Any]):
        answers = value.get("answers")
        self.texts = {value["prediction_text"]} if answers is None else set(answers["text"]) or {""}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Answer) and bool(self.texts & other.texts)

    __hash__ = None  # type: ignore[assignment]


def _is_right(row: dict[str, Any], side: str) -> bool:
    return bool(_comparable(row[side]) == _comparable(row["gold"]))


def _verdict(a: System, b: System, of_examples: Test, of_runs: Test, level: float) -> tuple[bool, str]:
    """Returns whether the difference is significant, and the conclusion in words."""
    better = b.name if (of_examples.difference or 0) > 0 else a.name
    if of_examples.p is None:
        return False, "too few examples to tell"
    if of_examples.p > level:
        return False, f"no significant difference (by example p = {of_examples.p:.3g})"
    if of_runs.p is None or of_runs.smallest_p is None:
        return True, (
            f"{better} is better on such examples (p = {of_examples.p:.3g}); whether this holds for other seeds needs "
            "several runs of each: --seeds"
        )
    if of_runs.smallest_p > level:
        return False, (
            f"too few seeds to tell: with {' and '.join(map(str, of_runs.units))} runs no p is below "
            f"{of_runs.smallest_p:.2g} (by example p = {of_examples.p:.3g})"
        )
    if of_runs.p > level:
        return False, f"no significant difference between seeds (p = {of_runs.p:.3g})"
    return True, f"{better} is better (by example p = {of_examples.p:.3g}, by seed p = {of_runs.p:.3g})"


def _notes(systems: Sequence[System], others: int) -> tuple[str, ...]:
    number = len(systems[0].references)
    notes = []
    if number < _FEW:
        notes.append(
            f"{number} examples are too few to tell small differences: one example is {1 / number:.1%} of an accuracy"
        )
    if others > 1:
        notes.append(f"{others} comparisons: each is significant below p = {LEVEL / others:.3g} (Bonferroni)")
    return tuple(notes)
