"""What a threshold promises of the errors among the answers is kept in as many draws as it says."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from bertkit.metrics.selective import CONFIDENCE, OF_A_THRESHOLD, answer_curve, rows_needed

pytestmark = pytest.mark.numeric


def test_a_bound_is_that_of_clopper_and_pearson():
    probabilities = np.linspace(0.9, 0.5, 60)
    is_wrong = np.arange(60) % 20 == 19
    curve = answer_curve(probabilities, is_wrong)
    assert curve.numbers.tolist() == list(range(1, 61))
    for place in (0, 18, 19, 45, 59):
        test = binomtest(int(curve.wrong[place]), int(curve.numbers[place]), alternative="less")
        assert curve.bounds[place] == pytest.approx(test.proportion_ci(OF_A_THRESHOLD).high)


def test_the_lowest_threshold_with_few_enough_errors_is_taken():
    """Rows with the same probability are answered together, and the threshold lies between two that occur."""
    probabilities = np.repeat([0.9, 0.8, 0.6, 0.4], 50)
    is_wrong = np.concatenate([np.zeros(100), [1] * 5 + [0] * 45, np.ones(50)]).astype(bool)
    order = np.random.default_rng(0).permutation(200)
    curve = answer_curve(probabilities[order], is_wrong[order])
    assert curve.widest(0.1)[:3] == (pytest.approx(0.5), 150, 5)
    assert curve.widest(0.04)[:3] == (pytest.approx(0.7), 100, 0)
    assert curve.widest(0.02) is None
    assert curve.surest()[:3] == (pytest.approx(0.7), 100, 0)
    assert curve.widest(0.999).threshold == pytest.approx(0.4)


def test_copies_count_once():
    probabilities = np.repeat(np.linspace(0.9, 0.5, 40), 2)
    single = answer_curve(probabilities[::2], np.zeros(40, bool))
    copied = answer_curve(probabilities, np.zeros(80, bool), np.repeat(np.arange(40), 2).tolist())
    assert copied.bounds == pytest.approx(single.bounds)
    assert copied.numbers.tolist() == (2 * single.numbers).tolist()
    one = answer_curve(probabilities, np.zeros(80, bool), [0] * 80)
    assert one.bounds == pytest.approx(OF_A_THRESHOLD)
    often = answer_curve(
        np.append(np.linspace(0.9, 0.5, 40), np.full(20, 0.4)), np.zeros(60, bool), [*range(40), *[40] * 20]
    )
    assert often.bounds[-1] == pytest.approx(answer_curve(np.full(41, 0.9), np.zeros(41, bool)).bounds[0])


@pytest.mark.parametrize("level", [0.01, 0.05, 0.3])
def test_the_rows_that_a_promise_needs(level):
    for number, is_kept in ((rows_needed(level), True), (rows_needed(level) - 1, False)):
        curve = answer_curve(np.full(number, 0.9), np.zeros(number, bool))
        assert (curve.widest(level) is not None) == is_kept


def test_no_rows_and_no_right_ones_promise_nothing():
    assert answer_curve(np.array([]), np.array([], dtype=bool)).widest(0.5) is None
    assert answer_curve(np.array([]), np.array([], dtype=bool)).surest() is None
    assert answer_curve(np.array([0.9, 0.8]), np.ones(2, bool)).widest(0.99) is None


# ---- how often a promise is kept ------------------------------------------------------------------------------------


def broken(level: float, rows: int, growth: float) -> float:
    """Probability of a broken promise, at worst over the number of rows above the threshold whose answers have just
    ``level`` wrong; each row below it is wrong with probability ``growth`` · ``level``."""
    passes = binom.ppf(1 - OF_A_THRESHOLD, np.arange(rows + 1), level).astype(int)  # so many errors, or one less
    passes -= binom.cdf(passes, np.arange(rows + 1), level) > 1 - OF_A_THRESHOLD + 1e-12
    worst = 0.0
    first = rows_needed(level)
    for above in {*np.geomspace(first, rows - 1, 12).astype(int).tolist(), first - 1}:
        errors, crossed = binom.pmf(np.arange(rows + 2), above, level), 0.0
        for number in range(above + 1, rows + 1):
            errors = errors * (1 - growth * level) + np.append(0, errors[:-1]) * growth * level
            crossed += errors[: passes[number] + 1].sum()
            errors[: passes[number] + 1] = 0
        worst = max(worst, crossed)
    return worst


@pytest.mark.parametrize(("level", "rows"), [(0.05, 100), (0.1, 100), (0.02, 300), (0.05, 300), (0.1, 1000)])
def test_a_promise_is_kept_where_errors_grow_down_the_rows(level, rows):
    """Errors that grow in proportion are twice as frequent at the threshold as above it, on average.

    Where they do not grow at all, any threshold has the promised errors, and the one that is found may have a few more.
    """
    assert broken(level, rows, 1.1) <= 1 - CONFIDENCE
    assert broken(level, rows, 2) <= broken(level, rows, 1.1)
    if rows == 1000:
        assert broken(level, rows, 1) > 1 - CONFIDENCE


@pytest.mark.parametrize(("rows", "level"), [(100, 0.1), (300, 0.05), (1000, 0.05), (1000, 0.1)])
def test_promises_are_kept_in_simulated_draws(rows, level):
    """Rows whose probability is right, of a model that is right for three of four."""
    draws, rng = 1500, np.random.default_rng(7)
    population = 0.2 + 0.8 * rng.beta(2, 0.7, 300_000)
    falling = np.sort(population)[::-1]
    errors = np.cumsum(1 - falling) / np.arange(1, len(falling) + 1)
    promised = kept = answered = 0
    for _ in range(draws):
        probabilities = rng.choice(population, rows)
        answers = answer_curve(probabilities, rng.random(rows) > probabilities).widest(level)
        if answers is not None:
            number = int(np.searchsorted(-falling, -answers.threshold, side="right"))
            promised, kept = promised + 1, kept + (errors[number - 1] <= level)
            answered += number / len(falling)
    best = np.flatnonzero(errors <= level)[-1] / len(falling)
    # Of all draws: those that promise nothing break nothing. 97 % are kept, with a standard error of 0.005.
    assert 1 - (promised - kept) / draws >= CONFIDENCE + 0.04
    assert promised
    assert answered / promised >= 0.5 * best
