"""Counts of examples that two systems get right, for classes and other answers that are right or wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Agreement:
    """Counts of examples that two systems get right.

    Attributes:
        both, only_a, only_b, neither: numbers of examples that both, one or none of them gets right.
        same: number of examples with the same prediction.
        mcnemar_p: exact p-value of McNemar's test of the same share right; 1 without discordant examples.
    """

    both: int
    only_a: int
    only_b: int
    neither: int
    same: int
    mcnemar_p: float


def agreement(a: Sequence[Any], b: Sequence[Any], references: Sequence[Any]) -> Agreement:
    """Compares predictions of two systems with the references, and with each other; an example is right as a whole."""
    from scipy.stats import binomtest

    right_a, right_b = ([p == r for p, r in zip(side, references, strict=True)] for side in (a, b))
    counts = dict.fromkeys(((True, True), (True, False), (False, True), (False, False)), 0)
    for pair in zip(right_a, right_b, strict=True):
        counts[pair] += 1
    only_a, only_b = counts[True, False], counts[False, True]
    p = float(binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0
    same = sum(first == second for first, second in zip(a, b, strict=True))
    return Agreement(counts[True, True], only_a, only_b, counts[False, False], same, p)
