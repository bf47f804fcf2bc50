"""Thresholds and calibration: fitted on one set, applied to all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics

from bertkit.metrics import expected_calibration_error
from bertkit.tasks.base import softmax
from bertkit.tasks.classification.decisions import (
    best_temperature,
    best_temperatures,
    best_threshold,
    class_scores,
    log_loss,
    sigmoid,
)

pytestmark = pytest.mark.numeric


def f1(labels: np.ndarray, predicted: np.ndarray) -> float:
    return 2 * (labels & predicted).sum() / max(labels.sum() + predicted.sum(), 1)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 20)), min_size=1, max_size=30))
def test_no_threshold_has_a_higher_f1(rows):
    labels = np.array([label for label, _ in rows])
    probabilities = np.array([(number + 1) / 22 for _, number in rows])
    best = best_threshold(labels, probabilities)
    assert 0 < best < 1
    for other in np.arange(1, 24) / 22 - 1 / 44:
        assert f1(labels, probabilities >= other) <= f1(labels, probabilities >= best) + 1e-9


def test_a_label_without_positives_keeps_one_half():
    assert best_threshold(np.zeros(4), np.array([0.1, 0.9, 0.4, 0.2])) == 0.5


def test_the_temperature_of_exaggerated_logits_is_found():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(20000, 3))
    probabilities = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    labels = (probabilities.cumsum(-1) < rng.random((20000, 1))).sum(-1)
    assert best_temperature(3 * logits, labels) == pytest.approx(3, rel=0.05)
    several = (sigmoid(logits) > rng.random(logits.shape)).astype(np.int64)
    assert best_temperature(0.5 * logits, several) == pytest.approx(0.5, rel=0.05)
    assert expected_calibration_error(sigmoid(logits), several) < 0.01
    assert expected_calibration_error(sigmoid(4 * logits), several) > 0.1
    assert expected_calibration_error(probabilities, labels) < 0.02


def test_each_of_several_labels_has_its_own_temperature():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(20000, 2))
    labels = (sigmoid(logits) > rng.random(logits.shape)).astype(np.int64)
    np.testing.assert_allclose(best_temperatures(logits * [3, 0.5], labels), [3, 0.5], rtol=0.05)


@pytest.mark.parametrize("right", [10, 100])
def test_few_right_examples_do_not_make_certain(right):
    logits, labels = np.tile([[2.0, -2.0]], (right, 1)), np.zeros(right, np.int64)
    probability = softmax(logits / best_temperature(logits, labels))[0, 0]
    assert 1 - 2 / right < probability < 1 - 0.2 / right


def test_log_loss_by_hand():
    assert log_loss(np.zeros((2, 4)), np.array([1, 3])) == pytest.approx(np.log(4))
    assert log_loss(np.array([[0.0, 100.0]]), np.array([[1, 1]])) == pytest.approx(np.log(2) / 2)


def test_calibration_error_by_hand():
    # Two predictions of 0.8 of which one is right, and one of 0.6 that is right: (|2 · 0.8 - 1| + |0.6 - 1|) / 3.
    probabilities = np.array([[0.8, 0.2], [0.8, 0.2], [0.4, 0.6]])
    assert expected_calibration_error(probabilities, np.array([0, 1, 1])) == pytest.approx((0.6 + 0.4) / 3)


def test_two_classes_by_hand():
    labels, predicted = np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1])
    probabilities = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.4, 0.6]])
    scores = class_scores(predicted, probabilities, labels, ["no", "yes"])
    assert scores["balanced_accuracy"] == pytest.approx((2 / 3 + 1) / 2)
    assert scores["average_precision"] == pytest.approx(1 / 2)  # the only yes is ranked second
    assert scores["roc_auc"] == pytest.approx(2 / 3)
    assert scores["class/yes/precision"] == pytest.approx(1 / 2)
    assert scores["class/no/recall"] == pytest.approx(2 / 3)
    assert scores["class/yes/f1"] == pytest.approx(2 / 3)


def test_several_classes_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    labels, logits = rng.integers(0, 3, 60), rng.normal(size=(60, 3))
    probabilities = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    scores = class_scores(logits.argmax(-1), probabilities, labels, ["a", "b", "c"])
    wanted = sklearn_metrics.roc_auc_score(labels, probabilities, multi_class="ovr")
    assert scores["roc_auc"] == pytest.approx(wanted)
    assert scores["balanced_accuracy"] == pytest.approx(
        sklearn_metrics.balanced_accuracy_score(labels, logits.argmax(-1))
    )
    several = rng.integers(0, 2, (60, 3))
    found = class_scores((logits > 0).astype(int), probabilities, several, ["a", "b", "c"])
    assert found["average_precision"] == pytest.approx(
        sklearn_metrics.average_precision_score(several, probabilities, average="macro")
    )
    assert "balanced_accuracy" not in found


def test_a_class_that_does_not_occur_has_no_ranking():
    scores = class_scores(np.array([0, 1]), np.eye(3)[:2], np.array([0, 1]), ["a", "b", "c"])
    assert scores["roc_auc"] == 1.0
    assert scores["class/c/f1"] == 0.0
    only = class_scores(np.zeros((2, 1), int), np.full((2, 1), 0.3), np.zeros((2, 1), int), ["a"])
    assert only["average_precision"] == 0.0
    assert "roc_auc" not in only


def test_many_classes_have_no_scores_of_their_own():
    names = [str(number) for number in range(30)]
    scores = class_scores(np.arange(30), np.eye(30), np.arange(30), names)
    assert set(scores) == {"balanced_accuracy", "average_precision", "roc_auc"}


@pytest.mark.parametrize("name", ["average", "f1", "average_precision", "a/f1", "", "eval_x"])
def test_a_class_of_any_name_overwrites_no_score(name):
    labels, predicted = np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1])
    probabilities = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.4, 0.6]])
    usual, other = (class_scores(predicted, probabilities, labels, ["no", last]) for last in ("yes", name))
    assert list(other.values()) == list(usual.values())
    assert other[f"class/{name}/precision"] == 0.5
    assert other["average_precision"] == usual["average_precision"]
