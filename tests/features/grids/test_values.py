"""Values of grids and ranges of searches: what is read from the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bertkit.features.grids.values import PAPER, Range, spaces_of


def test_values_are_those_of_a_recipe():
    faults = []
    given = ["train.learning_rate=2e-5,3e-5", "data.pooling=mean,null", "task.text_columns=[a, b],[c]"]
    found = spaces_of("--grid", given, faults)
    assert not faults
    assert found == {
        "train.learning_rate": [2e-5, 3e-5],
        "data.pooling": ["mean", None],
        "task.text_columns": [["a", "b"], ["c"]],
    }
    assert spaces_of("--grid", ["paper", "train.weight_decay=0"], faults) == {**PAPER, "train.weight_decay": [0]}
    assert spaces_of("--grid", "paper", faults) == PAPER
    given = {"train.learning_rate": (1e-5, 2e-5), "train.max_steps": np.arange(2), "train.seed": [np.float32(0.5)]}
    found = spaces_of("--grid", given, faults)
    assert json.dumps(found) == json.dumps({**given, "train.max_steps": [0, 1], "train.seed": [0.5]})
    assert faults == ["--grid train.seed: use --seeds"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("train.learning_rate=1e-5..1e-4:log", Range(1e-5, 1e-4, log=True)),
        ("train.num_train_epochs=2..4", Range(2, 4)),
        ("train.weight_decay=-0.5..0.5", Range(-0.5, 0.5)),
        ("train.global_train_batch_size=16,32", [16, 32]),
    ],
)
def test_ranges(text, expected):
    faults = []
    key = text.partition("=")[0]
    assert spaces_of("--search", [text], faults) == spaces_of("--search", {key: expected}, faults) == {key: expected}
    assert not faults


@pytest.mark.parametrize(
    ("option", "text", "fault"),
    [
        ("--grid", "train.seed=1,,2", "'1,,2' is not a list of values with a comma between two"),
        ("--search", "train.seed=1,2..3", "expected KEY=LO..HI"),
    ],
)
def test_values_that_cannot_be_read_have_one_fault(option, text, fault):
    faults = []
    assert spaces_of(option, [text], faults) == {}
    assert len(faults) == 1
    assert faults[0].startswith(f"{option} train.seed: {fault}")
