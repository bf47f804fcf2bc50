"""Regression: mean squared error and both correlations, worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bertkit import metrics


def test_scores_by_hand():
    scores = metrics.load("regression").compute(predictions=[1.0, 2.0, 30.0], references=[0.0, 5.0, 5.0])
    # Less the means: -10, -9, 19 and -10/3, 5/3, 5/3. Ranks: 1, 2, 3 and 1, 2.5, 2.5.
    pearson = (100 / 3 - 45 / 3 + 95 / 3) / math.sqrt((100 + 81 + 361) * (100 + 25 + 25) / 9)
    expected = {"mse": (1 + 9 + 625) / 3, "pearson": pearson, "spearmanr": 1.5 / math.sqrt(2 * 1.5)}
    assert scores == pytest.approx(expected)


def test_a_score_of_half_precision_inputs_is_not_rounded_to_it():
    """4096 differences of 1 and one of 0.5: the nearest float16 is 1."""
    predictions = np.ones(4097, np.float16)
    predictions[0] = 0.5
    scores = metrics.load("regression").compute(predictions=predictions, references=np.zeros_like(predictions))
    assert scores["mse"] == pytest.approx(4096.25 / 4097, rel=1e-12)


def test_predictions_that_are_nan_have_scores_that_are_nan():
    scores = metrics.load("regression").compute(predictions=[1.0, math.nan], references=[1.0, 2.0])
    assert all(map(math.isnan, scores.values()))


def test_a_difference_beyond_float32_counts():
    """2²⁴ and 2²⁴ + 1 are one number in float32."""
    predictions = np.array([2.0**24, 2.0**24 + 1])
    scores = metrics.load("regression").compute(predictions=predictions, references=predictions[::-1])
    assert scores == pytest.approx({"mse": 1.0, "pearson": -1.0, "spearmanr": -1.0})
