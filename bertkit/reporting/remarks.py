"""Remarks on a run: what a reader of its scores must know, as sentences.

Dimension letters: N examples, C classes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bertkit.errors import shown
from bertkit.progress import counted, display_name, inflected

History = Sequence[Mapping[str, Any]]
"""The entries that the Trainer logged, in order."""

_NEAR_CHANCE = 0.15  # part of the way from chance to certainty
_HARDLY = 0.05  # part of the standard deviation of the true numbers
_MOST_NAMES = 8


def readable(key: str) -> str:
    """Returns the name of a logged value for a heading.

    >>> readable("masked_lm_loss"), readable("eval_f1_macro"), readable("grad_norm")
    ('masked LM loss', 'f1 macro', 'gradient norm')
    """
    return {"grad_norm": "gradient norm"}.get(key) or display_name(key.removeprefix("eval_"))


def never_predicted(
    names: Sequence[str], true: np.ndarray, predicted: np.ndarray, *, what: tuple[str, str], unit: str = "example"
) -> list[str]:
    """Returns a remark on the classes that occur and are never predicted; none if there are no such classes.

    Args:
        names: the C classes.
        true, predicted: number of examples that have each class, and that are predicted to have it, (C,) each.
        what: singular and plural of what has these names.
        unit: what is counted.

    >>> counts = np.array([9, 4]), np.array([13, 0])
    >>> never_predicted(["billing", "sales"], *counts, what=("class", "classes"))
    ["1 of 2 classes is never predicted: 'sales' (4 examples)."]
    """
    missing = [c for c in range(len(names)) if true[c] and not predicted[c]]
    if not missing:
        return []
    listed = ", ".join(f"{shown(names[c])} ({counted(int(true[c]), unit, form=',')})" for c in missing[:_MOST_NAMES])
    more = f" and {len(missing) - _MOST_NAMES} more" if len(missing) > _MOST_NAMES else ""
    are = inflected(len(missing), "is", "are")
    return [f"{len(missing)} of {counted(len(names), *what)} {are} never predicted: {listed}{more}."]


def near_chance(probabilities: np.ndarray) -> list[str]:
    """Returns a remark if the probabilities (N, C) of exclusive classes are hardly above 1 / C."""
    chance, top = 1 / probabilities.shape[1], float(probabilities.max(axis=1).mean())
    if top >= chance + _NEAR_CHANCE * (1 - chance):
        return []
    return [
        f"The probabilities are near chance: that of the predicted class is {top:.2f} on average, and {chance:.2f} if "
        "all classes are equally likely."
    ]


def hardly_different(predicted: np.ndarray, true: np.ndarray) -> list[str]:
    """Returns a remark if predicted numbers (N,) are nearly the same for all examples, unlike the true ones (N,)."""
    own, expected = float(predicted.std()), float(true.std())
    if own >= _HARDLY * expected:
        return []
    return [
        f"The predictions hardly differ between examples: their standard deviation is {own:.2g}, that of the true "
        f"numbers {expected:.2g}."
    ]


def still_falls(losses: Sequence[float]) -> list[str]:
    """Returns a remark if the last of several validation losses is clearly the lowest; none otherwise.

    That is if it is at least 1 % lower than the one before, and this at least 5 % of the way that the loss has fallen.

    >>> still_falls([1.4, 1.13, 0.89])
    ['The validation loss still falls at the end, from 1.1300 to 0.8900: more epochs may give better scores.']
    """
    if len(losses) < 2 or losses[-1] > min(losses):
        return []
    drop = losses[-2] - losses[-1]
    if drop < 0.01 * losses[-2] or drop < 0.05 * (max(losses) - losses[-1]):
        return []
    return [
        f"The validation loss still falls at the end, from {losses[-2]:.4f} to {losses[-1]:.4f}: more epochs may give "
        "better scores."
    ]


def not_finite(history: History) -> list[str]:
    """Returns a sentence for each logged value that was NaN or infinite, which curves do not show.

    >>> not_finite([{"step": 2, "grad_norm": float("inf")}, {"step": 4, "grad_norm": 1.5}])
    ['The gradient norm was not finite in 1 of 2 logs, first at step 2; its curve leaves this out.']
    """
    sentences = []
    for key in dict.fromkeys(key for entry in history for key in entry):
        values = [(entry["step"], entry[key]) for entry in history if isinstance(entry.get(key), float)]
        steps = [step for step, value in values if not math.isfinite(value)]
        if steps:
            name = f"{'validation ' if key.startswith('eval_') else ''}{readable(key)}"
            logs = f"{len(steps):,} of {counted(len(values), 'log', form=',')}"
            sentences.append(
                f"The {name} was not finite in {logs}, first at step {steps[0]:,}; its curve leaves this out."
            )
    return sentences
