"""Intervals and tests: examples computed by hand, and the rate of false alarms."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from bertkit.metrics.statistics import agreement, by_example, by_run, mean_interval, paired_interval


def accuracy(predictions, references):
    return float(np.mean(np.asarray(predictions) == np.asarray(references)))


def f1(predictions, references):
    both = sum(p * r for p, r in zip(predictions, references, strict=True))
    return 2 * both / max(sum(predictions) + sum(references), 1)


def test_the_permutation_of_paired_examples_by_hand():
    """Ten examples, of which B alone gets five right and A none: 2 of the 2^5 signs are as extreme, p = 1/16."""
    gold = [1] * 10
    a, b = [1] * 5 + [0] * 5, [1] * 10
    found = by_example([a], [b], gold, accuracy)
    assert found.difference == pytest.approx(0.5)
    assert found.p == pytest.approx(1 / 16)  # all 2^10 permutations; those of equal pairs change nothing
    assert 0 < found.low < 0.5 < found.high < 1
    counts = agreement(a, b, gold)
    assert (counts.both, counts.only_a, counts.only_b, counts.neither, counts.same) == (5, 0, 5, 0, 5)
    assert counts.mcnemar_p == pytest.approx(1 / 16)  # 2 · 0.5^5


def test_mcnemar_by_hand():
    """One example only A gets right, three only B: p = 2 · (1 + 4) / 2^4."""
    gold = [1] * 6
    counts = agreement([1, 0, 0, 0, 1, 0], [0, 1, 1, 1, 1, 0], gold)
    assert (counts.both, counts.only_a, counts.only_b, counts.neither) == (1, 1, 3, 1)
    assert counts.mcnemar_p == pytest.approx(10 / 16)
    assert agreement(gold, gold, gold).mcnemar_p == 1


def test_f1_is_computed_again_for_each_sample():
    """All 2^6 exchanges of pairs, counted here with the metric itself."""
    gold = [1, 1, 0, 0, 1, 0]
    a, b = [1, 0, 1, 0, 0, 0], [1, 1, 0, 0, 1, 1]
    observed = f1(b, gold) - f1(a, gold)
    differences = []
    for exchanged in product([False, True], repeat=6):
        one = [y if each else x for x, y, each in zip(a, b, exchanged, strict=True)]
        two = [x if each else y for x, y, each in zip(a, b, exchanged, strict=True)]
        differences.append(f1(two, gold) - f1(one, gold))
    below, above = (np.mean([sign * (d - observed) >= -1e-12 for d in differences]) for sign in (-1, 1))
    found = by_example([a], [b], gold, f1)
    assert found.difference == pytest.approx(observed)
    assert found.p == pytest.approx(min(1, 2 * min(below, above)))
    assert found.low <= observed <= found.high


def test_runs_by_hand():
    """Three runs of each, all of B above all of A: 2 of 20 orders are as extreme; paired, 2 of 2^3."""
    apart = by_run([0.1, 0.2, 0.3], [0.4, 0.5, 0.6], paired=False)
    assert apart.p == pytest.approx(0.1) == apart.smallest_p
    paired = by_run([0.1, 0.2, 0.3], [0.4, 0.5, 0.6], paired=True)
    assert paired.p == pytest.approx(0.25) == paired.smallest_p
    assert (paired.low, paired.high) == pytest.approx((0.3, 0.3))
    alone = by_run([0.1], [0.4], paired=True)
    assert alone.difference == pytest.approx(0.3)
    assert alone.p is None


def test_no_false_alarm_for_two_halves_of_the_same_seeds():
    """Scores of one distribution: at most 5 % of 200 comparisons are significant, and the interval has its level."""
    draw = np.random.default_rng(1)
    alarms = covered = 0
    for _ in range(200):
        scores = draw.normal(0.6, 0.02, 10)
        alarms += by_run(scores[:5], scores[5:], paired=False).p <= 0.05
    assert alarms <= 20  # 99.8 % of binomial(200, 0.05)
    for _ in range(100):
        low, high = mean_interval(draw.normal(0.6, 0.02, 10))
        covered += low <= 0.6 <= high
    assert covered >= 78  # the percentile interval of 10 scores has about 90 %


@pytest.mark.slow
def test_no_false_alarm_for_equally_good_predictions():
    draw = np.random.default_rng(2)
    alarms = 0
    gold = [1] * 60
    for _ in range(60):
        a, b = (draw.random(60) < 0.7 for _ in range(2))
        alarms += by_example([a.astype(int).tolist()], [b.astype(int).tolist()], gold, accuracy).p <= 0.05
    assert alarms <= 9  # 99.8 % of binomial(60, 0.05)


def test_equal_scores_and_few_scores():
    assert mean_interval([0.5]) == (None, None)
    assert mean_interval([0.5, 0.5, 0.5]) == (0.5, 0.5)
    same = by_example([[1, 0, 1]], [[1, 0, 1]], [1, 1, 1], accuracy)
    assert (same.difference, same.p) == (0, 1)


def test_a_report_and_a_comparison_give_the_same_interval():
    rng = np.random.default_rng(1)
    references = rng.integers(0, 2, 300).tolist()
    a, b = ([gold if rng.random() < share else 1 - gold for gold in references] for share in (0.8, 0.9))

    def accuracy(predictions, golds):
        return float(np.mean([p == g for p, g in zip(predictions, golds, strict=True)]))

    found = by_example([a], [b], references, accuracy)
    assert paired_interval(a, b, references, accuracy) == pytest.approx((found.low, found.high))
