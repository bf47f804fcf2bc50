"""Predictions of a class with a low probability, as the label ``unsure``: ``bertkit predict --unsure-below``."""

from __future__ import annotations

from typing import Any

from bertkit.runtime.errors import RecipeError
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
    if UNSURE in task.settings.label_names:
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
