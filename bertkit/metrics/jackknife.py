"""Pseudo-values of the jackknife (Tukey 1958): the part of each example, or group of examples, in a score.

Dimension letters: N examples, G groups of examples, K means of the terms of a metric.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bertkit.metrics.terms import Terms

_MOST_GROUPS = 200  # that are left out, one at a time, for a metric without terms
_SEED = 0  # so that the same examples make the same groups

Measure = Callable[[Sequence[Any], Sequence[Any]], float]
"""Function that computes a metric of predictions and references for any selection of examples; NaN if undefined."""


def checked(terms: Terms | None, score: float) -> Terms | None:
    """Returns the terms if they give the score of all examples; None otherwise."""
    if terms is None:
        return None
    terms = Terms(*terms)
    return terms if np.isclose(terms.function(*terms.values.mean(axis=0)), score, rtol=1e-6, atol=1e-9) else None


def pseudo_values(
    predictions: Sequence[Any], references: Sequence[Any], measure: Measure, terms: Terms | None
) -> np.ndarray:
    """Returns the jackknife's pseudo-values of a score: (N,) with terms, else (G,) with G ≤ 200 groups of examples.

    With g units they are g · score − (g − 1) · score without a unit. Those of the same references belong to the same
    units, whatever the predictions.
    """
    if terms is not None:
        number, means = len(terms.values), terms.values.mean(axis=0)
        without = means + (means - terms.values) / (number - 1)
        return np.asarray(number * terms.function(*means) - (number - 1) * terms.function(*without.T), dtype=np.float64)
    number = len(references)
    groups = math.ceil(number / math.ceil(number / _MOST_GROUPS))
    group = np.random.default_rng(_SEED).permutation(np.arange(number) % groups)
    scores = []
    for each in range(groups):
        rows = np.flatnonzero(group != each).tolist()
        scores.append(measure([predictions[row] for row in rows], [references[row] for row in rows]))
    return groups * measure(predictions, references) - (groups - 1) * np.array(scores, dtype=np.float64)
