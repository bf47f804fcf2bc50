"""Scores of classes, label sets, numbers and the tasks of GLUE, worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from bertkit import metrics

# Right: 4 of 6. Class 1: 3 predictions, 3 references, 2 of them the same.
PREDICTIONS, REFERENCES = [1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 0, 0]
TABLE_1 = {
    ("sst2", "mnli", "mnli_matched", "mnli_mismatched", "qnli", "rte", "wnli"): {"accuracy": 4 / 6},
    ("cola", "ax"): {"matthews_correlation": (2 * 2 - 1 * 1) / 9},  # (TP·TN − FP·FN) / √(3·3·3·3)
    ("mrpc", "qqp"): {"accuracy": 4 / 6, "f1": 2 * 2 / (3 + 3), "combined_score": 4 / 6},
}


@pytest.mark.parametrize(("task", "scores"), [(task, scores) for tasks, scores in TABLE_1.items() for task in tasks])
def test_each_task_of_classes_has_its_scores(task, scores):
    assert metrics.compute(f"glue/{task}", predictions=PREDICTIONS, references=REFERENCES) == pytest.approx(scores)


def test_similarities_have_two_correlations_and_their_mean():
    scores = metrics.compute("glue/stsb", predictions=[0.5, 1.5, 3.5, 2.5], references=[0.0, 1.0, 2.0, 5.0])
    # Less the means: -1.5, -0.5, 1.5, 0.5 and -2, -1, 0, 3; ranks 1, 2, 4, 3 and 1, 2, 3, 4.
    pearson = (3 + 0.5 + 0 + 1.5) / math.sqrt(5 * 14)
    spearman = 1 - 6 * (0 + 0 + 1 + 1) / (4 * 15)
    expected = {"pearson": pearson, "spearmanr": spearman, "combined_score": (pearson + spearman) / 2}
    assert scores == pytest.approx(expected)


@given(st.lists(st.tuples(st.integers(-1, 2), st.integers(-1, 2)), min_size=1, max_size=12))
def test_f1_and_matthews_are_their_definitions(pairs):
    predictions, references = zip(*pairs, strict=True)
    scores = metrics.compute("glue/mrpc", predictions=predictions, references=references)
    positive = predictions.count(1) + references.count(1)
    assert scores["f1"] == pytest.approx(2 * pairs.count((1, 1)) / max(positive, 1), rel=1e-12)
    # The correlation of all pairs of indicators: Σₖ cov(xₖ, yₖ) / √(Σₖ cov(xₖ, xₖ) · Σₖ cov(yₖ, yₖ)).
    x, y = (np.array([[value == each for each in range(-1, 3)] for value in row]) for row in (predictions, references))
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    size = math.sqrt((x * x).sum() * (y * y).sum())
    scores = metrics.compute("glue/cola", predictions=predictions, references=references)
    expected = (x * y).sum() / size if size > 1e-9 else 0.0
    assert scores["matthews_correlation"] == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_a_million_examples_overflow_nothing():
    """Half of class 1 is found, and no class 0 is taken for it: TP 250,000, FN 250,000, TN 500,000."""
    references = np.repeat([0, 1], 500_000)
    predictions = np.repeat([0, 0, 0, 1], 250_000)
    scores = metrics.compute("glue/cola", predictions=predictions, references=references)
    assert scores == {"matthews_correlation": pytest.approx(1 / math.sqrt(3), rel=1e-12)}


@given(st.lists(st.tuples(st.integers(-1, 2), st.integers(-1, 2)), min_size=1, max_size=12))
def test_macro_f1_is_its_definition(pairs):
    predictions, references = zip(*pairs, strict=True)
    f1 = []
    for each in {*predictions, *references}:
        right = sum(pair == (each, each) for pair in pairs)
        f1.append(2 * right / (predictions.count(each) + references.count(each)))
    scores = metrics.compute("classification", predictions=predictions, references=references)
    accuracy = sum(predicted == actual for predicted, actual in pairs) / len(pairs)
    assert scores == pytest.approx({"accuracy": accuracy, "f1_macro": sum(f1) / len(f1)}, rel=1e-12)


@given(array_shapes(min_dims=2, max_dims=2, max_side=6).flatmap(lambda shape: arrays(np.bool_, (2, *shape))))
def test_scores_of_label_sets_are_their_definitions(pair):
    predicted, actual = pair
    right, all_ = (predicted & actual).sum(axis=0), predicted.sum(axis=0) + actual.sum(axis=0)
    scores = metrics.compute("multi_label", predictions=predicted.astype(int), references=actual.astype(int))
    expected = {
        "f1_micro": 2 * right.sum() / max(all_.sum(), 1),
        "f1_macro": np.mean(2 * right / np.maximum(all_, 1)),
        "accuracy": np.mean((predicted == actual).all(axis=1)),
    }
    assert scores == pytest.approx(expected, rel=1e-12)


def test_regression_by_hand():
    scores = metrics.compute("regression", predictions=[1.0, 2.0, 30.0], references=[0.0, 5.0, 5.0])
    # Less the means: -10, -9, 19 and -10/3, 5/3, 5/3. Ranks: 1, 2, 3 and 1, 2.5, 2.5.
    pearson = (100 / 3 - 45 / 3 + 95 / 3) / math.sqrt((100 + 81 + 361) * (100 + 25 + 25) / 9)
    expected = {"mse": (1 + 9 + 625) / 3, "pearson": pearson, "spearmanr": 1.5 / math.sqrt(2 * 1.5)}
    assert scores == pytest.approx(expected)


def test_half_precision_inputs_do_not_round_scores():
    """4096 differences of 1 and one of 0.5: the nearest float16 is 1."""
    predictions = np.ones(4097, np.float16)
    predictions[0] = 0.5
    scores = metrics.compute("regression", predictions=predictions, references=np.zeros_like(predictions))
    assert scores["mse"] == pytest.approx(4096.25 / 4097, rel=1e-12)


def test_nan_predictions_have_nan_scores():
    scores = metrics.compute("regression", predictions=[1.0, math.nan], references=[1.0, 2.0])
    assert all(map(math.isnan, scores.values()))


def test_a_difference_beyond_float32_counts():
    """2²⁴ and 2²⁴ + 1 are one number in float32."""
    predictions = np.array([2.0**24, 2.0**24 + 1])
    scores = metrics.compute("regression", predictions=predictions, references=predictions[::-1])
    assert scores == pytest.approx({"mse": 1.0, "pearson": -1.0, "spearmanr": -1.0})
