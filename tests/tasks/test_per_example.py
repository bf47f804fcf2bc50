"""The warning about a model that gives all examples the same prediction."""

from __future__ import annotations

from typing import Any

import pytest

from bertkit.tasks.per_example import PerExample

ALIKE = "the model does not tell its examples apart"


class Judged(PerExample):
    """A task whose predictions and references are given."""

    def __init__(self, predicted: list[Any], true: list[Any]):
        self.given = predicted, true

    def judged(self, outputs: Any, features: Any, examples: Any) -> Any:
        return self.given


def warning(predicted: list[Any], true: list[Any]) -> str | None:
    return Judged(predicted, true).warning_on((), {}, {})


@pytest.mark.parametrize(
    ("predicted", "true", "found"),
    [
        (["neg"] * 10, ["neg", "pos"] * 5, "all predictions are 'neg' on the validation set"),
        ([[]] * 10, [["a"], ["a", "b"]] * 5, "no label is predicted on the validation set"),
        ([["O", "O"]] * 10, [["O", "B-PER"]] * 10, "all predictions are 'O'"),
    ],
)
def test_predictions_that_are_all_the_same(predicted, true, found):
    message = warning(predicted, true)
    assert message is not None
    assert message.startswith(f"warning: {found}")
    assert ALIKE in message


@pytest.mark.parametrize(
    ("predicted", "true"),
    [
        (["neg"] * 9 + ["pos"], ["neg", "pos"] * 5),
        (["neg"] * 10, ["neg"] * 10),  # the references are the same too
        (["neg"] * 8, ["neg", "pos"] * 4),  # few examples
        ([1.5] * 10, [1.0, 2.0] * 5),  # numbers
        ([{"id": "1"}] * 10, [{"id": "1"}] * 10),
        ([[]] * 9 + [["a"]], [["a"], ["a", "b"]] * 5),
    ],
)
def test_other_predictions_are_not_warned_about(predicted, true):
    assert warning(predicted, true) is None


def test_a_task_without_judged_is_not_warned_about():
    class Unjudged(PerExample):
        name = "unjudged"

    assert Unjudged().warning_on((), {}, {}) is None
