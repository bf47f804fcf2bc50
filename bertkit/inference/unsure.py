"""Predictions of a class with a low probability, as the label ``unsure``: ``bertkit predict --unsure-below``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bertkit.runtime.errors import BertkitError, RecipeError
from bertkit.runtime.progress import counted
from bertkit.tasks.base import Task

UNSURE = "unsure"
"""Label of predictions whose probability is too low."""


def check_unsure_below(task: Task, probability: float) -> None:
    """Checks that a task predicts one class per input, none of which is called `UNSURE`.

    Raises:
        RecipeError: it does not, or the probability is not in (0, 1].
    """
    if not 0 < probability <= 1:
        raise RecipeError(f"--unsure-below: expected more than 0, at most 1, got {probability:g}")
    if getattr(task, "problem_type", None) != "single_label_classification":
        raise RecipeError(f"--unsure-below: {task.name} does not predict one class per input; remove it")
    if UNSURE in task.task.label_names:
        raise RecipeError(f"--unsure-below: {task.name} has a class named {UNSURE!r} already; remove the option")


def with_unsure(predictions: list[dict[str, Any]], probability: float | None) -> list[dict[str, Any]]:
    """Returns predictions of one class, with the label `UNSURE` where its probability is lower than ``probability``.

    ``best_label`` is the most probable class in all of them. With None the predictions are as they are.

    >>> with_unsure([{"label": "sales", "probability": 0.4}], 0.6)
    [{'label': 'unsure', 'best_label': 'sales', 'probability': 0.4}]
    """
    if probability is None:
        return predictions
    return [
        {"label": UNSURE if each["probability"] < probability else each["label"], "best_label": each["label"]}
        | {name: value for name, value in each.items() if name != "label"}
        for each in predictions
    ]


def unsure_on_validation(checkpoint: str | Path, probability: float) -> str:
    """Returns a line on the validation set of a run: the share of unsure predictions, and how many of the rest are
    right.

    Args:
        checkpoint: a run directory; other checkpoints, and runs whose data have changed, give the reason instead.
        probability: as of `with_unsure`.
    """
    from bertkit.inference.evaluation import outcome_of
    from bertkit.inference.verdict import percent, right_of_all

    try:
        outcome = outcome_of(checkpoint)
    except BertkitError as error:
        return f"unsure below {probability:g}: the share of such predictions is not known: {error}"
    predicted, true = outcome.predictions_and_references()
    is_sure = np.array([row["probability"] >= probability for row in outcome.decoded()], dtype=bool)
    is_right = np.asarray(predicted) == np.asarray(true)
    unsure = int((~is_sure).sum())
    line = f"unsure below {probability:g}: {unsure:,} of {counted(len(is_sure), 'validation example', form=',')}"
    line += f", {percent(unsure / max(len(is_sure), 1))}"
    rest, _ = right_of_all(is_right[is_sure], texts=outcome.same_texts[is_sure])
    return f"{line}; of the rest, {rest[0]}" if rest else f"{line}; nothing is left"
