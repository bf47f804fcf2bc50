"""Metrics as functions of means over the examples, so that intervals and tests take little time.

Dimension letters: N examples, K means.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

_MOST_CLASSES = 50  # of a macro-averaged score, for which a column of each is kept


class Terms(NamedTuple):
    """A metric as a function of means over the examples.

    Attributes:
        values: numbers of each example, (N, K).
        function: function from their K means, numbers or arrays of one shape, to the metric.
        bounds: the lowest and the highest value of the metric.
        is_proportion: the metric is an increasing function of a proportion: the first column is 1 for successes, and
            the second one, if there are two, 1 for trials; else each example is a trial.
    """

    values: np.ndarray
    function: Callable[..., Any]
    bounds: tuple[float, float] = (-math.inf, math.inf)
    is_proportion: bool = False

    @property
    def is_mean_of_successes(self) -> bool:
        """Returns whether each example is right or wrong, and the metric counts those that are right."""
        return self.is_proportion and self.values.shape[1] == 1


def mean_terms(values: Any, scale: float = 1.0) -> Terms:
    """Returns the terms of a metric that is the mean of values in [0, 1], such as exact match.

    Args:
        values: value of each example, (N,).
        scale: factor of the metric: 100 for per cent.
    """
    column = np.asarray(values, dtype=np.float64)[:, None]
    is_proportion = bool(np.isin(column, (0, 1)).all())
    return Terms(column, lambda mean: scale * mean, (0.0, scale), is_proportion)


def terms_of(name: str, predictions: Any, references: Any) -> Terms | None:
    """Returns the terms of a metric of classification or regression; None if it has no such form.

    Args:
        name: ``accuracy``, ``f1`` (of class 1 of two), ``f1_micro``, ``f1_macro``, ``matthews_correlation`` (of two
            classes), ``combined_score`` of accuracy and F1, ``mse`` or ``pearson``.
        predictions, references: class ids (N,), the labels of each example (N, C) as 0 and 1, or numbers (N,).

    >>> values, f1, *_ = terms_of("f1", [1, 1, 0, 1], [1, 0, 1, 1])
    >>> round(float(f1(*values.mean(axis=0))), 4)
    0.6667
    """
    given, true = np.asarray(predictions, dtype=np.float64), np.asarray(references, dtype=np.float64)
    right = (given == true).reshape(len(true), -1).all(axis=1)
    if name == "accuracy":
        return mean_terms(right)
    is_binary = bool(np.isin(given, (0, 1)).all() and np.isin(true, (0, 1)).all())
    if name == "f1" and is_binary and true.ndim == 1:
        # Of the examples in class 1 by either side, the share in class 1 by both: F1 = 2 s / (s + t).
        both, either = given * true, np.maximum(given, true)
        return Terms(np.stack([both, either], axis=1), _f1_of_proportion, (0.0, 1.0), is_proportion=True)
    if name == "combined_score" and is_binary and true.ndim == 1:
        columns = np.stack([right, given * true, given + true], axis=1).astype(np.float64)
        return Terms(columns, lambda accuracy, both, sum_: (accuracy + _f1(both, sum_)) / 2, (0.0, 1.0))
    if name == "f1_micro" and is_binary and true.ndim == 2:
        return Terms(np.stack([(given * true).sum(axis=1), (given + true).sum(axis=1)], axis=1), _f1, (0.0, 1.0))
    if name == "f1_macro":
        return _f1_macro(given, true)
    if name == "matthews_correlation" and is_binary and true.ndim == 1:
        return _correlation(given, true, 0.0)
    if name == "pearson" and true.ndim == 1:
        return _correlation(given, true, math.nan)
    if name == "mse" and true.ndim == 1:
        return Terms(np.square(given - true)[:, None], lambda mean: mean)
    return None


def _f1(both: Any, sum_: Any) -> Any:
    return 2 * both / np.maximum(sum_, 1e-12)


def _f1_of_proportion(both: Any, either: Any) -> Any:
    return _f1(both, both + either)


def _f1_macro(given: np.ndarray, true: np.ndarray) -> Terms | None:
    """Returns the mean F1 of the labels of (N, C), or of the classes that occur in (N,); None for numbers."""
    if true.ndim == 1:
        classes = np.unique([given, true])
        if len(classes) > _MOST_CLASSES:
            return None
        given, true = (side[:, None] == classes for side in (given, true))
    both, sums = given * true, given.astype(np.float64) + true
    number = true.shape[1]

    def f1_macro(*means: Any) -> Any:
        return sum(_f1(means[label], means[number + label]) for label in range(number)) / number

    return Terms(np.concatenate([both, sums], axis=1).astype(np.float64), f1_macro, (0.0, 1.0))


def _correlation(given: np.ndarray, true: np.ndarray, undefined: float) -> Terms:
    """Returns Pearson's r, for two classes also Matthews' correlation; ``undefined`` where a variance is 0."""
    columns = []
    for side in (given, true):
        centred = side - side.mean()
        # Scaling does not change r, and separates a small variance from rounding errors.
        columns.append(centred / (np.abs(centred).max() or 1.0))
    x, y = columns

    def pearson(x: Any, y: Any, xx: Any, yy: Any, xy: Any) -> Any:
        variances = np.maximum(xx - x * x, 0) * np.maximum(yy - y * y, 0)
        return np.where(variances > 1e-24, (xy - x * y) / np.sqrt(np.maximum(variances, 1e-24)), undefined)

    return Terms(np.stack([x, y, x * x, y * y, x * y], axis=1), pearson, (-1.0, 1.0))
