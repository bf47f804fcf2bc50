"""Remarks on the predictions of a run: what a reader of its scores must know, as sentences.

They are the ``remarks`` of `bertkit.tasks.report_parts.Section`. Dimension letters: N examples, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bertkit.errors import shown
from bertkit.progress import counted, inflected

_NEAR_CHANCE = 0.15  # part of the way from chance to certainty
_HARDLY = 0.05  # part of the standard deviation of the true numbers
_MOST_NAMES = 8


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
    own, given = float(predicted.std()), float(true.std())
    if own >= _HARDLY * given:
        return []
    return [
        f"The predictions hardly differ between examples: their standard deviation is {own:.2g}, that of the true "
        f"numbers {given:.2g}."
    ]
