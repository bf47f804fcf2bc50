"""Values of grids and ranges of searches: what is read from the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bertkit.features.grids.definition import define
from bertkit.features.grids.values import PAPER, Range, spaces_of
from bertkit.runtime.errors import RecipeError


def test_values_are_those_of_a_recipe():
    faults = []
    given = ["train.learning_rate=2e-5,3e-5", "data.pooling=mean,null", "task.text_columns=[a, b],[c]"]
    found = spaces_of("--grid", given, faults)
    assert found == {
        "train.learning_rate": [2e-5, 3e-5],
        "data.pooling": ["mean", None],
        "task.text_columns": [["a", "b"], ["c"]],
    }
    assert spaces_of("--grid", ["paper", "train.weight_decay=0"], faults) == {**PAPER, "train.weight_decay": [0]}
    assert spaces_of("--grid", "paper", faults) == PAPER
    given = {
        "train.learning_rate": (1e-5, 2e-5),
        "train.max_steps": np.arange(2),
        "train.weight_decay": [np.float32(0.5)],
    }
    found = spaces_of("--grid", given, faults)
    assert json.dumps(found) == json.dumps({**given, "train.max_steps": [0, 1], "train.weight_decay": [0.5]})
    assert not faults


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("train.learning_rate=1e-5..1e-4:log", Range(1e-5, 1e-4, log=True)),
        ("train.num_train_epochs=2..4", Range(2, 4)),
        ("train.weight_decay=-0.5..0.5", Range(-0.5, 0.5)),
        ("train.global_train_batch_size=16,32", [16, 32]),
        ("model.name_or_path=../a,../b", ["../a", "../b"]),
    ],
)
def test_ranges(text, expected):
    faults = []
    key = text.partition("=")[0]
    assert spaces_of("--search", [text], faults) == spaces_of("--search", {key: expected}, faults) == {key: expected}
    assert not faults


def test_ranges_have_numbers_of_numpy_too():
    faults = []
    given = {"train.max_steps": Range(np.int64(8), np.int64(32)), "train.learning_rate": Range(np.float32(0.5), 1)}
    found = spaces_of("--search", given, faults)
    assert found == {"train.max_steps": Range(8, 32), "train.learning_rate": Range(0.5, 1)}
    assert found["train.max_steps"].is_whole
    assert not faults


@pytest.mark.parametrize(
    ("option", "given", "fault"),
    [
        ("grid", "train.max_steps=1,,2", "expected values with a comma between two; the value '[1,,2]'"),
        ("grid", f"train.max_steps=1,{10**20}", f"expected values with a comma between two; the value '[1,{10**20}]'"),
        ("grid", {"train.max_steps": Range(8, 16)}, "a range is for --search; expected"),
        ("search", "train.max_steps=1,2..3", "expected KEY=LO..HI"),
        ("search", {"train.max_steps": Range(1, 1.0)}, "the range from 1 to 1 is empty"),
        ("search", "train.max_steps=1e2..1e3", "expected an integer or -1, got 386.47"),
    ],
)
def test_values_that_cannot_be_are_one_fault(option, given, fault):
    spaces = {"grid": (), "search": (), option: given}
    with pytest.raises(RecipeError) as error:
        define("rte", {}, **spaces, trials=2 if option == "search" else None, seeds=1, folds=None)
    assert "train.max_steps: " + fault in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("grid", "fault"),
    [
        ([{"train.max_steps": [1]}], "--grid {'train.max_steps': [1]}: expected paper, or KEY=VALUE,VALUE"),
        ({1: [2]}, "--grid 1: expected block.key"),
    ],
)
def test_a_grid_of_another_form_is_a_fault(grid, fault):
    with pytest.raises(RecipeError) as error:
        define("rte", {}, grid, (), trials=None, seeds=1, folds=None)
    assert fault in str(error.value)


@pytest.mark.parametrize("option", ["grid", "search"])
def test_values_that_fit_each_other_and_not_the_recipe_alone_are_no_fault(option):
    """The recipe has a stride of 128, which is too long for the shorter windows."""
    spaces = {"grid": (), "search": (), option: ["data.max_seq_length=128,256", "data.doc_stride=32,48"]}
    trials = 2 if option == "search" else None
    define("finetune/squad/v1", {}, **spaces, trials=trials, seeds=1, folds=None)


@pytest.mark.parametrize(
    ("recipe", "fault"),
    [("x", "unknown recipe 'x'; `bertkit recipes list` lists all recipes"), ("x.yaml", "recipe x.yaml: no such file")],
)
def test_a_recipe_that_does_not_load_is_one_fault(recipe, fault):
    with pytest.raises(RecipeError) as error:
        define(recipe, {}, "train.learning_rate=1e-5,2e-5", (), trials=None, seeds=2, folds=None)
    assert str(error.value).startswith(fault)
    assert "\n" not in str(error.value)


def test_faults_of_a_recipe_are_not_repeated_with_those_of_values():
    recipe = {"task": {"kind": "classification"}, "train": {"foo": 1, "bar": 2}}
    with pytest.raises(RecipeError) as error:
        define(recipe, {}, "train.learning_rate=fast,-1", (), trials=None, seeds=2, folds=None)
    message = str(error.value)
    expected = ("train.foo: unknown", "train.bar: unknown", "expected a number, got 'fast'", "expected more than 0")
    assert [message.count(each) for each in expected] == [1, 1, 1, 1]
