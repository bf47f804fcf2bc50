"""Metrics as functions of means: equal to scikit-learn's, and intervals from them to those of repeated computation."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from bertkit.metrics.statistics import paired_interval, score_interval
from bertkit.metrics.terms import terms_of

pytestmark = pytest.mark.numeric
DRAW = np.random.default_rng(1)
TRUE = DRAW.integers(0, 2, 60)
GIVEN = np.where(DRAW.random(60) < 0.8, TRUE, 1 - TRUE)
SCORES = {"accuracy": accuracy_score, "f1": f1_score, "matthews_correlation": matthews_corrcoef}


def computed(terms):
    values, function = terms
    return float(function(*values.mean(axis=0)))


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


def test_the_interval_is_that_of_repeated_computation():
    def f1(predictions, references):
        right = sum(given and true for given, true in zip(predictions, references, strict=True))
        return 2 * right / max(sum(predictions) + sum(references), 1)

    low, high = score_interval(GIVEN, TRUE, f1, terms_of("f1", GIVEN, TRUE))
    slow = score_interval(GIVEN.tolist(), TRUE.tolist(), f1)
    assert low < f1(GIVEN, TRUE) < high
    assert (low, high) == pytest.approx(slow, abs=0.03)  # other samples of examples


def test_wrong_terms_are_not_used():
    def accuracy(predictions, references):
        return float(np.mean(np.asarray(predictions) == np.asarray(references)))

    wrong = np.ones((60, 1)), lambda value: value
    assert score_interval(GIVEN, TRUE, accuracy, wrong)[1] < 1


def test_a_paired_interval_is_narrower_than_those_of_the_scores():
    other = GIVEN.copy()
    other[:5] = 1 - other[:5]

    def accuracy(predictions, references):
        return float(np.mean(np.asarray(predictions) == np.asarray(references)))

    low, high = paired_interval(GIVEN, other, TRUE, accuracy)
    single = score_interval(GIVEN, TRUE, accuracy)
    assert low <= accuracy(other, TRUE) - accuracy(GIVEN, TRUE) <= high
    assert 0 < high - low < single[1] - single[0]
    assert score_interval([1], [1], accuracy) == (None, None)
