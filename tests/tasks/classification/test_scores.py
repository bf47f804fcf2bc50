"""Scores of single classes, and of rankings, by hand and as from scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from bertkit.tasks.classification.decisions import class_scores

pytestmark = pytest.mark.numeric


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
