"""GLUE's metrics: each task's own scores, worked by hand."""

from __future__ import annotations

import math

import pytest

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


def test_similarities_all_alike_have_no_score():
    scores = metrics.load("glue/stsb").compute(predictions=[2.5, 2.5, 2.5], references=[0.0, 1.0, 5.0])
    assert all(map(math.isnan, scores.values()))


def test_it_can_be_built_like_any_metric_with_files(tmp_path):
    metric = Glue("rte", cache_dir=str(tmp_path / "metrics"))
    metric.add_batch(predictions=PREDICTIONS, references=REFERENCES)
    assert [path.suffix for path in tmp_path.rglob("*.arrow")] == [".arrow"]
    assert metric.compute() == {"accuracy": 4 / 6}
