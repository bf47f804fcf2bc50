"""Settings as arguments: found in their block, tables kept as files, unknown names answered with the nearest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas
import polars
import pyarrow
import pytest

from bertkit.data.tables import read_table
from bertkit.recipe.load import load_recipe
from bertkit.runtime.errors import DataError, RecipeError
from bertkit.tasks.arguments import with_settings
from bertkit.tasks.registry import TASKS

RECIPE = "finetune/classification"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(tmp_path))


def test_settings_are_found_in_their_blocks():
    given = {"train_file": Path("a.csv"), "text_columns": ("a", "b"), "learning_rate": 1e-4, "max_seq_length": 64}
    assert with_settings(RECIPE, {"train.seed": 1}, {**given, "device": "cpu", "report_to": None}) == {
        "train.seed": 1,
        "data.train_file": "a.csv",
        "task.text_columns": ["a", "b"],
        "train.learning_rate": 1e-4,
        "data.max_seq_length": 64,
        "placement.device": "cpu",
    }


@pytest.mark.parametrize("recipe", [RECIPE, "classification", {"task": {"kind": "classification"}}])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lr": 1}, "lr: no argument and no setting of this task; did you mean 'learning_rate'?"),
        ({"text_column": "a"}, "did you mean 'text_columns'?"),
        ({"train_flie": "a"}, "did you mean 'train_file'?"),
        (
            {"train_file": {"train": [{"text": "a"}], "test": []}},
            "train_file: is a dict of 'train', 'test'; give one of them: tables['train']",
        ),
        ({"train_file": {"text": ["a"]}}, "train_file: is a dict; expected a file, or rows with named columns: "),
        ({"train_file": polars.LazyFrame({"text": ["a"]})}, "train_file: is a LazyFrame, whose rows are not computed"),
        ({"train_file": []}, "train_file: is a list; expected a file, or rows with named columns: a DataFrame, "),
        (
            {"train_file": np.array(["a"])},
            "train_file: is a numpy.ndarray; expected a file, or rows with named",
        ),
        ({"token_column": "a"}, "token_column: no argument and no setting of this task"),
        ({"learning_rate": 1}, "learning_rate: is in overrides too, as train.learning_rate; keep one of them"),
    ],
)
def test_wrong_settings_are_refused(recipe, settings, message):
    with pytest.raises((RecipeError, DataError)) as caught:
        with_settings(recipe, {"train.learning_rate": 1}, settings)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ({"task": "ner"}, "task: expected keys and values, got 'ner'"),
        ({}, "task.kind: expected the name of a task"),
        ({"task": {"kind": "nre"}}, "task.kind: unknown task 'nre'"),
        ({"task": {"kind": ["ner"]}}, "task.kind: expected the name of a task"),
    ],
)
def test_a_recipe_without_a_known_task_is_refused(recipe, message):
    with pytest.raises(RecipeError) as caught:
        with_settings(recipe, None, {"train_file": "a.csv"})
    assert message in str(caught.value)


@pytest.mark.parametrize("value", [0, len, {"b": 1, "a": 0}])
def test_what_is_no_list_of_texts_reaches_the_check_of_the_setting(value):
    overrides = with_settings("classification", None, {"label_names": value})
    with pytest.raises(RecipeError, match=r"task\.label_names: expected a string as each value, got \["):
        load_recipe("classification", overrides, TASKS)


def test_one_text_is_a_list_of_it_where_a_setting_has_a_list():
    values = with_settings("classification", None, {"text_columns": "Body", "label_column": "Mood"})
    assert values == {"task.text_columns": ["Body"], "task.label_column": "Mood"}


@pytest.mark.parametrize(
    "table",
    [
        pandas.DataFrame({"text": ["a", "b"], "label": ["x", "y"]}, index=[5, 6]),
        polars.DataFrame({"text": ["a", "b"], "label": ["x", "y"]}),
        pyarrow.table({"text": ["a", "b"], "label": ["x", "y"]}),
        [{"text": "a", "label": "x"}, {"text": "b", "label": "y"}],
    ],
)
def test_tables_become_files_by_their_content(table, tmp_path, capsys):
    path = with_settings(RECIPE, None, {"train_file": table})["data.train_file"]
    assert Path(path).parent == tmp_path / "bertkit/tables"
    assert read_table(path).columns == {"text": ["a", "b"], "label": ["x", "y"]}
    assert with_settings(RECIPE, None, {"train_file": table})["data.train_file"] == path
    assert capsys.readouterr().err.startswith("train_file: 2 rows of the ")


def test_class_names_of_data_sets_are_kept():
    from datasets import ClassLabel, Dataset, Features, Value

    features = Features({"text": Value("string"), "label": ClassLabel(names=["bad", "good"])})
    rows = Dataset.from_dict({"text": ["a"], "label": [1]}, features)
    path = with_settings(RECIPE, None, {"train_file": rows})["data.train_file"]
    assert read_table(path).class_names == {"label": ["bad", "good"]}
