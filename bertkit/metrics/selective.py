"""Predictions that are answered and others that are declined: the threshold, and a bound of the errors that are left.

From labelled rows that the model has not seen, `answer_curve` computes for each threshold of the probability how many
rows are answered, how many of these are wrong, and an upper bound of the share of errors among all answers: that of
Clopper and Pearson (1934). The lowest threshold whose bound is small enough answers the most (Geifman and El-Yaniv
2017, arXiv:1705.08500).

The bound of a single threshold has a confidence of `OF_A_THRESHOLD`. That the lowest of many is taken costs some of it:
`CONFIDENCE` is left if rows below the right threshold are wrong at least 1.1 times as often as is promised, while those
above it are right more often (`tests/metrics/test_selective.py` counts it; `benchmarks/abstain.py` counts models, whose
folds are not the model of the run either). A test of one threshold after the other,
from the highest down, needs no such condition (Angelopoulos et al. 2021, arXiv:2110.01052), but ends at the first error
of a few rows.

Dimension letters: N rows, T different probabilities.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

CONFIDENCE = 0.9
"""Share of draws of the rows in which the errors among all answers are at most the promised share."""

OF_A_THRESHOLD = 0.975
"""Confidence of the bound of each threshold."""


class Answers(NamedTuple):
    """Rows that a threshold answers.

    Attributes:
        threshold: lowest probability that is answered.
        number: rows answered.
        wrong: of these.
        bound: upper bound of the share of errors among all answers.
    """

    threshold: float
    number: int
    wrong: int
    bound: float


@dataclass(frozen=True)
class AnswerCurve:
    """Answers by threshold, from the highest threshold to the lowest.

    Attributes:
        thresholds, numbers, wrong, bounds: as of `Answers`, (T,).
    """

    thresholds: np.ndarray
    numbers: np.ndarray
    wrong: np.ndarray
    bounds: np.ndarray

    def widest(self, max_error: float) -> Answers | None:
        """Returns the lowest threshold whose bound is at most ``max_error``; None if there is none."""
        kept = np.flatnonzero(self.bounds <= max_error)
        return self._at(int(kept[-1])) if len(kept) else None

    def surest(self) -> Answers | None:
        """Returns the threshold with the lowest bound; None without rows."""
        return self._at(int(self.bounds.argmin())) if len(self.bounds) else None

    def _at(self, place: int) -> Answers:
        return Answers(
            float(self.thresholds[place]),
            int(self.numbers[place]),
            int(self.wrong[place]),
            float(self.bounds[place]),
        )


def answer_curve(
    probabilities: np.ndarray, is_wrong: np.ndarray, units: Sequence[Hashable] | None = None
) -> AnswerCurve:
    """Returns what each threshold answers.

    A threshold lies halfway between two probabilities that occur, so that their last digits do not matter; the last one
    is the lowest probability.

    Args:
        probabilities: of the predicted class of each row, (N,).
        is_wrong: (N,) bool.
        units: of each row, (N,): rows of one unit, such as copies of a text, depend on each other. The bound counts a
            unit once, as wrong as the share of its rows that is. None if all rows are independent.

    >>> curve = answer_curve(np.array([0.9, 0.8, 0.5, 0.5]), np.array([False, False, True, False]))
    >>> [round(each, 2) for each in curve.thresholds.tolist()], curve.numbers.tolist(), curve.wrong.tolist()
    ([0.85, 0.65, 0.5], [1, 2, 4], [0, 0, 1])
    """
    from scipy.stats import beta

    order = np.argsort(-probabilities, kind="stable")
    sorted_probabilities = probabilities[order]
    ends = np.flatnonzero(np.append(np.diff(sorted_probabilities) < 0, True)) if len(order) else np.arange(0)
    numbers, wrong = ends + 1, np.cumsum(is_wrong[order])[ends]
    independent, errors = numbers.astype(np.float64), wrong.astype(np.float64)
    if units is not None:
        seen: Counter[Hashable] = Counter()
        wrong_of: Counter[Hashable] = Counter()
        added = np.zeros((2, len(order)))  # what each row adds to the number of units, and to that of wrong ones
        for place, row in enumerate(order.tolist()):
            unit = units[row]
            before = wrong_of[unit] / seen[unit] if seen[unit] else 0.0
            seen[unit] += 1
            wrong_of[unit] += int(is_wrong[row])
            added[:, place] = seen[unit] == 1, wrong_of[unit] / seen[unit] - before
        independent, errors = np.cumsum(added, axis=1)[:, ends]
    bounds = np.where(wrong < numbers, beta.ppf(OF_A_THRESHOLD, errors + 1, np.maximum(independent - errors, 1e-9)), 1)
    lower = np.append(sorted_probabilities, sorted_probabilities[-1:])[numbers]
    return AnswerCurve((sorted_probabilities[ends] + lower) / 2, numbers, wrong, bounds)


def rows_needed(max_error: float) -> int:
    """Returns the number of answered rows, all of them right, from which on a bound is at most ``max_error``.

    >>> rows_needed(0.05), answer_curve(np.full(72, 0.9), np.zeros(72, bool)).bounds.round(3).tolist()
    (72, [0.05])
    """
    return math.ceil(math.log(1 - OF_A_THRESHOLD) / math.log(1 - max_error))
