"""The warning about a model that gives all examples the same prediction."""

from __future__ import annotations

import pytest

from bertkit.tasks.per_example import warning_of_one_prediction


@pytest.mark.parametrize(
    ("predicted", "true", "found"),
    [
        (["neg"] * 10, ["neg", "pos"] * 5, "all predictions are 'neg' on the validation set"),
        ([""] * 10, ["a", "a, b"] * 5, "no label is predicted on the validation set"),
    ],
)
def test_predictions_that_are_all_the_same(predicted, true, found):
    message = warning_of_one_prediction(predicted, true)
    assert message is not None
    assert message.startswith(f"warning: {found}")


@pytest.mark.parametrize(
    ("predicted", "true"),
    [
        (["neg"] * 9 + ["pos"], ["neg", "pos"] * 5),
        (["neg"] * 10, ["neg"] * 10),  # the references are the same too
        (["neg"] * 8, ["neg", "pos"] * 4),  # few examples
        ([""] * 9 + ["a"], ["a", "a, b"] * 5),
    ],
)
def test_other_predictions_are_not_warned_about(predicted, true):
    assert warning_of_one_prediction(predicted, true) is None
