"""Intervals of scores over seeds and over examples, by `scipy.stats`; all are 95 % intervals.

Scores that are not proportions have the interval of Student's t over the jackknife's pseudo-values (Tukey 1958): the
part of each example, or group of examples, in the score; for a mean over examples they are its values. It holds the
truth in 94 to 97 % of repetitions with 50 examples (`tests/metrics/test_coverage.py`), where the percentile bootstrap
holds it in 92 to 95 % and BCa in 90 to 97 %, and it needs no resampling.

Dimension letters: N examples, G groups of examples, R runs, K means of the terms of a metric.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bertkit.metrics.terms import Terms

CONFIDENCE = 0.95
_MOST_GROUPS = 200  # that are left out, one at a time, for a metric without terms
_SEED = 0  # so that the same examples make the same groups

Measure = Callable[[Sequence[Any], Sequence[Any]], float]
"""Function that computes a metric of predictions and references for any selection of examples; NaN if undefined."""


def mean_interval(scores: Sequence[float]) -> tuple[float, float] | None:
    """Returns the interval of the mean score over seeds: Student's t.

    Args:
        scores: one per run, (R,).

    Returns:
        The ends; None for fewer than two scores, a score that is not finite, or equal scores, whose spread is unknown.

    >>> [round(end, 3) for end in mean_interval([0.6, 0.7, 0.8])]  # 0.7 ± 4.303 · 0.1 / √3
    [0.452, 0.948]
    """
    return t_interval(np.asarray(scores, dtype=np.float64))


def proportion_interval(successes: int, number: int) -> tuple[float, float]:
    """Returns Wilson's interval of a proportion, which is never of zero width.

    Args:
        successes: number of successes, 0 to ``number``.
        number: number of trials, at least 1.

    >>> [round(end, 4) for end in proportion_interval(10, 10)]
    [0.7225, 1.0]
    """
    from scipy.stats import binomtest

    interval = binomtest(int(successes), int(number)).proportion_ci(CONFIDENCE, method="wilson")
    return float(interval.low), float(interval.high)


def score_interval(
    predictions: Sequence[Any], references: Sequence[Any], measure: Measure, terms: Terms | None = None
) -> tuple[float, float] | None:
    """Returns the interval of a score over examples: Wilson's for proportions, else Student's t over pseudo-values.

    A score with known bounds, such as F1 or a correlation, has the interval on the logistic scale between them, so that
    it does not end outside of them.

    Args:
        predictions, references: (N,) each.
        measure: the metric.
        terms: the metric as a function of means; if it is None or gives another score, the metric is computed again
            without each of up to 200 groups of examples.

    Returns:
        The ends; None for fewer than two examples, an undefined score, or examples that all have the same value.
    """
    score = measure(predictions, references)
    if len(references) < 2 or not math.isfinite(score):
        return None
    terms = checked(terms, score)
    if terms is not None and terms.is_proportion:
        return _interval_of_proportion(terms)
    low, high = terms.bounds if terms is not None else (-math.inf, math.inf)
    values = pseudo_values(predictions, references, measure, terms)
    if not math.isfinite(high - low):
        return t_interval(values)
    if not low < score < high:
        return None
    share = (score - low) / (high - low)
    # The delta method: pseudo-values of the logit of the share, with its mean in their middle.
    logits = (values - values.mean()) / (high - low) / (share * (1 - share)) + math.log(share / (1 - share))
    interval = t_interval(logits)
    if interval is None:
        return None
    ends = [low + (high - low) / (1 + math.exp(-end)) for end in interval]
    return ends[0], ends[1]


def _interval_of_proportion(terms: Terms) -> tuple[float, float] | None:
    """Returns Wilson's interval of a metric that is a function of a proportion; None without trials."""
    number = len(terms.values)
    successes, *others = terms.values.sum(axis=0)
    trials = int(others[0]) if others else number
    if not trials:
        return None
    shares = [trials / number for _ in others]
    low, high = (
        float(terms.function(end * trials / number, *shares)) for end in proportion_interval(int(successes), trials)
    )
    return low, high


def t_interval(values: np.ndarray) -> tuple[float, float] | None:
    """Returns the interval of Student's t for the mean of (N,) values; None if it would have no width."""
    from scipy.stats import ttest_1samp

    if len(values) < 2 or not np.isfinite(values).all() or is_constant(values):
        return None
    interval = ttest_1samp(values, 0.0).confidence_interval(CONFIDENCE)
    return float(interval.low), float(interval.high)


def is_constant(values: np.ndarray) -> bool:
    """Returns whether values are equal but for rounding; scipy warns for them."""
    return bool(np.ptp(values) <= 1e-12 * max(1.0, float(np.abs(values).max())))


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
