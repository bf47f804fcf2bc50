"""GLUE's metrics: worked by hand, without a network."""

from __future__ import annotations

import evaluate
import pytest

from bertkit import metrics
from bertkit.errors import RecipeError


def test_accuracy_is_the_share_of_equal_classes():
    metric = metrics.load("glue/sst2")
    assert isinstance(metric, evaluate.Metric)
    assert metric.compute(predictions=[0, 1, 1, 0], references=[0, 1, 0, 0]) == {"accuracy": 0.75}


@pytest.mark.parametrize(("references", "accuracy"), [([1, 1, 1], 1.0), ([0, 0, 0], 0.0)])
def test_a_constant_prediction_is_scored_like_any_other(references, accuracy):
    assert metrics.load("glue/rte").compute(predictions=[1, 1, 1], references=references) == {"accuracy": accuracy}


def test_examples_can_be_added_in_batches():
    metric = metrics.load("glue/qnli")
    metric.add_batch(predictions=[0, 1], references=[0, 0])
    metric.add_batch(predictions=[1], references=[1])
    assert metric.compute()["accuracy"] == pytest.approx(2 / 3)


def test_an_unknown_metric_is_refused_with_the_known_ones():
    with pytest.raises(
        RecipeError, match=r"unknown metric 'glue/sst3'; expected one of .*; did you mean 'glue/sst2'\?"
    ):
        metrics.load("glue/sst3")
