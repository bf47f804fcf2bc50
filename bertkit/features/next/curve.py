"""The learning curve of a run: its accuracy with more rows, from its out-of-fold predictions and cheap models.

The accuracy now is that of the out-of-fold predictions, moved by how much surer the model is of the unlabelled rows
than its folds were of the labelled ones (Guillory et al. 2021, arXiv:2107.03315): rows that were chosen because they
are hard would make it too low. The error falls as a power of the number of rows (Hestness et al. 2017,
arXiv:1712.00409), whose exponent is that of linear models of frozen vectors, fitted to parts of the labelled rows.

Dimension letters: N labelled rows, D numbers of a vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bertkit.runtime.progress import counted
from bertkit.training.warm_start.linear_head import fit_by_folds, fit_head, folds_to_fit

LEVEL = 0.9
"""Share of the intervals that are to hold the accuracy that is reached."""

_FEWEST = 30  # labelled rows without which there is no curve
_MOST_ALONE = 0.1  # share of them that are the only ones of their class

_SHARES = (0.4, 0.55, 0.75)  # of the rows, in a subset
_DRAWS = 8  # subsets of each size
_USUAL = 0.35  # exponent, where the rows do not tell
_SPREAD = 0.15  # standard deviation of exponents around it
_OF_OTHERS = 0.15  # standard deviation between the exponent of a linear model and that of another model
_LEAST_SPREAD = 0.05  # standard deviation of what a few subsets tell, at least: they share their rows
_OF_RUNS = 0.08  # standard deviation of the logarithm of the error between runs
_OF_SHIFT = 0.2  # standard deviation of the logarithm of the odds by which calibrated probabilities are wrong
_SAMPLES = 4000
_LEAST = 0.002  # error that a curve can reach


@dataclass(frozen=True)
class Point:
    """The accuracy with a number of labelled rows.

    Attributes:
        rows: number of labelled rows.
        accuracy: the most likely accuracy, in [0, 1], within its interval.
        low, high: ends of the interval.
    """

    rows: int
    accuracy: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.accuracy:.2f} ({self.low:.2f} to {self.high:.2f})"


@dataclass(frozen=True)
class LearningCurve:
    """Accuracy of a run, and what it will be with more rows.

    Attributes:
        points: the first one is now.
        exponent: the error falls as the number of rows to the minus this.
        level: share of the intervals that are to hold the accuracy that is reached.
    """

    points: list[Point]
    exponent: float
    level: float = LEVEL

    def lines(self) -> list[str]:
        """Returns the curve in words."""
        now, *later = self.points
        parts = [f"with {counted(each.rows - now.rows, 'more row', form=',')} {each}" for each in later]
        return [f"accuracy on rows like these: {now} with {now.rows:,} labelled rows; {'; '.join(parts)}"]


def why_no_curve(labels: np.ndarray) -> str:
    """Returns why labelled rows have no learning curve; empty if they have one.

    The share of rows that are the only ones of their class is about the share of other rows whose classes are not
    known yet (Good 1953), and the error does not fall as a power before they are.

    Args:
        labels: classes of the rows, (N,) int64.
    """
    if len(labels) < _FEWEST:
        return f"{counted(len(labels), 'labelled row')}; {_FEWEST} are needed"
    alone = int(np.sum(np.unique(labels, return_counts=True)[1] == 1))
    if alone > _MOST_ALONE * len(labels):
        return (
            f"{alone} of {len(labels)} labelled rows are the only ones of their class, so about as many of the other "
            "rows are of classes that no row has yet"
        )
    return ""


def learning_curve(
    vectors: np.ndarray,
    labels: np.ndarray,
    is_right: np.ndarray,
    shift: float,
    more: Sequence[int],
    texts: np.ndarray | None = None,
) -> LearningCurve:
    """Computes the accuracy now and with more rows.

    Args:
        vectors: of the labelled rows, by a model that was not trained on them, (N, D).
        labels: their classes, (N,) int64.
        is_right: whether their out-of-fold predictions are right, (N,).
        shift: by how much the mean probability of the guesses is higher on the unlabelled rows than on these.
        more: numbers of further rows.
        texts: number of the text of each row, (N,), the same for copies; None without copies.
    """
    number = len(labels)
    accuracy = float(np.clip(is_right.mean() + shift, 1 / (number + 1), 1 - _LEAST))
    exponent, error_of_exponent = slope(vectors, labels, np.arange(number) if texts is None else texts)
    generator = np.random.default_rng(0)
    # The logarithm of the odds is nearly normal, also near 0 and 1. Two rows more, one of them wrong, are as if seen:
    # few rows that are all right do not say that no other is wrong.
    share = float(np.clip((is_right.sum() + 1) / (number + 2) + shift, 1 / (number + 2), 1 - 1 / (number + 2)))
    deviation = np.hypot(1 / np.sqrt((number + 2) * share * (1 - share)), _OF_SHIFT)
    odds = np.log(share / (1 - share)) + deviation * generator.standard_normal(_SAMPLES)
    errors = 1 / (1 + np.exp(odds))
    exponents = np.clip(exponent + error_of_exponent * generator.standard_normal(_SAMPLES), 0, 1)
    noise = np.exp(_OF_RUNS * generator.standard_normal(_SAMPLES))

    def point(further: int) -> Point:
        growth = (number + further) / number
        reached = 1 - np.clip(errors * growth**-exponents * noise, _LEAST, 1)
        low, high = np.quantile(reached, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
        likely = 1 - (1 - accuracy) * growth**-exponent
        return Point(number + further, min(max(likely, low), high), low, high)

    return LearningCurve([point(each) for each in (0, *more)], exponent)


def slope(vectors: np.ndarray, labels: np.ndarray, texts: np.ndarray) -> tuple[float, float]:
    """Returns by which power of the number of rows the error of linear models falls, and its standard deviation.

    Each model is fitted to a random subset, and its error is that on the quarter of the rows that no subset of the draw
    has. What these say is joined with what is usual, each by its precision.

    Args:
        vectors, labels, texts: as for `learning_curve`.
    """
    numbered = np.unique(labels, return_inverse=True)[1]
    classes = int(numbered.max()) + 1
    if classes < 2:
        return _USUAL, _SPREAD
    strength = fit_by_folds(vectors, numbered, folds_to_fit(texts, numbered.tolist()), classes)[0].strength
    slopes = []
    for draw in range(_DRAWS):
        rank = np.argsort(np.random.default_rng(draw).permutation(int(texts.max()) + 1))
        order = np.argsort(rank[texts], kind="stable")  # copies of a text stay together
        held = order[int(max(_SHARES) * len(order)) :]  # the same rows score all sizes
        errors = []
        for share in _SHARES:
            rows = order[: max(2, int(share * len(order)))]
            found = fit_head(vectors[rows], numbered[rows], classes, strength).logits(vectors[held]).argmax(axis=1)
            errors.append((np.sum(found != numbered[held]) + 0.5) / (len(held) + 1))
        slopes.append(-np.polyfit(np.log(_SHARES), np.log(errors), 1)[0])
    # Subsets of the same rows are not independent: the deviation of one is about that of their mean over other rows.
    variance = max(float(np.var(slopes, ddof=1)), _LEAST_SPREAD**2)
    weight = _SPREAD**2 / (_SPREAD**2 + variance)
    exponent = float(np.clip(weight * np.mean(slopes) + (1 - weight) * _USUAL, 0, 1))
    return exponent, float(np.sqrt(weight * variance + _OF_OTHERS**2))
