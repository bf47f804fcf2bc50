"""Metrics as functions of means: equal to scikit-learn's, and intervals from them."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from bertkit.metrics import pearson, score_limits, spearman
from bertkit.metrics.intervals import proportion_interval, score_interval, terms_of
from bertkit.metrics.statistics import by_example

from .conftest import accuracy, f1

pytestmark = pytest.mark.numeric
DRAW = np.random.default_rng(1)
TRUE = DRAW.integers(0, 2, 60)
GIVEN = np.where(DRAW.random(60) < 0.8, TRUE, 1 - TRUE)
SCORES = {
    "accuracy": accuracy_score,
    "f1": f1_score,
    "f1_macro": lambda true, given: f1_score(true, given, average="macro"),
    "combined_score": lambda true, given: (accuracy_score(true, given) + f1_score(true, given)) / 2,
    "matthews_correlation": matthews_corrcoef,
}


def computed(terms):
    return float(terms.function(*terms.values.mean(axis=0)))


@pytest.mark.parametrize("name", SCORES)
def test_terms_of_two_classes(name):
    assert computed(terms_of(name, GIVEN, TRUE)) == pytest.approx(SCORES[name](TRUE, GIVEN), abs=1e-9)


def test_terms_of_label_sets_and_numbers():
    true, given = TRUE.reshape(20, 3), GIVEN.reshape(20, 3)
    assert computed(terms_of("f1_micro", given, true)) == pytest.approx(f1_score(true, given, average="micro"))
    assert computed(terms_of("accuracy", given, true)) == pytest.approx(accuracy_score(true, given))
    x, y = DRAW.normal(size=50) + 1000, DRAW.normal(size=50)
    assert computed(terms_of("pearson", x, y)) == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-9)
    assert terms_of("spearmanr", x, y) is None
    assert terms_of("f1", [0, 2], [1, 2]) is None


@pytest.mark.parametrize("decimals", [9, 0], ids=["numbers", "ties"])
def test_terms_of_ranks(decimals):
    """Of more examples than groups; an example's terms hold its part in the ranks of the others."""
    x = np.round(DRAW.normal(size=300), decimals)
    y = np.round(x + DRAW.normal(size=300), decimals)
    terms = terms_of("spearmanr", y, x)
    assert computed(terms) == pytest.approx(spearmanr(x, y)[0], abs=1e-9)
    both = terms_of("combined_score", y, x)
    assert computed(both) == pytest.approx((spearmanr(x, y)[0] + pearsonr(x, y)[0]) / 2, abs=1e-9)
    means = terms.values.mean(axis=0)
    for example in (0, 7, 123):
        others = np.arange(300) != example
        without = terms.function(*(means + (means - terms.values[example]) / 299))
        change = without - computed(terms)
        expected = spearmanr(x[others], y[others])[0] - computed(terms)
        assert change == pytest.approx(expected, abs=2e-5)
        assert abs(expected) > 1e-5


def test_terms_of_several_classes():
    true = DRAW.integers(0, 5, 200)
    given = np.where(DRAW.random(200) < 0.7, true, DRAW.integers(0, 6, 200))
    terms = terms_of("matthews_correlation", given, true)
    assert computed(terms) == pytest.approx(matthews_corrcoef(true, given), abs=1e-9)
    assert computed(terms_of("matthews_correlation", np.full(200, 2), true)) == 0
    assert terms_of("matthews_correlation", DRAW.normal(size=200), true) is None


def test_f1_has_the_interval_of_its_proportion():
    """Of 10 examples in class 1 by either side, 8 by both: Wilson's ends w of 8 of 10, and F1 = 2 w / (1 + w)."""
    given, true = [1] * 8 + [1, 0] + [0] * 5, [1] * 8 + [0, 1] + [0] * 5
    ends = [2 * end / (1 + end) for end in proportion_interval(8, 10)]
    assert score_interval(given, true, f1, terms_of("f1", given, true)) == pytest.approx(ends)
    right = score_interval(true, true, f1, terms_of("f1", true, true))
    assert right[0] < 0.9 < right[1] == 1
    assert score_interval([0, 0], [0, 0], f1, terms_of("f1", [0, 0], [0, 0])) is None


def test_an_accuracy_of_one_has_wilsons_interval():
    low, high = score_interval(TRUE, TRUE, accuracy, terms_of("accuracy", TRUE, TRUE))
    assert (low, high) == pytest.approx(proportion_interval(60, 60))
    assert low < 0.95
    assert high == 1


def test_interval_stays_within_bounds():
    true = DRAW.normal(size=20)
    near = true + 0.01 * DRAW.normal(size=20)
    for name, given, references in (("pearson", near, true), ("f1_macro", GIVEN, TRUE)):
        terms = terms_of(name, given, references)
        low, high = score_interval(given, references, lambda *_, terms=terms: computed(terms), terms)
        assert -1 < low < computed(terms) < high < 1


def test_a_score_without_terms_stays_within_bounds():
    given, references = np.arange(6.0), np.array([3.0, 1.0, 5.0, 0.0, 2.0, 4.0])
    assert terms_of("spearmanr", given, references) is None
    low, high = score_interval(given, references, spearman, bounds=score_limits("spearmanr"))
    assert -1 < low < spearman(given, references) < high < 1


def test_few_examples_of_high_correlation():
    given, references = np.array([-0.84, 2.0, -0.92]), np.array([-0.94, 1.95, -0.9])
    terms = terms_of("pearson", given, references)
    assert score_interval(given, references, pearson, terms) == pytest.approx((-1, 1))
    terms = terms_of("pearson", references, references)
    assert score_interval(references, references, lambda *_: math.nextafter(1, 0), terms) is None


def test_undefined_scores_have_no_interval():
    constant, numbers = np.ones(20), DRAW.normal(size=20)
    assert np.isnan(computed(terms_of("pearson", constant, numbers)))
    assert score_interval(constant, numbers, lambda *_: float("nan"), terms_of("pearson", constant, numbers)) is None
    tiny = terms_of("pearson", 1e-9 * numbers, numbers)
    assert computed(tiny) == pytest.approx(1)


def test_wrong_terms_are_not_used():
    wrong = np.ones((60, 1)), lambda value: value
    assert score_interval(GIVEN, TRUE, accuracy, wrong)[1] < 1


def test_paired_interval_is_narrower():
    other = GIVEN.copy()
    other[:5] = 1 - other[:5]

    test = by_example([GIVEN], [other], TRUE, accuracy)
    single = score_interval(GIVEN, TRUE, accuracy)
    assert test.low <= accuracy(other, TRUE) - accuracy(GIVEN, TRUE) <= test.high
    assert 0 < test.high - test.low < single[1] - single[0]
    assert score_interval([1], [1], accuracy) is None


@pytest.mark.parametrize("name", ["accuracy", "f1", "f1_macro", "matthews_correlation", "pearson"])
@pytest.mark.parametrize("with_terms", [True, False], ids=["terms", "groups"])
def test_copies_count_once(name, with_terms):
    """The interval of examples that are all there five times is that of one of each."""

    def measure(predictions, references):
        return float(computed(terms_of(name, predictions, references)))

    def interval(predictions, references, units=None):
        terms = terms_of(name, predictions, references) if with_terms else None
        return score_interval(predictions, references, measure, terms, units)

    copies = np.tile(np.arange(len(TRUE)), 5)
    once, many = interval(GIVEN, TRUE), interval(list(GIVEN) * 5, list(TRUE) * 5, copies)
    assert many == pytest.approx(once, abs=0.03)
    naive = interval(list(GIVEN) * 5, list(TRUE) * 5)
    assert naive[1] - naive[0] < 0.6 * (many[1] - many[0])


def test_copies_of_one_text_have_no_interval():
    assert score_interval([1] * 5, [1] * 5, accuracy, terms_of("accuracy", [1] * 5, [1] * 5), np.zeros(5)) is None


def test_a_test_exchanges_copies_together():
    """Six texts decide for one model, and no copy of them makes this more certain."""
    a, b, gold = [0] * 6, [1] * 6, [1] * 6
    once = by_example([a], [b], gold, accuracy, partial(terms_of, "accuracy"))
    many = by_example([a * 5], [b * 5], gold * 5, accuracy, partial(terms_of, "accuracy"), np.tile(np.arange(6), 5))
    assert once.p == pytest.approx(2 / 2**6)
    assert many.p == pytest.approx(once.p)
    assert many.units == (6,)
    one = by_example([a], [b], gold, accuracy, texts=np.zeros(6, dtype=np.int64))
    assert (one.p, one.reason) == (None, "all examples have one text")
