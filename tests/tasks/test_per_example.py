"""The description of a model that gives all examples the same prediction."""

from __future__ import annotations

import numpy as np
import pytest

from bertkit.inference.predictor import load_task
from bertkit.tasks.per_example import collapse_of


@pytest.mark.parametrize(
    ("predicted", "true", "expected"),
    [
        (["neg"] * 2, ["neg", "pos"], "all predictions are 'neg'"),
        (["neg"] * 2, None, "all predictions are 'neg'"),
        ([("a", "b")] * 2, [("a",), ("b",)], "all predictions are 'a, b'"),
        ([()] * 10, [("a",), ("a", "b")] * 5, "no label is predicted"),
    ],
)
def test_the_same_prediction_for_all_examples(predicted, true, expected):
    assert collapse_of(predicted, true) == expected


@pytest.mark.parametrize(
    ("predicted", "true"),
    [
        (["neg"] * 9 + ["pos"], ["neg", "pos"] * 5),
        (["neg"] * 10, ["neg"] * 10),  # the references are the same too
        (["neg"], ["pos"]),  # one example
        ([()] * 9 + [("a",)], [("a",), ("a", "b")] * 5),
    ],
)
def test_other_predictions(predicted, true):
    assert collapse_of(predicted, true) is None


@pytest.mark.parametrize(
    ("kind", "outputs", "columns", "expected"),
    [
        ("film", np.eye(3)[[1, 1]], {"labels": [0, 1]}, "all predictions are 'fair'"),
        ("film", np.eye(3)[[1, 0]], {"labels": [0, 1]}, None),
        ("topics", [[-1.0, 2.0], [-1.0, 2.0]], {"labels": [[0, 1], [1, 1]]}, "all predictions are 'cast'"),
        ("topics", [[-1.0, 2.0], [-1.0, -2.0]], {"labels": [[0, 1], [1, 1]]}, None),  # nothing, and one label
        ("choices", [[1.0, 0.0], [1.0, 0.0]], {"labels": [0, 1], "choice_count": [2, 2]}, "all predictions are '0'"),
    ],
)
def test_tasks_describe_their_predictions(fine_tuned, kind, outputs, columns, expected):
    task, _ = load_task(str(fine_tuned(kind)), {})
    columns = {name: np.array(values) for name, values in columns.items()}
    assert task.collapse(np.array(outputs), columns, columns) == expected
