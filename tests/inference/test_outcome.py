"""The description of a model that gives all examples the same prediction; metrics of tasks as functions of means."""

from __future__ import annotations

import numpy as np
import pytest

from bertkit.inference.facts import collapse_of
from bertkit.inference.outcome import task_inference
from bertkit.inference.predictor import load_task

from .conftest import answered, known_answers


@pytest.mark.parametrize(
    ("kind", "outputs", "columns", "expected"),
    [
        ("film", np.eye(3)[[1, 1]], {"labels": [0, 1]}, "all predictions are 'fair'"),
        ("film", np.eye(3)[[1, 0]], {"labels": [0, 1]}, None),
        ("film", np.eye(3)[[1, 1]], {"labels": [0, 0]}, None),  # the references are the same too
        ("topics", [[-1.0, 2.0], [-1.0, 2.0]], {"labels": [[0, 1], [1, 1]]}, "all predictions are 'cast'"),
        ("topics", [[1.0, 2.0], [1.0, 2.0]], {"labels": [[0, 1], [1, 1]]}, "all predictions are 'plot, cast'"),
        ("topics", [[-1.0, -2.0], [-1.0, -2.0]], {"labels": [[0, 1], [1, 1]]}, "no label is predicted"),
        ("topics", [[-1.0, 2.0], [-1.0, -2.0]], {"labels": [[0, 1], [1, 1]]}, None),  # nothing, and one label
        ("choices", [[1.0, 0.0], [1.0, 0.0]], {"labels": [0, 1], "choice_count": [2, 2]}, "all predictions are '0'"),
    ],
)
def test_tasks_describe_their_predictions(fine_tuned, kind, outputs, columns, expected):
    task, _ = load_task(str(fine_tuned(kind)), {})
    columns = {name: np.array(values) for name, values in columns.items()}
    assert task_inference(task).collapse(np.array(outputs), columns, columns) == expected


@pytest.mark.parametrize(("predicted", "expected"), [(["neg"] * 2, "all predictions are 'neg'"), (["neg"], None)])
def test_predictions_are_compared_without_references_too(predicted, expected):
    """Those of tasks that score no single examples."""
    assert collapse_of(predicted) == expected


TEXTS = ["the red house", "blue", "a dog", "cat"]
KNOWN = known_answers(["red house", "house"], ["blue sky"], ["cat"], ["cat"])
UNANSWERABLE = known_answers(["red house"], [], ["cat"], [])


@pytest.mark.numeric
@pytest.mark.parametrize(
    ("kind", "predictions", "references", "names"),
    [
        ("answers", answered(TEXTS), KNOWN, ["exact_match", "f1"]),
        ("maybe", answered(TEXTS, [-1.0, 1.0, -1.0, -1.0]), UNANSWERABLE, ["exact", "f1"]),
        ("tags", [[0, 1, 1], [1], [0, 0]], [[0, 1, 0], [0], [0, 0]], ["accuracy"]),
        ("entities", [[1, 2, 0], [1], [0, 0]], [[1, 2, 0], [0], [1, 0]], ["overall_f1"]),
        ("entities", [[1, 0, 0, 1], [0, 1], [2, 1]], [[1, 2, 0, 1], [1, 2], [0, 2]], ["overall_f1"]),
        ("choices", [0, 1, 1, 1], [0, 1, 0, 0], ["accuracy"]),
    ],
)
def test_terms_give_the_scores_of_the_task(fine_tuned, kind, predictions, references, names):
    task, _ = load_task(str(fine_tuned(kind)), {})
    scores = task.compute_metrics(predictions, references)
    for name in names:
        terms = task_inference(task).terms(name, predictions, references)
        assert float(terms.function(*terms.values.mean(axis=0))) == pytest.approx(scores[name])
        assert 0 < scores[name] < terms.bounds[1]


@pytest.mark.parametrize(("second", "expected"), [([0, 0], "all predictions are 'O'"), ([0, 1], None)])
def test_tags_are_compared_by_word(fine_tuned, monkeypatch, second, expected):
    """Sentences of one and two words."""
    task, _ = load_task(str(fine_tuned("entities")), {})
    sides = [np.array([0]), np.array(second)], [[0], [1, 2]]
    monkeypatch.setattr(task, "predictions_and_references", lambda *columns: sides)
    assert task_inference(task).collapse(None, {}, {}) == expected
