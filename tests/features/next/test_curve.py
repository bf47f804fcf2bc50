"""The learning curve: its points and its intervals."""

from __future__ import annotations

import numpy as np
import pytest

from bertkit.features.next.curve import learning_curve, slope, why_no_curve

pytestmark = pytest.mark.numeric


def rows(number: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of two classes that are told apart by their first number."""
    generator = np.random.default_rng(0)
    labels = np.arange(number) % 2
    vectors = generator.standard_normal((number, 8))
    vectors[:, 0] += 4 * labels / noise
    return vectors.astype(np.float32), labels


def test_more_rows_are_expected_to_be_better_and_the_interval_widens():
    vectors, labels = rows(80, 2.0)
    is_right = np.arange(80) % 5 > 0
    now, *later = learning_curve(vectors, labels, is_right, 0.0, (20, 80, 320)).points
    assert now.rows == 80
    assert now.accuracy == pytest.approx(0.8)
    assert [each.rows for each in later] == [100, 160, 400]
    scores = [each.accuracy for each in (now, *later)]
    assert scores == sorted(scores)
    assert all(each.low < each.accuracy < each.high for each in (now, *later))
    assert 0 <= later[-1].low < later[-1].high <= 1


def test_the_accuracy_is_moved_to_that_on_the_unlabelled_rows():
    vectors, labels = rows(80, 2.0)
    is_right = np.arange(80) % 5 > 0
    assert learning_curve(vectors, labels, is_right, 0.1, ()).points[0].accuracy == pytest.approx(0.9)
    assert learning_curve(vectors, labels, is_right, 5.0, ()).points[0].accuracy < 1


def test_more_labelled_rows_make_the_interval_narrower():
    widths = []
    for number in (40, 400):
        [now] = learning_curve(*rows(number, 2.0), np.arange(number) % 5 > 0, 0.0, ()).points
        widths.append(now.high - now.low)
    assert widths[1] < 0.7 * widths[0]


def test_rows_that_are_all_right_do_not_promise_that_no_other_is_wrong():
    [now] = learning_curve(*rows(40, 2.0), np.ones(40, bool), 0.0, ()).points
    assert now.low < 0.96
    assert now.accuracy <= now.high < 1


def test_few_rows_and_classes_of_one_row_have_no_curve():
    assert why_no_curve(np.arange(20) % 2) == "20 labelled rows; 30 are needed"
    assert why_no_curve(np.arange(40) % 2) == ""
    assert why_no_curve(np.array([0] * 36 + [1, 2, 3, 4])) == ""
    said = why_no_curve(np.array([0] * 35 + [1, 2, 3, 4, 5]))
    assert said.startswith("5 of 40 labelled rows are the only ones of their class")


def test_a_task_that_gets_easier_with_rows_has_a_steeper_slope_than_one_that_does_not():
    vectors, labels = rows(120, 1.0)
    shuffled = np.random.default_rng(1).permutation(labels)
    texts = np.arange(120)
    assert slope(vectors, labels, texts)[0] > slope(vectors, shuffled, texts)[0]


def test_copies_of_rows_promise_nothing():
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(80, 384))
    labels, texts = (vectors[:, 0] + rng.normal(size=80) > 0).astype(int), np.arange(80)
    twice = np.tile(texts, 2)
    alone, told, not_told = (
        slope(vectors[rows], labels[rows], of_texts)[0]
        for rows, of_texts in ((texts, texts), (twice, twice), (twice, np.arange(160)))
    )
    assert abs(told - alone) < 0.04 < not_told - told


def test_one_class_has_a_usual_slope():
    vectors, labels = rows(40, 1.0)
    assert 0 < slope(vectors, labels * 0, np.arange(40))[0] < 1
