"""Intervals of scores over seeds and over examples, by `scipy.stats`, and metrics as functions of means.

All are 95 % intervals. A metric that is a function of means over the examples has its interval in little time.

Scores that are not proportions have the interval of Student's t over the jackknife's pseudo-values (Tukey 1958): the
part of each example, or group of examples, in the score; for a mean over examples they are its values. It holds the
truth in 94 to 97 % of repetitions with 50 examples (`tests/metrics/test_coverage.py`), where the percentile bootstrap
holds it in 92 to 95 % and BCa in 90 to 97 %, and it needs no resampling.

Examples that say the same, as copies of a text do, can be one unit: an interval counts it once, as a cluster.

Dimension letters: N examples, U units of examples, G groups of units, R runs, K means of the terms of a metric.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

CONFIDENCE = 0.95
_MOST_GROUPS = 200  # that are left out, one at a time, for a metric without terms
_SEED = 0  # so that the same examples make the same groups
_MOST_CLASSES = 50  # of a macro-averaged score, for which a column of each is kept

Measure = Callable[[Sequence[Any], Sequence[Any]], float]
"""Function that computes a metric of predictions and references for any selection of examples; NaN if undefined."""


# ---- metrics as functions of means ----------------------------------------------------------------------------------


class MeanDecomposition(NamedTuple):
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


def mean_terms(values: Any, scale: float = 1.0) -> MeanDecomposition:
    """Returns the terms of a metric that is the mean of values in [0, 1], such as exact match.

    Args:
        values: value of each example, (N,).
        scale: factor of the metric: 100 for per cent.
    """
    column = np.asarray(values, dtype=np.float64)[:, None]
    is_proportion = bool(np.isin(column, (0, 1)).all())
    return MeanDecomposition(column, lambda mean: scale * mean, (0.0, scale), is_proportion)


def terms_of(name: str, predictions: Any, references: Any) -> MeanDecomposition | None:
    """Returns the terms of a metric of classification or regression; None if it has no such form.

    Args:
        name: ``accuracy``, ``f1`` (of class 1 of two), ``f1_micro``, ``f1_macro``, ``matthews_correlation``,
            ``combined_score`` of accuracy and F1 or of both correlations, ``mse``, ``pearson`` or ``spearmanr``.
        predictions, references: class ids (N,), the labels of each example (N, C) as 0 and 1, or numbers (N,).

    >>> values, f1, *_ = terms_of("f1", [1, 1, 0, 1], [1, 0, 1, 1])
    >>> round(float(f1(*values.mean(axis=0))), 4)
    0.6667
    """
    predicted, true = np.asarray(predictions, dtype=np.float64), np.asarray(references, dtype=np.float64)
    right = (predicted == true).reshape(len(true), -1).all(axis=1)
    if name == "accuracy":
        return mean_terms(right)
    is_binary = bool(np.isin(predicted, (0, 1)).all() and np.isin(true, (0, 1)).all())
    if name == "f1" and is_binary and true.ndim == 1:
        # F1 grows with the share of examples in class 1 by both sides among those in class 1 by either side.
        columns = np.stack([predicted * true, np.maximum(predicted, true)], axis=1)
        return MeanDecomposition(columns, lambda both, either: _f1(both, both + either), (0.0, 1.0), is_proportion=True)
    if name == "combined_score" and is_binary and true.ndim == 1:
        columns = np.stack([right, predicted * true, predicted + true], axis=1).astype(np.float64)
        return MeanDecomposition(columns, lambda accuracy, both, sum_: (accuracy + _f1(both, sum_)) / 2, (0.0, 1.0))
    if name == "f1_micro" and is_binary and true.ndim == 2:
        return MeanDecomposition(
            np.stack([(predicted * true).sum(axis=1), (predicted + true).sum(axis=1)], axis=1), _f1, (0.0, 1.0)
        )
    if name == "f1_macro":
        return _f1_macro(predicted, true)
    if name == "matthews_correlation" and true.ndim == 1:
        return _correlation(predicted, true, 0.0) if is_binary else _correlation_of_classes(predicted, true)
    # The terms of ranks are only a linear part; of up to so many examples each is left out in turn, which is exact.
    if name in ("spearmanr", "combined_score") and true.ndim == 1 and len(true) > _MOST_GROUPS:
        ranks = _rank_correlation(predicted, true)
        if name == "spearmanr":
            return ranks
        linear = _correlation(predicted, true, math.nan)
        number, columns = linear.values.shape[1], np.concatenate([linear.values, ranks.values], axis=1)
        return MeanDecomposition(
            columns,
            lambda *means: (linear.function(*means[:number]) + ranks.function(*means[number:])) / 2,
            linear.bounds,
        )
    if name == "pearson" and true.ndim == 1:
        return _correlation(predicted, true, math.nan)
    if name == "mse" and true.ndim == 1:
        return MeanDecomposition(np.square(predicted - true)[:, None], lambda mean: mean, (0.0, math.inf))
    return None


def _f1(both: Any, sum_: Any) -> Any:
    return 2 * both / np.maximum(sum_, 1e-12)


def _f1_macro(predicted: np.ndarray, true: np.ndarray) -> MeanDecomposition | None:
    """Returns the mean F1 of the labels of (N, C), or of the classes that occur in (N,); None for more than 50."""
    if true.ndim == 1:
        classes = np.unique([predicted, true])
        if len(classes) > _MOST_CLASSES:
            return None
        predicted, true = (side[:, None] == classes for side in (predicted, true))
    both, sums = predicted * true, predicted.astype(np.float64) + true
    number = true.shape[1]

    def f1_macro(*means: Any) -> Any:
        return sum(_f1(means[label], means[number + label]) for label in range(number)) / number

    return MeanDecomposition(np.concatenate([both, sums], axis=1).astype(np.float64), f1_macro, (0.0, 1.0))


def _correlation(predicted: np.ndarray, true: np.ndarray, undefined: float) -> MeanDecomposition:
    """Returns Pearson's r, for two classes also Matthews' correlation; ``undefined`` where a variance is 0."""
    columns = []
    for side in (predicted, true):
        centred = side - side.mean()
        # Scaling does not change r, and separates a small variance from rounding errors.
        columns.append(centred / (np.abs(centred).max() or 1.0))
    x, y = columns

    def pearson(x: Any, y: Any, xx: Any, yy: Any, xy: Any) -> Any:
        variances = np.maximum(xx - x * x, 0) * np.maximum(yy - y * y, 0)
        return np.where(variances > 1e-24, (xy - x * y) / np.sqrt(np.maximum(variances, 1e-24)), undefined)

    return MeanDecomposition(np.stack([x, y, x * x, y * y, x * y], axis=1), pearson, (-1.0, 1.0))


def _correlation_of_classes(predicted: np.ndarray, true: np.ndarray) -> MeanDecomposition | None:
    """Returns Matthews' correlation of several classes (Gorodkin 2004); None for more than 50."""
    classes = np.unique([predicted, true])
    if len(classes) > _MOST_CLASSES:
        return None
    columns = [predicted == true, *(predicted == each for each in classes), *(true == each for each in classes)]

    def matthews(right: Any, *shares: Any) -> Any:
        of_predicted, of_true = np.stack(shares[: len(classes)]), np.stack(shares[len(classes) :])
        variances = (1 - (of_predicted**2).sum(axis=0)) * (1 - (of_true**2).sum(axis=0))
        covariance = right - (of_predicted * of_true).sum(axis=0)
        return np.where(variances > 1e-24, covariance / np.sqrt(np.maximum(variances, 1e-24)), 0.0)

    return MeanDecomposition(np.stack(columns, axis=1).astype(np.float64), matthews, (-1.0, 1.0))


def _rank_correlation(predicted: np.ndarray, true: np.ndarray) -> MeanDecomposition:
    """Returns Spearman's correlation: Pearson's of the mid-ranks, as shares of the examples.

    A rank depends on all examples. The terms are the linear part of that: what an example adds by its own ranks, and by
    its part in the ranks of the others (the infinitesimal jackknife, Jaeckel 1972). Their means are exact.
    """
    x, y = _mid_ranks(predicted), _mid_ranks(true)
    columns = [
        x * y + _sum_above(predicted, y) + _sum_above(true, x) - 2 * (x * y).mean(),
        x * x + 2 * _sum_above(predicted, x) - 2 * (x * x).mean(),
        y * y + 2 * _sum_above(true, y) - 2 * (y * y).mean(),
    ]

    def spearman(xy: Any, xx: Any, yy: Any) -> Any:
        variances = np.maximum(xx - 0.25, 0) * np.maximum(yy - 0.25, 0)  # the mean of mid-ranks is a half
        return np.where(variances > 1e-24, (xy - 0.25) / np.sqrt(np.maximum(variances, 1e-24)), math.nan)

    return MeanDecomposition(np.stack(columns, axis=1), spearman, (-1.0, 1.0))


def _mid_ranks(values: np.ndarray) -> np.ndarray:
    """Returns the share of examples below each one, and half of those that are equal, (N,)."""
    from scipy.stats import rankdata

    return (rankdata(values) - 0.5) / len(values)


def _sum_above(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Returns for each example the mean over all of the weight of those above it, and half of those equal, (N,)."""
    order = np.argsort(values, kind="stable")
    sums = np.concatenate([[0.0], np.cumsum(weights[order])])
    below, up_to = (sums[np.searchsorted(values[order], values, side=side)] for side in ("left", "right"))
    return (sums[-1] - (below + up_to) / 2) / len(values)


# ---- intervals ------------------------------------------------------------------------------------------------------


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


def proportion_interval(successes: float, number: float) -> tuple[float, float]:
    """Returns Wilson's interval of a proportion, which is never of zero width.

    Args:
        successes: number of successes, 0 to ``number``.
        number: number of trials, above 0; of trials that depend on each other the number of independent ones, which
            need not be whole (and which scipy does not take).

    >>> [round(end, 4) for end in proportion_interval(10, 10)]
    [0.7225, 1.0]
    """
    from scipy.stats import norm

    share, square = successes / number, float(norm.ppf((1 + CONFIDENCE) / 2)) ** 2
    middle = (share + square / (2 * number)) / (1 + square / number)
    half = math.sqrt(square * (share * (1 - share) / number + square / (4 * number**2))) / (1 + square / number)
    return middle - half if successes > 0 else 0.0, middle + half if successes < number else 1.0


def score_interval(
    predictions: Sequence[Any],
    references: Sequence[Any],
    measure: Measure,
    terms: MeanDecomposition | None = None,
    units: np.ndarray | None = None,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> tuple[float, float] | None:
    """Returns the interval of a score over examples: Wilson's for proportions, else Student's t over pseudo-values.

    A score with known bounds, such as F1 or a correlation, has the interval on the logistic scale between them, so that
    it does not end outside of them.

    Args:
        predictions, references: (N,) each.
        measure: the metric.
        terms: the metric as a function of means; if it is None or gives another score, the metric is computed again
            without each of up to 200 groups of examples.
        units: number of the unit of each example, (N,), such as its text; None if each is one of its own.
        bounds: the lowest and the highest value of a metric without terms, as `bertkit.metrics.score_limits` has them.

    Returns:
        The ends; None for fewer than two units, and for a score that is undefined, with all examples or without some.
        A score that is no proportion has none at an end of its range, and where all units add the same to it.
    """
    from scipy.special import expit, logit

    score = measure(predictions, references)
    numbers = _number_units(units, len(references))
    if len(references) < 2 or not numbers.max() or not math.isfinite(score):
        return None
    terms = usable_terms(terms, score)
    if terms is not None and len(terms.values) < 2:  # one query of several examples
        return None
    if terms is not None and terms.is_proportion:
        return _interval_of_proportion(terms, _number_units(units, len(terms.values)))
    low, high = bounds if terms is None else terms.bounds
    values = pseudo_values(predictions, references, measure, terms, units)
    if not math.isfinite(high - low):
        interval = t_interval(values)
        return interval and (max(low, interval[0]), min(high, interval[1]))
    share = (score - low) / (high - low)
    if not 0 < share < 1:
        return None
    # The delta method: pseudo-values of the logit of the share, with its mean in their middle.
    interval = t_interval((values - values.mean()) / (high - low) / (share * (1 - share)) + logit(share))
    if interval is None:
        return None
    first, last = (low + (high - low) * float(expit(end)) for end in interval)
    return first, last


def _interval_of_proportion(terms: MeanDecomposition, units: np.ndarray) -> tuple[float, float] | None:
    """Returns Wilson's interval of a metric that is a function of a proportion; None without trials.

    The trials of a unit count as one: of units of n_u trials, (Σ n_u)² / Σ n_u² are independent (Kish 1965).
    """
    number = len(terms.values)
    successes, *others = terms.values.sum(axis=0)
    trials = float(others[0]) if others else float(number)
    if not trials:
        return None
    of_unit = np.bincount(units, terms.values[:, 1] if others else None)
    independent = trials**2 / float((of_unit.astype(np.float64) ** 2).sum())
    shares = [trials / number for _ in others]
    low, high = (
        float(terms.function(end * trials / number, *shares))
        for end in proportion_interval(successes / trials * independent, independent)
    )
    return low, high


def _number_units(units: np.ndarray | None, number: int) -> np.ndarray:
    """Returns the numbers of units without gaps, (N,); each example is one if ``units`` are not of these examples."""
    if units is None or len(units) != number:
        return np.arange(number)
    return np.unique(units, return_inverse=True)[1]


def t_interval(values: np.ndarray) -> tuple[float, float] | None:
    """Returns the interval of Student's t for the mean of (N,) values; None for one, equal or infinite ones."""
    from scipy.stats import ttest_1samp

    if len(values) < 2 or not np.isfinite(values).all() or is_constant(values):
        return None
    interval = ttest_1samp(values, 0.0).confidence_interval(CONFIDENCE)
    return float(interval.low), float(interval.high)


def is_constant(values: np.ndarray) -> bool:
    """Returns whether values are equal but for rounding; scipy warns for them."""
    return bool(np.ptp(values) <= 1e-12 * max(1.0, float(np.abs(values).max())))


def usable_terms(terms: MeanDecomposition | None, score: float) -> MeanDecomposition | None:
    """Returns the terms if they give the score of all examples; None otherwise."""
    if terms is None:
        return None
    terms = MeanDecomposition(*terms)  # tasks of other packages may return a plain tuple
    return terms if np.isclose(terms.function(*terms.values.mean(axis=0)), score, rtol=1e-6, atol=1e-9) else None


def pseudo_values(
    predictions: Sequence[Any],
    references: Sequence[Any],
    measure: Measure,
    terms: MeanDecomposition | None,
    units: np.ndarray | None = None,
) -> np.ndarray:
    """Returns the jackknife's pseudo-values of a score: (U,) with terms, else (G,) with G ≤ 200 groups of units.

    With g of them they are g · score − (g − 1) · score without a unit or group. Those of the same references belong to
    the same units, whatever the predictions. ``units`` are those of `score_interval`.
    """
    if terms is not None:
        unit = _number_units(units, len(terms.values))
        sizes, means = np.bincount(unit)[:, None], terms.values.mean(axis=0)
        sums = np.zeros((len(sizes), len(means)))
        np.add.at(sums, unit, terms.values)
        number = len(sizes)
        without = means + (sizes * means - sums) / (len(terms.values) - sizes)
        return np.asarray(number * terms.function(*means) - (number - 1) * terms.function(*without.T), dtype=np.float64)
    unit = _number_units(units, len(references))
    number = int(unit.max()) + 1
    groups = math.ceil(number / math.ceil(number / _MOST_GROUPS))
    group = np.random.default_rng(_SEED).permutation(np.arange(number) % groups)[unit]
    scores = []
    for each in range(groups):
        rows = np.flatnonzero(group != each).tolist()
        scores.append(measure([predictions[row] for row in rows], [references[row] for row in rows]))
    return groups * measure(predictions, references) - (groups - 1) * np.array(scores, dtype=np.float64)
