"""Comparison of several runs: scores, paired differences with intervals, curves, and settings that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bertkit.inference.outcomes import Outcome
from bertkit.metrics.pretraining import TOKENS
from bertkit.metrics.statistics import paired_interval
from bertkit.reporting.content import Content, judged_of, measure_of, measured_metric
from bertkit.reporting.curves import overlaid, readable
from bertkit.reporting.page import DrawnSection, draw_section
from bertkit.reporting.texts import number
from bertkit.sharing.model_card import without_paths
from bertkit.tasks.report_parts import Cell, DataTable

_BLOCKS = ("task", "model", "data", "train")
_CURVES = ("loss", "eval_loss")
_TOKEN_LOSSES = tuple(names[0] for names in TOKENS.values())


@dataclass(frozen=True)
class Difference:
    """Difference between a run and the first one, in words."""

    title: str
    text: str


@dataclass(frozen=True)
class SideBySide:
    """Comparison of runs.

    Attributes:
        names: name of each run.
        scores: a row per metric, a column per run.
        differences: each further run compared with the first one.
        settings: recipe values that differ.
        curves: curves of all runs in the same charts; None without any.
    """

    names: tuple[str, ...]
    scores: DataTable
    differences: tuple[Difference, ...]
    settings: DataTable
    curves: DrawnSection | None


def side_by_side(names: Sequence[str], contents: Sequence[Content], outcomes: Sequence[Outcome | None]) -> SideBySide:
    """Compares runs.

    Args:
        names: name of each run, all different.
        contents: their contents.
        outcomes: outputs of their models; None for runs without any.
    """
    values = [{score.name: score for score in content.scores} for content in contents]
    metrics = list(dict.fromkeys(name for of_run in values for name in of_run))
    rows = [(readable(name), *(_cell(of_run.get(name)) for of_run in values)) for name in metrics]
    history = {name: content.run.history for name, content in zip(names, contents, strict=True)}
    main = next((outcome.task.main_metric for outcome in outcomes if outcome is not None), None)
    curves = overlaid(history, dict.fromkeys([*_CURVES, *([f"eval_{main}"] if main else []), *_TOKEN_LOSSES]))
    return SideBySide(
        names=tuple(names),
        scores=DataTable("Scores on the validation set, with 95 % intervals", ("metric", *names), rows),
        differences=tuple(
            _difference(names[0], name, outcomes[0], outcome)
            for name, outcome in zip(names[1:], outcomes[1:], strict=True)
        ),
        settings=DataTable("Settings", ("setting", *names), _settings([content.run.recipe for content in contents])),
        curves=None if curves is None else draw_section(curves, "all"),
    )


def _cell(score: Any) -> str | None:
    if score is None:
        return None
    interval = "" if score.low is None else f"  [{number(score.low)}, {number(score.high)}]"
    return f"{number(score.value)}{interval}"


def _difference(first: str, name: str, a: Outcome | None, b: Outcome | None) -> Difference:
    title = f"{name} − {first}:"
    if a is None or b is None:
        return Difference(title, "not compared, since a run has no predictions.")
    if type(a.task) is not type(b.task) or a.task.main_metric != b.task.main_metric:
        return Difference(title, "not compared, since the runs have different tasks.")
    if a.digests() != b.digests():
        return Difference(title, "not compared, since the runs have different validation examples.")
    judged, others = judged_of(a), judged_of(b)
    if judged is None or others is None:
        return Difference(title, "not compared, since the task does not score single examples.")
    (given, references), (other, _) = judged, others
    metric = measured_metric(a, judged)
    measure = measure_of(a, metric)
    difference = measure(other, references) - measure(given, references)
    terms = a.task.score_terms(metric, given, references), b.task.score_terms(metric, other, references)
    low, high = paired_interval(given, other, references, measure, terms)
    if low is None or high is None:
        return Difference(title, f"{readable(metric)} {difference:+.4f}; too few examples for an interval.")
    says = (
        "The interval contains 0: these examples do not tell the runs apart."
        if low <= 0 <= high
        else "The interval does not contain 0; whether this holds for other seeds needs several runs of each."
    )
    interval = f"95 % interval {low:+.4f} to {high:+.4f}"
    text = f"{readable(metric)} {difference:+.4f}, {interval} (paired bootstrap, {len(references):,} examples). {says}"
    return Difference(title, text)


def _settings(recipes: Sequence[Any]) -> list[tuple[Cell, ...]]:
    """Returns the recipe values that are not the same in all runs."""
    blocks = [recipe.to_dict() for recipe in recipes]
    rows: list[tuple[Cell, ...]] = []
    for block in _BLOCKS:
        values: list[Mapping[str, Any]] = [each[block] for each in blocks]
        for key in sorted({key for each in values for key in each}):
            given = [each.get(key) for each in values]
            if any(value != given[0] for value in given):
                rows.append((f"{block}.{key}", *(str(without_paths(_plain(value))) for value in given)))
    return rows


def _plain(value: Any) -> Any:
    return "–" if value is None else value if isinstance(value, (str, list, Mapping)) else str(value)
