"""GLUE's metrics: each task's own scores, worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertkit import metrics
from bertkit.metrics.glue import Glue

# Right: 4 of 6. Class 1: 3 predictions, 3 references, 2 of them the same.
PREDICTIONS, REFERENCES = [1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 0, 0]
TABLE_1 = {
    ("sst2", "mnli", "mnli_matched", "mnli_mismatched", "qnli", "rte", "wnli"): {"accuracy": 4 / 6},
    ("cola", "ax"): {"matthews_correlation": (2 * 2 - 1 * 1) / 9},  # (TP·TN − FP·FN) / √(3·3·3·3)
    ("mrpc", "qqp"): {"accuracy": 4 / 6, "f1": 2 * 2 / (3 + 3), "combined_score": 4 / 6},
}


@pytest.mark.parametrize(("task", "scores"), [(task, scores) for tasks, scores in TABLE_1.items() for task in tasks])
def test_each_task_of_classes_has_its_scores(task, scores):
    assert metrics.load(f"glue/{task}").compute(predictions=PREDICTIONS, references=REFERENCES) == pytest.approx(scores)


def test_similarities_have_two_correlations_and_their_mean():
    scores = metrics.load("glue/stsb").compute(predictions=[0.5, 1.5, 3.5, 2.5], references=[0.0, 1.0, 2.0, 5.0])
    # Less the means: -1.5, -0.5, 1.5, 0.5 and -2, -1, 0, 3; ranks 1, 2, 4, 3 and 1, 2, 3, 4.
    pearson = (3 + 0.5 + 0 + 1.5) / math.sqrt(5 * 14)
    spearman = 1 - 6 * (0 + 0 + 1 + 1) / (4 * 15)
    expected = {"pearson": pearson, "spearmanr": spearman, "combined_score": (pearson + spearman) / 2}
    assert scores == pytest.approx(expected)


def test_three_classes_are_correlated_as_well():
    """The diagnostic set's R₃: s = 4, c = 3, p = (2, 1, 1), t = (1, 2, 1)."""
    scores = metrics.load("glue/ax").compute(predictions=[0, 0, 1, 2], references=[0, 1, 1, 2])
    assert scores == {"matthews_correlation": pytest.approx((3 * 4 - 5) / math.sqrt((16 - 6) * (16 - 6)))}


@pytest.mark.parametrize(("references", "accuracy"), [([1, 1, 1], 1.0), ([0, 0, 0], 0.0)])
def test_a_constant_prediction_is_scored_like_any_other(references, accuracy):
    predictions = [1, 1, 1]
    scores = metrics.load("glue/mrpc").compute(predictions=predictions, references=references)
    assert scores == {"accuracy": accuracy, "f1": accuracy, "combined_score": accuracy}
    scores = metrics.load("glue/cola").compute(predictions=predictions, references=references)
    assert scores == {"matthews_correlation": 0}


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-1, 2), st.integers(-1, 2)), min_size=1, max_size=12))
def test_f1_and_matthews_are_their_definitions_for_any_few_examples(pairs):
    predictions, references = zip(*pairs, strict=True)
    scores = metrics.load("glue/mrpc").compute(predictions=predictions, references=references)
    positive = predictions.count(1) + references.count(1)
    assert scores["f1"] == pytest.approx(2 * pairs.count((1, 1)) / max(positive, 1), rel=1e-12)
    # The correlation of all pairs of indicators: Σₖ cov(xₖ, yₖ) / √(Σₖ cov(xₖ, xₖ) · Σₖ cov(yₖ, yₖ)).
    x, y = (np.array([[value == each for each in range(-1, 3)] for value in row]) for row in (predictions, references))
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    size = math.sqrt((x * x).sum() * (y * y).sum())
    scores = metrics.load("glue/cola").compute(predictions=predictions, references=references)
    expected = (x * y).sum() / size if size > 1e-9 else 0.0
    assert scores["matthews_correlation"] == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_a_million_examples_overflow_nothing():
    """Half of class 1 is found, and no class 0 is taken for it: TP 250,000, FN 250,000, TN 500,000."""
    references = np.repeat([0, 1], 500_000)
    predictions = np.repeat([0, 0, 0, 1], 250_000)
    scores = metrics.load("glue/cola").compute(predictions=predictions, references=references)
    assert scores == {"matthews_correlation": pytest.approx(1 / math.sqrt(3), rel=1e-12)}


def test_similarities_all_alike_have_no_score():
    scores = metrics.load("glue/stsb").compute(predictions=[2.5, 2.5, 2.5], references=[0.0, 1.0, 5.0])
    assert all(map(math.isnan, scores.values()))


def test_it_can_be_built_like_any_metric_with_files(tmp_path):
    metric = Glue("rte", cache_dir=str(tmp_path / "metrics"))
    metric.add_batch(predictions=PREDICTIONS, references=REFERENCES)
    assert [path.suffix for path in tmp_path.rglob("*.arrow")] == [".arrow"]
    assert metric.compute() == {"accuracy": 4 / 6}
