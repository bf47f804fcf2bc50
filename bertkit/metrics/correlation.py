"""Correlations of predictions with references, by scipy."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def pearson(predictions: Floats, references: Floats) -> float:
    """Computes the linear correlation (`scipy.stats.pearsonr`), in [-1, 1].

    Args:
        predictions, references: (N,) floats.

    Returns:
        NaN, without a warning, where the correlation is undefined: predictions or references are all equal (a single
        example included), or a value is NaN or infinite.

    >>> round(pearson(np.array([1.0, 2, 3]), np.array([1.0, 2, 2])), 6)  # 1 / √(2 · 2/3)
    0.866025
    """
    from scipy import stats

    if _is_constant(predictions) or _is_constant(references) or not np.isfinite([predictions, references]).all():
        return math.nan
    # scipy centres the values once; where their spread is tiny beside the mean, the rounding of that mean is as large
    # as the spread, and scipy warns. Values that are centred beforehand are centred twice.
    return float(stats.pearsonr(predictions - predictions.mean(), references - references.mean()).statistic)


def spearman(predictions: Floats, references: Floats) -> float:
    """Computes the rank correlation (`scipy.stats.spearmanr`), in [-1, 1]; equal values share their mean rank.

    Args:
        predictions, references: (N,) floats; infinite values have ranks like others.

    Returns:
        NaN, without a warning, where the correlation is undefined: predictions or references are all equal (a single
        example included), or a value is NaN.

    >>> round(spearman(np.array([1.0, 2, 30]), np.array([0.0, 5, 5])), 6)  # ranks 1 2 3 and 1 2.5 2.5
    0.866025
    """
    from scipy import stats

    if _is_constant(predictions) or _is_constant(references) or np.isnan([predictions, references]).any():
        return math.nan
    return float(stats.spearmanr(predictions, references).statistic)


def _is_constant(values: Floats) -> bool:
    return bool((values == values[0]).all())
