"""Comparison of several runs: scores, the answers of `bertkit.compare`, curves, and settings that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os.path import isabs
from pathlib import Path
from typing import Any

from bertkit.features.reporting.charts import overlay_curves, readable
from bertkit.features.reporting.content import Content
from bertkit.features.reporting.reported import Cell, DataTable, Section, number, sides_of
from bertkit.inference.comparison import compare_systems, system_of
from bertkit.inference.outcome import Outcome
from bertkit.metrics.pretraining import TOKENS
from bertkit.recipe.files import without_paths
from bertkit.runtime.reading.paths import different_ends
from bertkit.tasks.base import per_example

_BLOCKS = ("task", "model", "data", "train")
_CURVES = ("loss", "eval_loss")


@dataclass(frozen=True)
class RunComparison:
    """Comparison of runs.

    Attributes:
        names: name of each run.
        scores: a row per metric, a column per run.
        differences: each further run compared with the first one: both names, and the answers in words.
        settings: recipe values that differ.
        curves: curves of all runs in the same charts; None without any.
    """

    names: tuple[str, ...]
    scores: DataTable
    differences: tuple[tuple[str, str], ...]
    settings: DataTable
    curves: Section | None


def comparison_of(
    names: Sequence[str], contents: Sequence[Content], outcomes: Sequence[Outcome | None]
) -> RunComparison:
    """Compares runs, the first one with each of the others.

    Args:
        names, contents: of each run.
        outcomes: the outputs for its validation set; None for a run without predictions.
    """
    of_runs = [{score.name: score for score in content.scores} for content in contents]
    rows: list[tuple[Cell, ...]] = []
    for metric in dict.fromkeys(name for of_run in of_runs for name in of_run):
        units = {of_run[metric].units for of_run in of_runs if metric in of_run}
        what = f" ({next(iter(units))})" if len(units) == 1 and all(units) else ""  # only if the same in all runs
        cells: list[Cell] = []
        for of_run in of_runs:
            score = of_run.get(metric)
            if score is None or score.value is None:
                cells.append("–" if score is None else "undefined")
            else:
                interval = "" if score.low is None else f"  [{number(score.low)}, {number(score.high)}]"
                cells.append(f"{number(score.value)}{interval}")
        rows.append((f"{readable(metric)}{what}", *cells))
    collapsed = [
        name for name, outcome in zip(names, outcomes, strict=True) if outcome is not None and outcome.collapse
    ]
    history = {name: content.run.history for name, content in zip(names, contents, strict=True)}
    token_losses = [loss for loss, _ in TOKENS.values()]
    main = [f"eval_{outcome.task.main_metric}" for outcome in outcomes if outcome is not None][:1]
    return RunComparison(
        names=tuple(names),
        scores=DataTable(
            f"Scores on {' or '.join(dict.fromkeys(each.scored for each in contents))}, with 95 % intervals",
            ("metric", *names),
            rows,
            note=f"Collapsed, with the same prediction for all examples: {', '.join(collapsed)}." if collapsed else "",
        ),
        differences=tuple(_compare(names, outcomes)),
        settings=DataTable(
            "Settings", ("setting", *names), _compare_settings([content.run.recipe for content in contents])
        ),
        curves=overlay_curves(history, dict.fromkeys([*_CURVES, *main, *token_losses])),
    )


def _compare(names: Sequence[str], outcomes: Sequence[Outcome | None]) -> list[tuple[str, str]]:
    """Returns the answers to the questions of `bertkit.compare` for each further run, or why there are none."""
    first = outcomes[0]
    refusals = [_refuse(first, other) for other in outcomes[1:]]
    compared = [
        (name, outcome)
        for name, outcome, refusal in zip(names[1:], outcomes[1:], refusals, strict=True)
        if outcome is not None and not refusal
    ]
    sentences: dict[str, str] = {}
    if compared and first is not None:
        systems = [system_of(name, [outcome]) for name, outcome in ((names[0], first), *compared)]
        sentences = {each.b: f"{each.models} {each.settings}" for each in compare_systems(systems).comparisons}
    return [
        (f"A: {names[0]}, B: {name}.", sentences.get(name, refusal))
        for name, refusal in zip(names[1:], refusals, strict=True)
    ]


def _refuse(a: Outcome | None, b: Outcome | None) -> str:
    """Returns why two runs are not compared; empty if they are."""
    if a is None or b is None:
        return "not compared, since a run has no predictions."
    if type(a.task) is not type(b.task) or a.task.main_metric != b.task.main_metric:
        return "not compared, since the runs have different tasks."
    if sides_of(a) is None or sides_of(b) is None:
        return "not compared, since the task does not score single examples."
    # Examples have the numbers of their classes, whose names or order may differ.
    labels = [per_example(each.task).to_labels(each.predictions_and_references()[1]) for each in (a, b)]
    if a.digests() != b.digests() or labels[0] != labels[1]:
        return "not compared, since the runs have different scored examples or labels."
    return ""


def _compare_settings(recipes: Sequence[Any]) -> list[tuple[Cell, ...]]:
    """Returns the recipe values that are not the same in all runs."""
    blocks = [recipe.to_dict() for recipe in recipes]
    rows: list[tuple[Cell, ...]] = []
    for block in _BLOCKS:
        values: list[Mapping[str, Any]] = [each[block] for each in blocks]
        for key in sorted({key for each in values for key in each}):
            of_runs = [each.get(key) for each in values]
            if all(value == of_runs[0] for value in of_runs):
                continue
            known = [value if value is None or isinstance(value, (list, Mapping)) else str(value) for value in of_runs]
            texts = ["–" if value is None else str(without_paths(value)) for value in known]
            if len({*texts}) < len({*map(str, known)}):  # paths that end with the same name
                lists = [value if isinstance(value, list) else [value] for value in known]
                paths = [each for values in lists for each in values if isinstance(each, str) and isabs(each)]
                ends = dict(zip(paths, different_ends([*map(Path, paths)]), strict=True))
                texts = [
                    ", ".join(f"…/{ends[each]}" if each in paths else str(without_paths(each)) for each in values)
                    if any(each in paths for each in values)
                    else text
                    for values, text in zip(lists, texts, strict=True)
                ]
            rows.append((f"{block}.{key}", *texts))
    return rows
