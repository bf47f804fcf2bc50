"""Intervals and tests: examples computed by hand. Their coverage is in `test_coverage.py`."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from bertkit.metrics.intervals import mean_interval, proportion_interval, terms_of
from bertkit.metrics.statistics import (
    adjust_tests,
    agreement,
    by_example,
    by_run,
    expected_best,
    holm,
)

from .conftest import accuracy, f1


def accuracy_terms(predictions, references):
    return terms_of("accuracy", predictions, references)


# ---- examples -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("terms", [accuracy_terms, None], ids=["mcnemar", "permutation"])
def test_paired_examples_by_hand(terms):
    """Ten examples, of which B alone gets five right and A none: 2 of the 2^5 signs are as extreme, p = 1/16."""
    gold = [1] * 10
    a, b = [1] * 5 + [0] * 5, [1] * 10
    test = by_example([a], [b], gold, accuracy, terms)
    assert test.difference == pytest.approx(0.5)
    assert test.p == pytest.approx(1 / 16) == test.smallest_p
    assert test.p_text == "p = 0.0625"
    # Student's t: 0.5 ± 2.262 · 0.527 / √10
    assert (test.low, test.high) == pytest.approx((0.123, 0.877), abs=1e-3)
    counts = agreement(a, b, gold)
    assert (counts.both, counts.only_a, counts.only_b, counts.neither, counts.same) == (5, 0, 5, 0, 5)
    assert counts.mcnemar_p == pytest.approx(1 / 16)  # 2 · 0.5^5


def test_mcnemar_by_hand():
    """One example only A gets right, three only B: p = 2 · (1 + 4) / 2^4."""
    gold = [1] * 6
    a, b = [1, 0, 0, 0, 1, 0], [0, 1, 1, 1, 1, 0]
    counts = agreement(a, b, gold)
    assert (counts.both, counts.only_a, counts.only_b, counts.neither) == (1, 1, 3, 1)
    assert counts.mcnemar_p == pytest.approx(10 / 16)
    test = by_example([a], [b], gold, accuracy, accuracy_terms)
    assert (test.method, test.p, test.smallest_p) == ("McNemar's exact test", pytest.approx(10 / 16), 1 / 8)
    assert agreement(gold, gold, gold).mcnemar_p == 1
    assert by_example([[1, 1, 1, 0, 0, 0]], [gold], gold, accuracy, accuracy_terms).high == 1  # no larger difference


def test_each_side_is_averaged_over_its_own_runs():
    """Three runs against two: the mean values of the examples of each, and all 2^5 signs of their differences."""
    gold = [1] * 5
    a = [[1, 0, 0, 1, 0], [0, 0, 1, 1, 0], [1, 0, 0, 1, 1]]
    b = [[1, 1, 1, 1, 0], [1, 1, 0, 1, 1]]
    test = by_example(a, b, gold, accuracy, accuracy_terms)
    values = np.mean(b, axis=0) - np.mean(a, axis=0)
    sums = [abs(np.dot(signs, values)) for signs in product((-1, 1), repeat=5)]
    assert test.difference == pytest.approx(values.mean())
    assert test.p == pytest.approx(np.mean(np.array(sums) >= abs(values.sum()) - 1e-9))


@pytest.mark.parametrize("terms", [lambda p, r: terms_of("f1", p, r), None], ids=["terms", "computed again"])
def test_unequal_runs_of_f1(terms):
    """The interval holds the difference it is shown with, and the sign of the difference is that of the scores."""
    draw = np.random.default_rng(3)
    gold = draw.integers(0, 2, 150)
    a, b = ([np.where(draw.random(150) < share, gold, 1 - gold) for _ in range(n)] for share, n in ((0.8, 3), (0.8, 2)))
    a[2] = np.zeros(150, dtype=np.int64)  # the run that B does not have, with an F1 of 0
    test = by_example(a, b, gold, f1, terms)
    assert test.difference == pytest.approx(
        np.mean([f1(run, gold) for run in b]) - np.mean([f1(run, gold) for run in a])
    )
    assert test.low < test.difference < test.high
    assert test.low > 0.1
    assert test.p_text == "p ≤ 0.0002"  # 2 / (9999 + 1)


def test_both_ways_of_pseudo_values_agree():
    draw = np.random.default_rng(4)
    gold = draw.integers(0, 2, 120)
    a, b = ([np.where(draw.random(120) < 0.8, gold, 1 - gold)] for _ in range(2))
    with_terms = by_example(a, b, gold, f1, lambda p, r: terms_of("f1", p, r))
    without = by_example(a, b, gold, f1)
    assert (with_terms.low, with_terms.high) == pytest.approx((without.low, without.high))
    assert with_terms.p == pytest.approx(without.p, abs=0.02)


def test_equal_predictions_and_one_example():
    same = by_example([[1, 0, 1]], [[1, 0, 1]], [1, 1, 1], accuracy)
    assert (same.difference, same.p, same.low, same.high) == (0, 1, None, None)
    alone = by_example([[1]], [[0]], [1], accuracy)
    assert (alone.p, alone.reason) == (None, "one example")


def test_groups_whose_differing_examples_make_up_for_each_other_are_not_called_equal_examples():
    gold = np.zeros(1000, int).tolist()
    a, b = gold.copy(), gold.copy()
    group = np.random.default_rng(0).permutation(np.arange(1000) % 200)
    first, second = np.flatnonzero(group == 3)[:2]
    a[first], b[second] = 1, 1
    assert by_example([a], [b], gold, accuracy).reason == "both have the same score in every group of examples"
    assert by_example([a], [a], gold, accuracy, accuracy_terms).reason.endswith("in every example")


def test_one_differing_example_of_several_runs():
    test = by_example([[1, 0, 1], [1, 1, 1]], [[1, 1, 1]], [1, 1, 1], accuracy)
    assert test.difference == pytest.approx(1 / 6)
    assert (test.p, test.smallest_p) == (1, 1)


def test_an_undefined_score_is_no_zero():
    test = by_example([[1.0, 1.0, 1.0]], [[1.0, 2.0, 3.0]], [1.0, 2.0, 3.0], lambda *_: math.nan)
    assert test.difference is None
    assert test.p is None
    assert test.reason.startswith("the score of A is undefined")


# ---- runs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "method", "p", "smallest"),
    [
        ((5, 5), "exact permutation test of runs", 2 / 252, 2 / 252),
        ((4, 5), "exact permutation test of runs", 2 / 126, 2 / 126),
        ((2, 6), "exact permutation test of runs", 2 / 28, 2 / 28),  # Welch's test does not hold here
        ((3, 4), "Welch's t-test of runs", None, 0),
        ((4, 4), "Welch's t-test of runs", None, 0),  # 1 of 70 orders on each side uses 2.9 % of the level
        ((12, 12), "Welch's t-test of runs", None, 0),
    ],
)
def test_runs_that_are_apart(sizes, method, p, smallest):
    a, b = np.arange(sizes[0]) / 100, 1 + np.arange(sizes[1]) / 100
    test = by_run(a, b)
    assert (test.method, test.units, test.smallest_p) == (method, sizes, pytest.approx(smallest))
    assert test.p == pytest.approx(p) if p else test.p < 1e-4
    assert test.low < test.difference < test.high


def test_more_comparisons_need_more_runs():
    """With 0.05 / 10 the orders of 4 against 5 runs cannot reach the level; Welch's test can."""
    a, b = [0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8, 0.9]
    assert by_run(a, b, level=0.005).method == "Welch's t-test of runs"


def test_welch_by_hand():
    """Means 2 and 5, variances 1 and 4 of three runs: t = 3 / √(5/3), with (5/3)² / (1/18 + 16/18) degrees."""
    from scipy.stats import t

    p = 2 * t(25 / 9 / (17 / 18)).sf(3 / math.sqrt(5 / 3))
    assert by_run([1, 2, 3], [3, 5, 7]).p == pytest.approx(p)


def test_folds_by_hand():
    """Differences 1, 2, 3: t = 2 / √(1/3); overlapping training sets add 1/2 to the 1/3."""
    from scipy.stats import t

    plain = by_run([1, 1, 1], [2, 3, 4], paired=True)
    assert plain.p == pytest.approx(2 * t(2).sf(2 * math.sqrt(3)))
    overlapping = by_run([1, 1, 1], [2, 3, 4], paired=True, overlap=1 / 2)
    assert overlapping.p == pytest.approx(2 * t(2).sf(2 / math.sqrt(5 / 6)))
    assert "folds" in plain.method
    assert plain.units == (3,)


@pytest.mark.parametrize("paired", [False, True])
def test_a_difference_is_not_larger_than_the_range_of_the_score(paired):
    scores = [0.1, 0.9], [0.8, 0.2]
    free = by_run(*scores, paired=paired)
    assert free.low < -1 < 1 < free.high
    test = by_run(*scores, paired=paired, bounds=(0, 1))
    assert (test.low, test.high, test.p) == (-1, 1, free.p)


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        ([0.1], [0.4, 0.5], "1 run of A and 2 runs of B; it needs two or more runs of each"),
        ([0.5, 0.5], [0.6, 0.6], "the spread over seeds is unknown"),
        ([0.5, math.nan], [0.6, 0.7], "the score of a run is undefined"),
    ],
)
def test_runs_that_are_not_compared(a, b, reason):
    test = by_run(a, b)
    assert (test.p, test.low, test.high) == (None, None, None)
    assert reason in test.reason


def test_folds_without_a_score_are_not_compared():
    test = by_run([0.5, math.nan], [0.6, 0.7], paired=True)
    assert (test.p, test.reason) == (None, "the score of a fold is undefined")


# ---- intervals and corrections --------------------------------------------------------------------------------------


def test_mean_interval_by_hand():
    """Student's t with one degree of freedom: 0.55 ± 12.706 · 0.05."""
    assert mean_interval([0.5, 0.6]) == pytest.approx((0.55 - 0.6353, 0.55 + 0.6353), abs=1e-4)
    for scores in ([0.5], [0.5, 0.5, 0.5], [0.5, math.nan], []):
        assert mean_interval(scores) is None


def test_wilson_by_hand():
    """p̂ = 0.9, n = 10, z = 1.96: centre (9 + z²/2) / (10 + z²)."""
    assert proportion_interval(9, 10) == pytest.approx((0.5958, 0.9821), abs=1e-4)


def test_holm_keeps_the_order_of_comparisons():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1, 1]
    assert holm([]) == []
    untested = by_run([0.1], [0.2])
    tests = adjust_tests([by_run([1, 2, 3], [3, 5, 7]), untested, by_run([1, 2, 3], [11, 12, 13])])
    assert tests[1] is untested
    assert tests[2].adjusted_p == pytest.approx(2 * tests[2].p)
    assert (tests[0].adjusted_p, tests[0].comparisons) == (tests[0].p, 2)
    assert adjust_tests([untested]) == [untested]
    assert [test.is_significant for test in tests] == [False, False, True]


def test_expected_best_by_hand():
    """Of scores 1, 2, 3: two draws have the best 1, 2 or 3 in 1, 3 and 5 of 9 cases."""
    assert expected_best([3, 1, 2]) == pytest.approx([2, (1 + 6 + 15) / 9, (1 + 14 + 57) / 27])
