"""Comparison of systems on the same examples, for `bertkit.compare` and the report of several runs.

It answers two questions, one sentence each: whether the models differ on this data (paired examples), and whether the
settings differ (runs with other seeds, or folds that both share).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bertkit.data.tables.table import copies_in_words
from bertkit.inference.outcome import Outcome, task_inference
from bertkit.inference.verdict import verdict_of
from bertkit.metrics import score_limits
from bertkit.metrics.intervals import MeanDecomposition, Measure
from bertkit.metrics.squad import normalize_answer
from bertkit.metrics.statistics import LEVEL, Agreement, Test, adjust_tests, agreement, by_example, by_run
from bertkit.runtime.errors import DataError, RecipeError, did_you_mean
from bertkit.runtime.pages.summary import Summarized, Summary
from bertkit.runtime.progress import counted
from bertkit.tasks.base import per_example

MODELS, SETTINGS = "Do these models differ on this data?", "Do these settings differ?"
_MOST_DISAGREEMENTS = 20  # examples of a disagreement that the results hold for each side
_FEW = 100  # examples; below this number an accuracy has an interval of about ± 10 points


@dataclass(frozen=True)
class System:
    """Predictions of one or several runs for the same examples.

    Attributes:
        name: its name for readers, such as the argument of `compare` that it comes from.
        runs: predictions of each run, one per example, in the form of the metric.
        references: one per example.
        scores: computes the metrics of predictions and references.
        terms: returns a metric of predictions and references as a function of means, see `TaskInference.terms`.
        main_metric: the metric that is compared by default.
        to_labels: converts predictions or references to plain data, with the names of classes.
        digests: digest of each example; None for files of predictions.
        same_texts: number of the text of each example, (N,), the same for copies; None for files of predictions.
        folds: numbers of examples of the folds, in their order, if each fold was predicted by a model of its own; else
            empty.
        places: place of each example in its file or data set; empty if these are not known.
        notes: limits of its scores, such as runs that have collapsed.
        verdict: what the scores of a single run say, a sentence each; empty for several runs, and for files.
        units: counts what a metric is a score of, as `TaskInference.count_units`; None for the examples.
        example: what an example is called, in the singular.
    """

    name: str
    runs: Sequence[Sequence[Any]]
    references: Sequence[Any]
    scores: Callable[[Sequence[Any], Sequence[Any]], dict[str, float]]
    terms: Callable[[str, Sequence[Any], Sequence[Any]], MeanDecomposition | None]
    main_metric: str
    to_labels: Callable[[Sequence[Any]], list[Any]]
    digests: Sequence[str] | None = None
    same_texts: np.ndarray | None = None
    folds: tuple[int, ...] = ()
    places: Sequence[str] = ()
    notes: tuple[str, ...] = ()
    verdict: tuple[str, ...] = ()
    units: Callable[[str, Sequence[Any], Sequence[Any]], str] | None = None
    example: str = "example"

    @property
    def has_numbers(self) -> bool:
        """Returns whether the references are numbers, which are more or less right."""
        return all(isinstance(value, float) for value in self.to_labels(self.references))

    def place(self, number: int) -> str:
        """Returns the place of an example, counted from 0, in its source; else its number."""
        return self.places[number] if self.places else f"example {number} (from 0)"


def system_of(name: str, outcomes: Sequence[Outcome]) -> System:
    """Returns the runs of one setting as a system; DataError if the task does not score single examples."""
    sides = [outcome.predictions_and_references() for outcome in outcomes]
    task, first = per_example(outcomes[0].task), outcomes[0]
    of_file = "" if first.unit == "file" else f"{Path(first.source).name}, "
    return System(
        name,
        runs=[predictions for predictions, _ in sides],
        references=sides[0][1],
        scores=task.compute_metrics,
        terms=task_inference(task).terms,
        main_metric=task.main_metric,
        to_labels=task_inference(task).to_labels,
        digests=first.digests(),
        same_texts=first.same_texts,
        places=[f"{of_file}{first.unit} {first.number(row)}" for row in range(len(sides[0][1]))],
        notes=collapse_notes(name, [outcome.collapse for outcome in outcomes]),
        verdict=verdict_of(first).sentences if len(outcomes) == 1 else (),
        units=task_inference(task).count_units,
        example=task_inference(task).example,
    )


@dataclass(frozen=True)
class Comparison:
    """Comparison of a system B with the first one, A.

    Attributes:
        a, b: names of the systems.
        scores_a, scores_b: score of each run; None where it is undefined.
        by_example: whether these models differ on this data.
        by_run: whether the settings differ; its ``p`` is None for single runs.
        models, settings: the answers to both questions, a sentence each.
        agreement: right and wrong examples of the first run of both; None for numbers.
        only_a, only_b: examples that only one of them gets right: number from 0, reference and both predictions.
    """

    a: str
    b: str
    scores_a: tuple[float | None, ...]
    scores_b: tuple[float | None, ...]
    by_example: Test
    by_run: Test
    models: str
    settings: str
    agreement: Agreement | None
    only_a: tuple[dict[str, Any], ...]
    only_b: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Comparisons(Summarized):
    """Result of `compare`.

    Attributes:
        metric: the metric that is compared.
        examples: number of examples.
        comparisons: each further system with the first one.
        notes: limits of the comparison, such as too few examples.
        verdicts: name of a system → what its predictions say, a sentence each, as at the end of its run.
        units: what the metric is a score of, such as ``10 queries``.
    """

    metric: str
    examples: int
    comparisons: tuple[Comparison, ...]
    notes: tuple[str, ...]
    verdicts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    units: str = ""

    @property
    def heading(self) -> str:
        """The metric and what it is a score of."""
        return f"{self.metric} on {self.units or counted(self.examples, 'example', form=',')}"

    def summary(self) -> Summary:
        """Returns what is printed, and shown in notebooks."""
        answers = [(f"A {each.a}, B {each.b}", f"{each.models} {each.settings}") for each in self.comparisons]
        verdicts = [f"{name}: {sentence}" for name, sentences in self.verdicts.items() for sentence in sentences]
        return Summary(self.heading, answers, [*verdicts, *(f"Note: {note}" for note in self.notes)])


def compare_systems(systems: Sequence[System], metric: str | None = None) -> Comparisons:
    """Compares each further system with the first one on the same examples.

    Args:
        systems: two or more.
        metric: name of a metric; by default the main one, or the first one that can be computed from predictions.

    Raises:
        RecipeError: no such metric.
        DataError: the systems have different examples.
    """
    first, *others = systems
    _check_same_examples(systems)
    known = first.scores(first.runs[0], first.references)
    usual = first.main_metric if first.main_metric in known else next(iter(known))
    name = usual if metric is None else metric
    if name not in known:
        raise RecipeError(f"--metric: no metric {name!r}; expected {', '.join(known)}{did_you_mean(name, known)}")
    units = "" if first.units is None else first.units(name, first.runs[0], first.references)
    bounds = score_limits(name, known)
    comparisons = [_compare(first, other, name, bounds, LEVEL / len(others)) for other in others]
    # Each question is a family of its own.
    models, settings = (
        adjust_tests([getattr(each, test) for each in comparisons]) for test in ("by_example", "by_run")
    )
    comparisons = [
        dataclasses.replace(
            each,
            by_example=of_models,
            by_run=of_settings,
            models=_sentence_on(MODELS, of_models, each, name, units, first.example),
            settings=_sentence_on(SETTINGS, of_settings, each, name, units, first.example),
        )
        for each, of_models, of_settings in zip(comparisons, models, settings, strict=True)
    ]
    number = len(first.references)
    notes = []
    if first.same_texts is not None:
        copies = copies_in_words(first.same_texts, "example", "intervals and tests count a text once")
        notes += [copies] if copies else []
    if number < _FEW and not first.has_numbers:
        notes.append(
            f"{counted(number, 'example is', 'examples are')} too few to show small differences: one is "
            f"{100 / number:.1f} % of an accuracy"
        )
    if (corrected := max((test.comparisons for test in (*models, *settings)), default=1)) > 1:
        notes.append(f"{corrected} comparisons: p-values have Holm's correction, intervals have none")
    notes += dict.fromkeys(note for system in systems for note in system.notes)
    if metric is None and name != first.main_metric:
        notes.append(f"{first.main_metric} cannot be compared; the predictions are compared by {name}")
    verdicts = {system.name: system.verdict for system in systems if system.verdict}
    return Comparisons(name, number, tuple(comparisons), tuple(notes), verdicts, units)


def collapse_notes(name: str, collapses: Sequence[str | None]) -> tuple[str, ...]:
    """Returns a note on runs that predict the same for all examples; none without any.

    Args:
        name: name of the system.
        collapses: description of the predictions of each run that has collapsed, see `Outcome.collapse`.
    """
    descriptions = list(dict.fromkeys(filter(None, collapses)))
    if not descriptions:
        return ()
    number = len(collapses) - collapses.count(None)
    runs = "" if len(collapses) == 1 else f": {number} of {len(collapses)} runs"
    return (f"{name}{runs} {'has' if number == 1 else 'have'} collapsed: {'; '.join(descriptions)}",)


def _check_same_examples(systems: Sequence[System]) -> None:
    """Checks that all systems have the same examples in the same order; DataError if they do not."""
    first = systems[0]
    for other in systems[1:]:
        if len(other.references) != len(first.references):
            raise DataError(
                f"{first.name} has {counted(len(first.references), 'example')} and {other.name} "
                f"{len(other.references)}; compare systems on the same examples"
            )
        pairs = enumerate(zip(_identify_examples(first), _identify_examples(other), strict=True))
        different = [number for number, (one, two) in pairs if one != two]
        if different:
            what = "the values of gold" if first.digests is None else "the examples, or the names or order of labels,"
            raise DataError(
                f"{first.name} and {other.name}: {what} differ in {counted(len(different), 'place')}, first in "
                f"{first.place(different[0])}; compare systems on the same examples in the same order"
            )


def _identify_examples(system: System) -> list[tuple[str, Any]]:
    """Returns what examples are recognized by: a digest, which has the number of a class, and the named reference."""
    named = system.to_labels(system.references)
    return list(zip(system.digests or [""] * len(named), named, strict=True))


# ---- one comparison -------------------------------------------------------------------------------------------------


def _compare(a: System, b: System, metric: str, bounds: tuple[float, float], level: float) -> Comparison:
    """Compares two systems, without the answers, which need the other comparisons.

    ``bounds`` are the ends of the range of the metric, and ``level`` is as of `by_run`.
    """

    def measure(predictions: Sequence[Any], references: Sequence[Any]) -> float:
        return float(a.scores(predictions, references)[metric])

    scores_a, scores_b = ([measure(run, a.references) for run in side.runs] for side in (a, b))
    of_examples = by_example(
        a.runs, b.runs, a.references, measure, lambda *sides: a.terms(metric, *sides), a.same_texts, bounds
    )
    if a.folds and a.folds == b.folds:
        of_runs = by_run(
            _score_folds(a, measure),
            _score_folds(b, measure),
            paired=True,
            overlap=1 / (len(a.folds) - 1),
            bounds=bounds,
        )
    else:
        of_runs = by_run(scores_a, scores_b, level=level, bounds=bounds)
    counts, only_a, only_b = (None, [], []) if a.has_numbers else _find_disagreements(a, b)
    return Comparison(
        a.name,
        b.name,
        scores_a=tuple(score if math.isfinite(score) else None for score in scores_a),
        scores_b=tuple(score if math.isfinite(score) else None for score in scores_b),
        by_example=of_examples,
        by_run=of_runs,
        models="",
        settings="",
        agreement=counts,
        only_a=tuple(only_a[:_MOST_DISAGREEMENTS]),
        only_b=tuple(only_b[:_MOST_DISAGREEMENTS]),
    )


def _score_folds(system: System, measure: Measure) -> list[float]:
    """Returns the score of each fold, averaged over the runs."""
    scores, start = [], 0
    for size in system.folds:
        rows = slice(start, start + size)
        of_runs = [measure(run[rows], system.references[rows]) for run in system.runs]
        scores.append(sum(of_runs) / len(of_runs))
        start += size
    return scores


def _find_disagreements(a: System, b: System) -> tuple[Agreement, list[dict[str, Any]], list[dict[str, Any]]]:
    """Returns the counts of right examples of the first runs, and those that A alone and B alone gets right."""
    gold, named_a, named_b = a.to_labels(a.references), a.to_labels(a.runs[0]), b.to_labels(b.runs[0])

    def comparable(value: Any) -> Any:
        if isinstance(value, dict):  # question answering: a text, and the texts that count as right
            return _Answer(value)
        return tuple(value) if isinstance(value, list) else value

    answers = [list(map(comparable, each)) for each in (named_a, named_b, gold)]
    only_a: list[dict[str, Any]] = []
    only_b: list[dict[str, Any]] = []
    for number, (one, two, reference) in enumerate(zip(*answers, strict=True)):
        if (one == reference) != (two == reference):
            values = {"gold": gold[number], "a": named_a[number], "b": named_b[number]}
            (only_a if one == reference else only_b).append({"index": number, "place": a.place(number), **values})
    return agreement(*answers), only_a, only_b


class _Answer:
    """Text of an answer, or the texts that are right, normalized as for SQuAD's exact match; equal to another answer if
    both have a text in common."""

    def __init__(self, value: dict[str, Any]):
        texts = [value["prediction_text"]] if "prediction_text" in value else value["answers"]["text"]
        self.texts = {normalize_answer(text) for text in texts} - {""} or {""}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Answer) and bool(self.texts & other.texts)

    __hash__ = None  # type: ignore[assignment]


def _sentence_on(question: str, test: Test, comparison: Comparison, metric: str, units: str, example: str) -> str:
    """Returns a question with its answer, and the numbers and the test that it rests on.

    Args:
        units: what the metric is a score of, as of `Comparisons`.
        example: what is tested if it is not these units, such as the sentence of entities.
    """
    if test.difference is None or test.p is None or test.smallest_p is None:
        return f"{question} Not tested: {test.reason}."
    if test.reason:
        return f"{question} No difference: {test.reason}."
    numbers = f"{metric} B − A {test.difference:+.4f}"
    if test.low is not None and test.high is not None:
        numbers += f", 95 % interval {test.low:+.4f} to {test.high:+.4f}"
    numbers += f", {test.p_text}"
    if test.comparisons > 1:
        numbers += f", {test.adjusted_text} with Holm's correction for {test.comparisons} comparisons"
    if len(test.units) > 1:
        of_what = f"{' and '.join(f'{unit:,}' for unit in test.units)} runs"
    elif question == SETTINGS:
        of_what = f"{test.units[0]:,} folds"
    else:
        of_what = units if units.startswith(f"{test.units[0]:,} ") else counted(test.units[0], example, form=",")
    limits = [f"{test.method}, {of_what}"]
    if test.smallest_p > LEVEL:
        limits.append(f"no p-value below {test.smallest_p:.2g} is possible")
    elif test.low is not None and test.high is not None and (test.low <= 0 <= test.high) == (test.p <= LEVEL):
        limits.append("the interval is approximate, and the test decides")
    higher = comparison.b if test.difference > 0 else comparison.a
    answer = f"Yes, {higher} is higher" if test.is_significant else "No significant difference"
    return f"{question} {answer}: {numbers} ({'; '.join(limits)})."
