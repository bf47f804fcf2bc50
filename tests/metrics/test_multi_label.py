"""Several labels an example: micro and macro F1 and subset accuracy, worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra.numpy import array_shapes, arrays

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


@settings(deadline=None)
@given(array_shapes(min_dims=2, max_dims=2, max_side=6).flatmap(lambda shape: arrays(np.bool_, (2, *shape))))
def test_scores_are_their_definitions_for_any_few_examples(pair):
    predicted, actual = pair
    right, all_ = (predicted & actual).sum(axis=0), predicted.sum(axis=0) + actual.sum(axis=0)
    scores = metrics.load("multi_label").compute(predictions=predicted.astype(int), references=actual.astype(int))
    expected = {
        "f1_micro": 2 * right.sum() / max(all_.sum(), 1),
        "f1_macro": np.mean(2 * right / np.maximum(all_, 1)),
        "accuracy": np.mean((predicted == actual).all(axis=1)),
    }
    assert scores == pytest.approx(expected, rel=1e-12)
