"""Several labels an example: micro and macro F1 and subset accuracy, worked by hand."""

from __future__ import annotations

import pytest

from bertkit import metrics


def test_scores_by_hand():
    scores = metrics.load("multi_label").compute(
        predictions=[[1, 0, 0], [1, 1, 0], [0, 1, 0], [1, 0, 0]],
        references=[[1, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]],
    )
    # By label: 3 predicted, 3 true, 3 right; 2 predicted, 2 true, 1 right; the third does not occur.
    expected = {"f1_micro": 2 * 4 / (5 + 5), "f1_macro": (1 + 2 / 4 + 0) / 3, "accuracy": 2 / 4}
    assert scores == pytest.approx(expected)


def test_no_label_at_all_is_right_and_yet_no_hit():
    scores = metrics.load("multi_label").compute(predictions=[[0, 0]], references=[[0, 0]])
    assert scores == {"f1_micro": 0.0, "f1_macro": 0.0, "accuracy": 1.0}
