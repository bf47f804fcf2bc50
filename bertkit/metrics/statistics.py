"""Tests of differences between scores, by `scipy.stats`, and corrections for several of them.

They answer two questions, which are never mixed:

- *Do these models differ on this data?* The unit is an example (`by_example`); the models are fixed.
- *Do these settings differ?* The unit is a run with its own seed (`by_run`, `expected_best`).

Dimension letters: N examples, R runs.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bertkit.metrics.intervals import (
    CONFIDENCE,
    MeanDecomposition,
    Measure,
    is_constant,
    pseudo_values,
    t_interval,
    usable_terms,
)
from bertkit.runtime.progress import counted

LEVEL = 0.05
_RESAMPLES = 9999
_EXACT, _SAMPLED = "exact paired permutation test", f"paired permutation test with {_RESAMPLES:,} permutations"
_MOST_FLIPPED = 500  # differing examples; with more, the permutation test and Student's t agree
_MOST_ORDERS = 100_000  # of runs, up to which the permutation test is exact; with more, Welch's test holds
_SEED = 0  # so that the same scores give the same p-value

TermsOf = Callable[[Sequence[Any], Sequence[Any]], MeanDecomposition | None]
"""Function that returns the metric of predictions and references as a function of means over the examples."""


# ---- tests ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Test:
    """Result of a comparison by examples or by runs.

    Attributes:
        difference: B − A; None if a score is undefined.
        low, high: ends of the 95 % interval of the difference; None where there is none.
        p: two-sided p-value; None where there is no test, see ``reason``.
        smallest_p: the smallest p-value that the test can give with this number of units; 0 if any can be reached.
        units: number of examples, of which copies of a text count once, or of queries, of folds, or of the runs of A
            and of B.
        method: name of the test.
        reason: why there is no test, or none is needed, a clause; empty if there is one.
        adjusted_p: ``p`` with Holm's correction for several comparisons, see `adjust_tests`; None without one.
        comparisons: number of comparisons that it is corrected for.
        is_sampled: whether the p-value is from random permutations; then ``smallest_p`` only bounds it.
    """

    __test__ = False  # not a test for pytest

    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    smallest_p: float | None
    units: tuple[int, ...]
    method: str = ""
    reason: str = ""
    adjusted_p: float | None = None
    comparisons: int = 1
    is_sampled: bool = False

    @property
    def p_text(self) -> str:
        """Returns ``p = 0.03``, ``p < 0.0001``, or ``p ≤ 0.0002`` at the smallest value of random permutations.

        Empty without a p-value.
        """
        return self._text(self.p)

    @property
    def adjusted_text(self) -> str:
        """Returns the corrected p-value as `p_text`; empty without one."""
        return self._text(self.adjusted_p)

    @property
    def is_significant(self) -> bool:
        """Returns whether the p-value, with its correction for several comparisons, is at most 0.05."""
        p = self.p if self.adjusted_p is None else self.adjusted_p
        return p is not None and p <= LEVEL

    def _text(self, value: float | None) -> str:
        if value is None or self.p is None:
            return ""
        if value < 1e-4:
            return "p < 0.0001"
        is_bound = self.is_sampled and self.p <= (self.smallest_p or 0) * (1 + 1e-9)
        return f"p {'≤' if is_bound else '='} {value:.3g}"


def by_run(
    a: Sequence[float],
    b: Sequence[float],
    paired: bool = False,
    *,
    overlap: float = 0.0,
    level: float = LEVEL,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Test:
    """Compares two settings by the scores of their runs: does the difference hold for other seeds?

    Unpaired runs have the exact permutation test of the difference of means where it can use the level: four or more
    orders of the runs have a p-value of at most the level. Otherwise they have Welch's t-test, except where one setting
    has more than twice the runs of the other: there Welch's test rejects in up to 10 % without a difference, and the
    permutation test stays. With more than 100,000 orders, as of ten runs of each, it is Welch's test in any case.
    Paired scores have the paired t-test. The interval is that of the t-test.

    Args:
        a, b: scores of the runs, (R,) each; paired ones have the same length.
        paired: scores at the same position are of the same validation data, the folds of one split. The same seed is
            no reason: scores of two settings with one seed are next to uncorrelated.
        overlap: validation examples per training example, if the training sets of paired scores overlap: 1 / (K − 1)
            for K folds. It adds to the variance (Nadeau and Bengio 2003, "Inference for the Generalization Error").
        level: the level at which the difference is to be tested: 0.05 divided by the number of comparisons.
        bounds: the lowest and the highest value of the metric; no end of the interval is beyond their difference.

    >>> round(by_run([0.1, 0.2, 0.3, 0.4, 0.5], [0.6, 0.7, 0.8, 0.9, 1.0]).p, 4)  # 2 of the 252 orders of ten runs
    0.0079
    """
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    units = (len(first),) if paired else (len(first), len(second))
    if not len(first) or not len(second) or not np.isfinite([*first, *second]).all():
        reason = f"the score of a {'fold' if paired else 'run'} is undefined"
        return Test(None, None, None, None, None, units, reason=reason)
    difference = float(second.mean() - first.mean())
    if not paired and min(units) < 2:
        reason = f"{counted(len(first), 'run')} of A and {counted(len(second), 'run')} of B"
        reason += "; it needs two or more runs of each (--seeds)"
        return Test(difference, None, None, None, None, units, reason=reason)
    if paired:
        test = _test_paired_runs(first, second, overlap, difference)
    else:
        test = _test_unpaired_runs(first, second, level, difference)
    if test.low is None or test.high is None:
        return test
    widest = bounds[1] - bounds[0]
    return dataclasses.replace(test, low=max(test.low, -widest), high=min(test.high, widest))


def _test_paired_runs(first: np.ndarray, second: np.ndarray, overlap: float, difference: float) -> Test:
    from scipy.stats import t as student

    units = (len(first),)
    if is_constant(second - first):
        reason = "the difference is the same in all folds, so that its spread is unknown"
        return Test(difference, None, None, None, None, units, reason=reason)
    error = float(np.std(second - first, ddof=1)) * math.sqrt(1 / len(first) + overlap)
    distribution = student(len(first) - 1, scale=error)
    half = float(distribution.ppf((1 + CONFIDENCE) / 2))
    p = 2 * float(distribution.sf(abs(difference)))
    method = "paired t-test of folds" + (", corrected for their overlap" if overlap else "")
    return Test(difference, difference - half, difference + half, p, 0.0, units, method)


def _test_unpaired_runs(first: np.ndarray, second: np.ndarray, level: float, difference: float) -> Test:
    from scipy.stats import permutation_test, ttest_ind

    units = (len(first), len(second))
    low = high = None
    has_spread = not (is_constant(first) and is_constant(second))
    if has_spread:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Precision loss")  # the runs of one side may have equal scores
            welch = ttest_ind(second, first, equal_var=False)
        interval = welch.confidence_interval(CONFIDENCE)
        low, high = float(interval.low), float(interval.high)
    orders = math.comb(sum(units), units[0])
    if orders <= _MOST_ORDERS and (4 / orders <= level or 2 * min(units) < max(units)):
        exact = permutation_test(
            (first, second),
            lambda x, y, axis: np.mean(y, axis=axis) - np.mean(x, axis=axis),
            permutation_type="independent",
            vectorized=True,
            n_resamples=_MOST_ORDERS,
        )
        method = "exact permutation test of runs"
        return Test(difference, low, high, min(float(exact.pvalue), 1.0), min(2 / orders, 1.0), units, method)
    if not has_spread:
        reason = "the runs of A all have one score, and those of B too, so that the spread over seeds is unknown"
        return Test(difference, None, None, None, None, units, reason=reason)
    return Test(difference, low, high, float(welch.pvalue), 0.0, units, "Welch's t-test of runs")


def by_example(
    a: Sequence[Sequence[Any]],
    b: Sequence[Sequence[Any]],
    references: Sequence[Any],
    measure: Measure,
    terms: TermsOf | None = None,
    texts: np.ndarray | None = None,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Test:
    """Compares models on the same examples: does the difference hold for other examples of the kind, given the models?

    The score of each side is the mean over its own runs, and so are its pseudo-values. The interval is Student's t over
    the differences of the pseudo-values. The test exchanges the sides of random examples, or of random groups of them
    for a metric without terms and more than 200 examples: the signs of these differences. For accuracy with one run on
    each side it is McNemar's exact test, which is the same. With more than 500 differing examples it is the paired
    t-test, its limit.

    Args:
        a, b: predictions of the runs of both sides, each (N,); the numbers of runs may differ.
        references: (N,).
        measure: the metric.
        terms: the metric as a function of means, see `score_interval`.
        texts: number of the text of each example, (N,); None if all differ. The unit is a text: copies, whose values
            depend on each other, are exchanged together. The test has McNemar's form only without copies.
        bounds: the lowest and the highest value of a metric without terms, as for `score_interval`.
    """
    units = (len(references) if texts is None else len(np.unique(texts)),)
    scores = [[measure(run, references) for run in side] for side in (a, b)]
    for name, of_side in zip("AB", scores, strict=True):
        if not np.isfinite(of_side).all():
            reason = f"the score of {name} is undefined, as a correlation is where all predictions are equal"
            return Test(None, None, None, None, None, units, reason=reason)
    difference = float(np.mean(scores[1]) - np.mean(scores[0]))
    if units[0] < 2:
        reason = "one example" if len(references) == 1 else "all examples have one text"
        return Test(difference, None, None, None, None, units, reason=reason)
    known = _find_terms((a, b), references, scores, terms)
    first = known[0][0]
    if first is not None and len(first.values) != len(references):
        units, texts = (len(first.values),), None  # queries, each of several examples
        if units[0] < 2:
            return Test(difference, None, None, None, None, units, reason="one query")
    values = [
        np.mean(
            [pseudo_values(run, references, measure, each, texts) for run, each in zip(side, of_side, strict=True)],
            axis=0,
        )
        for side, of_side in zip((a, b), known, strict=True)
    ]
    differences = values[1] - values[0]
    if not np.isfinite(differences).all():
        reason = "the score is undefined without some of the examples"
        return Test(difference, None, None, None, None, units, reason=reason)
    # Pseudo-values of equal predictions agree but for rounding.
    flipped = differences[np.abs(differences) > 1e-9 * max(1.0, max(float(np.abs(side).max()) for side in values))]
    if not len(flipped):
        what = "example" if len(differences) == units[0] else "group of examples"
        return Test(difference, None, None, 1.0, 1.0, units, reason=f"both have the same score in every {what}")
    interval = t_interval(differences)
    low, high = None, None
    if interval is not None:  # a difference is not larger than the range of the score
        least, most = bounds if first is None else first.bounds
        low, high = max(interval[0], least - most), min(interval[1], most - least)
    has_copies = units[0] < len(references)
    are_right_or_wrong = first is not None and first.is_mean_of_successes and len(a) == len(b) == 1 and not has_copies
    p, smallest, method = _test_exchanges(differences, flipped, are_right_or_wrong)
    is_sampled = method == _SAMPLED
    return Test(difference, low, high, p, smallest, units, method, is_sampled=is_sampled)


def _test_exchanges(differences: np.ndarray, flipped: np.ndarray, are_right_or_wrong: bool) -> tuple[float, float, str]:
    """Tests by exchanges of the sides of random units; returns the p-value, the smallest possible one, and the method.

    Args:
        differences: of each unit, (N,).
        flipped: those that are not 0, at least one.
        are_right_or_wrong: the units are examples that each side gets right or wrong.
    """
    from scipy.stats import binomtest, permutation_test, ttest_1samp

    smallest = 2.0 ** (1 - len(flipped))
    if are_right_or_wrong:
        return float(binomtest(int((flipped > 0).sum()), len(flipped)).pvalue), smallest, "McNemar's exact test"
    if len(flipped) > _MOST_FLIPPED:
        return float(ttest_1samp(differences, 0.0).pvalue), 0.0, "paired t-test of examples"
    if len(flipped) == 1:  # which scipy refuses; both exchanges give the same size of difference
        return 1.0, 1.0, _EXACT
    test = permutation_test(
        (flipped,),
        np.sum,
        permutation_type="samples",
        vectorized=True,
        n_resamples=_RESAMPLES,
        batch=1000,
        rng=np.random.default_rng(_SEED),
    )
    p = min(float(test.pvalue), 1.0)
    return (p, smallest, _EXACT) if 2 ** len(flipped) <= _RESAMPLES else (p, 2 / (_RESAMPLES + 1), _SAMPLED)


def _find_terms(
    sides: Sequence[Sequence[Sequence[Any]]],
    references: Sequence[Any],
    scores: Sequence[Sequence[float]],
    terms: TermsOf | None,
) -> list[list[MeanDecomposition | None]]:
    """Returns the metric of each run as a function of means; None for all if one has no such form."""
    known = [
        [
            usable_terms(terms(run, references) if terms else None, score)
            for run, score in zip(side, of_side, strict=True)
        ]
        for side, of_side in zip(sides, scores, strict=True)
    ]
    if any(each is None for side in known for each in side):
        return [[None] * len(side) for side in known]  # all need the same units
    return known


# ---- several comparisons --------------------------------------------------------------------------------------------


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns p-values with Holm's correction (1979), in their order: each may be compared with the level itself.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    corrected = np.empty_like(values)
    corrected[order] = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    return [float(p) for p in np.minimum(corrected, 1.0)]


def adjust_tests(tests: Sequence[Test]) -> list[Test]:
    """Returns the tests of several comparisons with `holm` in ``adjusted_p``; those without a p-value do not count."""
    p_values = [test.p for test in tests if test.p is not None]
    if len(p_values) < 2:
        return list(tests)
    corrected = iter(holm(p_values))
    return [
        test if test.p is None else dataclasses.replace(test, adjusted_p=next(corrected), comparisons=len(p_values))
        for test in tests
    ]


def expected_best(scores: Sequence[float]) -> list[float]:
    """Returns the expected best score of a budget of 1 to k runs, drawn with replacement from the k runs.

    Source: Dodge et al. 2019, "Show Your Work: Improved Reporting of Experimental Results", equation 7.

    Args:
        scores: one per run, (k,); higher is better.

    >>> expected_best([0.5, 1.0])  # both runs alike; with two draws the worse one is the best in 1 of 4
    [0.75, 0.875]
    """
    ordered = np.sort(np.asarray(scores, dtype=np.float64))
    number = len(ordered)
    below = np.arange(number + 1) / number
    return [float(np.diff(below**budget) @ ordered) for budget in range(1, number + 1)]


# ---- agreement ------------------------------------------------------------------------------------------------------


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
