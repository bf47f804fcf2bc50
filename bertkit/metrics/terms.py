"""Metrics as functions of means over the examples, so that an interval from thousands of samples takes little time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Terms = tuple[np.ndarray, Callable[..., Any]]
"""Numbers of each example (N, K), and a function from their K means, arrays of one shape, to the metric."""


def terms_of(name: str, predictions: Any, references: Any) -> Terms | None:
    """Returns the terms of a metric of classification or regression; None if it has no such form.

    Args:
        name: ``accuracy``, ``f1`` (of class 1 of two), ``f1_micro``, ``matthews_correlation`` (of two classes) or
            ``pearson``.
        predictions, references: class ids (N,), the labels of each example (N, C) as 0 and 1, or numbers (N,).

    >>> values, f1 = terms_of("f1", [1, 1, 0, 1], [1, 0, 1, 1])
    >>> round(float(f1(*values.mean(axis=0))), 4)
    0.6667
    """
    given, true = np.asarray(predictions, dtype=np.float64), np.asarray(references, dtype=np.float64)
    if name == "accuracy":
        return (given == true).reshape(len(true), -1).all(axis=1).astype(np.float64)[:, None], _same
    is_binary = bool(np.isin(given, (0, 1)).all() and np.isin(true, (0, 1)).all())
    if name in ("f1", "f1_micro") and is_binary and (name == "f1_micro") == (true.ndim == 2):
        sums = (each.reshape(len(true), -1).sum(axis=1) for each in (given * true, given + true))
        return np.stack(list(sums), axis=1), _f1
    if name == "matthews_correlation" and is_binary and true.ndim == 1:
        return np.stack([given, true, given * given, true * true, given * true], axis=1), _pearson
    if name == "pearson" and true.ndim == 1:
        given, true = given - given.mean(), true - true.mean()
        return np.stack([given, true, given * given, true * true, given * true], axis=1), _pearson
    return None


def _same(value: Any) -> Any:
    return value


def _f1(both: Any, either: Any) -> Any:
    return 2 * both / np.maximum(either, 1e-12)


def _pearson(x: Any, y: Any, xx: Any, yy: Any, xy: Any) -> Any:
    """Pearson's r, for two classes also Matthews' correlation; 0 if a variance is 0."""
    variances = np.maximum(xx - x * x, 0) * np.maximum(yy - y * y, 0)
    return np.where(variances > 1e-24, (xy - x * y) / np.sqrt(np.maximum(variances, 1e-24)), 0.0)
