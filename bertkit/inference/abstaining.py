"""``--max-error``: from which probability a run answers, so that at most a share of its answers is wrong.

The rows that tell are those of `OUT_OF_FOLD_FILE`: each was predicted by a model that had not seen it, and its
logits are divided by the same temperature as the weights of the run. The rows of a validation set do not serve,
since they choose the epoch whose weights a run keeps.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bertkit.inference.facts import percent
from bertkit.inference.outcome import OUT_OF_FOLD_FILE
from bertkit.metrics.selective import CONFIDENCE, AnswerCurve, answer_curve, rows_needed
from bertkit.runtime.errors import CheckpointError, DataError, RecipeError, quoted
from bertkit.runtime.progress import counted

NEVER = 2.0
"""Threshold of a class that is never answered: no probability is as high."""


@dataclass(frozen=True)
class ScoredRows:
    """Rows that models of folds have predicted without having seen them.

    Attributes:
        labels: predicted class of each row, (N,).
        probabilities: of these classes, (N,).
        is_wrong: (N,) bool.
        units: number of the unit of each row, (N,): rows of one unit, such as copies of a text, depend on each other;
            None if all are independent.
    """

    labels: np.ndarray
    probabilities: np.ndarray
    is_wrong: np.ndarray
    units: np.ndarray | None

    def curve(self, label: str | None = None) -> AnswerCurve:
        """Returns what each threshold answers of all rows, or of those that are predicted as a class."""
        rows = slice(None) if label is None else self.labels == label
        units = None if self.units is None else self.units[rows].tolist()
        return answer_curve(self.probabilities[rows], self.is_wrong[rows], units)


@dataclass(frozen=True)
class Promise:
    """Thresholds of a run that keep ``max_error``.

    Attributes:
        unsure_below: probability below which a prediction is unsure: of all classes, or of each; `NEVER` for a class
            that is never answered.
        answered: share of the rows of the folds that is answered, in [0, 1].
        lines: what is said of it.
    """

    unsure_below: float | Mapping[str, float]
    answered: float
    lines: Sequence[str]


def read_scored_rows(checkpoint: str) -> ScoredRows:
    """Reads what the models of the folds of a run have predicted.

    Raises:
        CheckpointError: the checkpoint is no run that scored its rows by folds.
        DataError: the file is damaged.
    """
    place = Path(checkpoint) / OUT_OF_FOLD_FILE
    if not place.is_file():
        is_run = (Path(checkpoint) / "recipe.yaml").is_file()
        why = "its rows were not scored by folds" if is_run else "not the directory of a run that scored rows by folds"
        raise CheckpointError(
            f"--max-error: {checkpoint} has no {OUT_OF_FOLD_FILE}: {why}, so nothing says how often it is wrong where; "
            "train it with `bertkit finetune classification --folds 5`, or give `bertkit predict` --unsure-below"
        )
    try:
        with place.open(encoding="utf-8") as lines:
            rows: list[dict[str, Any]] = list(map(json.loads, lines))
        labels = np.array([row["label"] for row in rows], dtype=object)
        is_wrong = np.array([row["gold"] != row["label"] for row in rows], dtype=bool)
        probabilities = np.array([row["probability"] for row in rows], dtype=np.float64)
        units = np.array([row["unit"] for row in rows]) if "unit" in rows[0] else None
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise DataError(f"{place}: damaged ({error}); restore it from a copy of the run") from error
    return ScoredRows(labels, probabilities, is_wrong, units)


def promise(checkpoint: str, classes: Sequence[str], max_error: float, by_class: bool = False) -> Promise:
    """Returns the lowest thresholds at which at most a share of the answers is wrong.

    Args:
        checkpoint: a run directory.
        classes: all classes of the task.
        max_error: the share, in (0, 1).
        by_class: keep it among the answers of each class.

    Raises:
        RecipeError: the rows of the folds do not support it; the message says what they support.
        BertkitError: as `read_scored_rows`.
    """
    rows = read_scored_rows(checkpoint)
    curves = {name: rows.curve(name) for name in classes} if by_class else {"": rows.curve()}
    found = {name: curve.widest(max_error) for name, curve in curves.items()}
    answers = {name: each for name, each in found.items() if each is not None}
    if not answers:
        raise RecipeError(_explain_refusal(checkpoint, len(rows.labels), max_error, curves))
    number, wrong = sum(each.number for each in answers.values()), sum(each.wrong for each in answers.values())
    share, all_rows = number / len(rows.labels), counted(len(rows.labels), "row", form=",")
    known = f"{number:,} of the {all_rows} that models of folds scored, {percent(share)}, {wrong:,} of them wrong"
    of_each = " of each class by itself" if by_class else ""
    level = f"with {100 * CONFIDENCE:.0f} % confidence at most {100 * max_error:g} % of answers{of_each} are wrong"
    if not by_class:
        line = f"max error {max_error:g}: answers from a probability of {answers[''].threshold:.4f} on, as have "
        return Promise(answers[""].threshold, share, [f"{line}{known}; {level}"])
    lines = [f"max error {max_error:g}{of_each}: answers {known}; {level}"]
    if declined := [name for name in classes if name not in answers]:
        lines.append(
            f"always unsure: {quoted(declined, 10)} ({len(declined)} of {counted(len(classes), 'class', 'classes')}); "
            "too few rows are predicted as such a class, or too many of them are wrong"
        )
    thresholds = {name: answers[name].threshold if name in answers else NEVER for name in classes}
    return Promise(thresholds, share, lines)


def _explain_refusal(checkpoint: str, rows: int, max_error: float, curves: Mapping[str, AnswerCurve]) -> str:
    """Returns why a promise is refused, and the lowest one that the rows support."""
    surest = {name: curve.surest() for name, curve in curves.items()}
    known = [(each.bound, name, each) for name, each in surest.items() if each is not None]
    supported = "they support none"
    if known and (level := math.ceil(1000 * min(known)[0]) / 1000) < 1:
        _, name, answers = min(known)
        of_class = f" of {name!r}" if name else ""
        supported = f"they support {level:g}{of_class}, answering {answers.number:,} of them"
    return (
        f"--max-error {max_error:g}: the {counted(rows, 'row', form=',')} that models of folds scored for {checkpoint} "
        f"do not support it; {supported}. It needs {rows_needed(max_error):,} answered rows without an error, none of "
        "them a copy: label more rows, or give a larger value"
    )
