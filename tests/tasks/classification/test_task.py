"""Classification of anybody's table: what is found in it, refused, held out and kept."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertkit import BertConfig
from bertkit.data.tables import Table
from bertkit.inference.outcome import task_inference
from bertkit.runtime.errors import DataError, RecipeError
from bertkit.tasks import table_data
from bertkit.tasks.base import task_record, with_optional_labels
from bertkit.tasks.checkpoints import task_of_checkpoint
from bertkit.tasks.classification.settings import DataSettings, TaskSettings
from bertkit.tasks.classification.task import ClassificationTask
from bertkit.tasks.splits import hub_dataset

TRAIN = "text,label\ngood film,pos\nbad film,neg\n"


@pytest.fixture
def task(task_of_files):
    """Builds a task of files, each given by its content: ``task(train_csv=…, test_jsonl=…, stride=…, problem=…)``."""
    return partial(task_of_files, ClassificationTask, TaskSettings, DataSettings)


def rows(**columns: list[Any]) -> str:
    """JSON lines."""
    return "".join(
        json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in zip(*columns.values(), strict=True)
    )


def many(classes: str = "pos neg", count: int = 40) -> str:
    names = classes.split()
    return "text,label\n" + "".join(f"text {row},{names[row % len(names)]}\n" for row in range(count))


NUMBERS = rows(text=[f"text {row}" for row in range(24)], label=[row / 4 for row in range(24)])


def message(task: ClassificationTask, folder: Path, splits: list[str] | None = None) -> str:
    """Returns the message of `load` without the folder."""
    with pytest.raises(DataError) as caught:
        task.load(splits)
    return str(caught.value).replace(f"{folder}/", "")


def through_checkpoint(task: ClassificationTask, **data: Any) -> ClassificationTask:
    """The task as it comes back from the ``config.json`` of what was trained."""
    config = BertConfig(**task.config(), bertkit_task=task_record(task))
    found = task_of_checkpoint(BertConfig.from_dict(json.loads(config.to_json_string())), "here", **data)
    assert isinstance(found, ClassificationTask)
    return found


def test_rejected_rows_of_prodigy_are_not_trained_on(task):
    answers = ["accept", "reject", "accept", "ignore"] * 10
    texts, labels = [f"text {row}" for row in range(40)], ["yes" if row % 3 else "no" for row in range(40)]
    _, splits = task(train_jsonl=rows(text=texts, label=labels, answer=answers)).load()
    used = {row["text"] for split in splits.values() for row in split.examples}
    assert used == {text for text, answer in zip(texts, answers, strict=True) if answer == "accept"}
    assert {splits["train"].place(row) for row in range(3)} < {f"line {row}" for row in range(1, 41, 2)}


# ---- what the labels are --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("train", "problem", "names", "labels", "main_metric"),
    [
        (rows(text=["a", "b", "c"], label=["y", "n", "y"]), "single_label", ["n", "y"], [1, 0, 1], "accuracy"),
        (rows(text=["a", "b", "c"], label=[10, 9, 9]), "single_label", ["9", "10"], [1, 0, 0], "accuracy"),
        (rows(text=["a", "b"], label=["null", "NA"]), "single_label", ["NA", "null"], [1, 0], "accuracy"),
        (rows(text=["a", "b"], label=[True, False]), "single_label", ["False", "True"], [1, 0], "accuracy"),
        (rows(text=list("abc"), label=[1.0, 1, 0.0]), "single_label", ["0", "1"], [1, 1, 0], "accuracy"),
        (NUMBERS, "regression", [], [number / 4 for number in range(24)], "pearson"),
        (
            rows(text=["a", "b"], label=[["x", "y"], []]),
            "multi_label",
            ["x", "y"],
            [[1, 1], [0, 0]],
            "average_precision",
        ),
    ],
)
def test_problem_and_classes_are_found_in_the_training_data(task, train, problem, names, labels, main_metric):
    found = task(train_jsonl=train)
    unsettled = found
    found, splits = found.load(["train"])
    assert splits["train"].examples["labels"][:] == labels
    assert unsettled.settings == TaskSettings()
    threshold = "tuned" if problem == "multi_label" else None
    columns = {"text_columns": ["text"], "label_column": "label"}
    assert found.settings == TaskSettings(problem=problem, **columns, label_names=names, threshold=threshold)
    assert found.main_metric == main_metric


def test_the_problem_that_is_given_wins(task):
    fractions = "text,label\na,1.5\nb,2.5\nc,1.5\n"
    classes = task(train_csv=fractions, problem="single_label").load(["train"])[1]["train"]
    assert classes.examples["labels"][:] == [0, 1, 0]
    whole = task(train_csv="text,label\na,1\nb,3\n", problem="regression").load(["train"])[1]["train"]
    assert whole.examples["labels"][:] == [1.0, 3.0]
    assert isinstance(whole.examples["labels"][0], float)


@pytest.mark.parametrize("settings", [{"problem": "single_label"}, {"label_names": ["neg", "pos"]}, {"problem": None}])
def test_the_line_on_the_classes_is_always_there(task, settings):
    everything = {"text_columns": ["text"], "label_column": "label", **settings}
    split = task(train_csv=TRAIN, **everything).load(["train"])[1]["train"]
    assert split.labels.startswith("problem: single_label with 2 classes ('neg' 1, 'pos' 1), ")
    assert split.notes[0] == split.labels


def test_other_splits_may_spell_whole_numbers_otherwise(task):
    train, later = "text,label\na,1.0\nb,0.0\n", "text,label\nc,1\nd,0\n"
    found, splits = task(train_csv=train, validation_csv=later, test_csv=train).load()
    assert found.settings.label_names == ["0", "1"]
    assert found.config()["id2label"] == {0: "0", 1: "1"}
    assert splits["validation"].examples["labels"][:] == [1, 0]
    assert splits["test"].notes == ("'0.0', '1.0' are read as '0', '1'",)


def test_numbers_that_are_all_equal_are_refused(task, tmp_path):
    refused = message(task(train_csv="text,label\na,3\nb,3.0\n", problem="regression"), tmp_path, ["train"])
    assert refused == "train.csv: every row has the number '3'; expected at least two"


def test_names_that_are_given_set_the_order_and_refuse_others(task, tmp_path):
    found = task(train_csv=TRAIN, label_names=["pos", "neg"])
    assert found.load(["train"])[1]["train"].examples["labels"][:] == [0, 1]
    numbers = task(train_csv="text,label\na,1.5\nb,2.5\n", label_names=["2.5", "1.5"])
    assert numbers.load(["train"])[1]["train"].examples["labels"][:] == [1, 0]
    refused = message(task(train_csv=TRAIN, label_names=["pos", "negative"]), tmp_path, ["train"])
    assert refused == "train.csv, line 3: label 'neg' is not one of 'pos', 'negative'"


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"text_columns": ["a", "b", "c"]}, "text_columns: expected one, or two for pairs, got a, b, c"),
        ({"text_columns": ["a", "a"]}, "text_columns: expected two different columns for pairs, got a twice"),
        ({"label_separator": ""}, "label_separator: '' is for several labels per row"),
        ({"label_separator": ",", "problem": "single_label"}, "label_separator: ',' is for several"),
        ({"label_names": ["a"], "problem": "regression"}, "label_names: numbers have no classes"),
        ({"label_names": ["a", "b", "a"]}, "label_names: expected each name once, got a, b, a"),
    ],
)
def test_impossible_settings_are_refused(wrong, expected):
    with pytest.raises(ValueError, match=expected):
        TaskSettings(**wrong)


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"validation_fraction": 0.0}, "validation_fraction: expected more than 0, less than 1, got 0.0"),
        ({"data_dir": "x"}, "data_dir: tables are files"),
        (
            {"dataset_name": "org/x", "test_file": "t.csv"},
            "dataset_name: give either a Hub data set or files; test_file is given too",
        ),
        ({"dataset_config": "en"}, "dataset_config: is for a Hub data set; give dataset_name"),
    ],
)
def test_impossible_data_are_refused(wrong, expected):
    with pytest.raises(ValueError, match=expected):
        DataSettings(**wrong)


# ---- faults ---------------------------------------------------------------------------------------------------------


def test_all_faults_of_all_files_are_told_at_once(task, tmp_path):
    train = "text,label\ngood,pos\n,neg\n  ,pos\nNA,\n"
    assert message(task(train_csv=train, validation_csv="text,label\na,pos\nb,other\nc,\n"), tmp_path).splitlines() == [
        "4 faults:",
        "  - train.csv, line 3: text is empty; write a text, or remove the row (2 times, also line 4)",
        "  - train.csv, line 5: no value for 'label'",
        "  - validation.csv, line 4: no value for 'label'",
    ]


def test_both_texts_of_a_pair_are_checked(task, tmp_path):
    pairs = task(train_tsv="sentence1\tsentence2\tlabel\na\t\t1\n \tb\t0\n")
    assert [line.split(";")[0] for line in message(pairs, tmp_path, ["train"]).splitlines()] == [
        "2 faults:",
        "  - train.tsv, line 3: sentence1 is empty",
        "  - train.tsv, line 2: sentence2 is empty",
    ]


def test_rows_of_a_class_that_training_has_not_are_counted_and_wrong(task, tmp_path):
    later = "text,label\na,pos\nb,new\nc,neg\nd,new\ne,Neg\n"
    found, splits = task(train_csv=many(), validation_csv=later, test_csv=later).load()
    for name in ("validation", "test"):
        assert splits[name].examples["labels"][:] == [1, -100, 0, -100, -100]
        [note] = [note for note in splits[name].notes if note.startswith("warning: 3 of 5 rows have a class")]
        assert "'new' 2, first in line 3; 'Neg' 1, first in line 6, and 'Neg' and 'neg' differ only in case" in note
        assert note.endswith("; they count as wrong")
    logits = np.eye(2)[[1, 1, 0, 0, 0]]
    features = {"labels": splits["test"].examples["labels"][:]}
    scores = found.score(logits, features, {})
    assert scores["accuracy"] == 2 / 5
    assert scores["class/pos/f1"] == 2 / 3  # one of its two predictions is wrong
    assert found.to_labels(features["labels"]) == ["pos", "(not in training)", "neg", *["(not in training)"] * 2]


def test_labels_that_training_has_not_are_left_out_of_rows_with_several(task, tmp_path):
    later = rows(text=["a", "b", "c"], labels=[["x", "new"], ["y"], ["new"]])
    _, splits = task(train_jsonl=SEVERAL, validation_jsonl=later, test_jsonl=later).load()
    for name in ("validation", "test"):
        assert splits[name].examples["labels"][:] == [[1, 0], [0, 1], [0, 0]]
        [note] = [note for note in splits[name].notes if note.startswith("warning: 2 of 3 rows have a class")]
        assert "'new' 2, first in line 1; such labels are left out, so the scores are too high" in note
    _, splits = task(train_jsonl=SEVERAL, validation_jsonl=rows(text=["a"], labels=[["x", "new"]])).load()
    assert splits["validation"].examples["labels"][:] == [[1, 0]]
    refused = message(task(train_jsonl=SEVERAL, validation_jsonl=rows(text=["a"], labels=[["new"]])), tmp_path)
    assert "1 of 1 rows have a class that is not in training" in refused


def test_calibration_and_thresholds_are_fitted_to_known_classes(task):
    both = task(calibrate=True, threshold="tuned", train_csv=many())
    logits, labels = np.eye(2)[[1, 1, 0, 0, 1]] * 3, [1, 0, 0, 1, 1]
    found, _ = both.load(["train"])
    known = found.score(logits, {"labels": labels}, {})
    more = found.score(np.concatenate([logits, [[0.0, 9.0]]]), {"labels": [*labels, -100]}, {})
    for fitted in ("temperature", "class/pos/threshold"):
        assert more[fitted] == known[fitted]
    none = found.score(logits, {"labels": [-100] * 5}, {})
    assert none["balanced_accuracy"] == 0
    assert "temperature" not in none


def test_a_set_without_a_class_of_training_is_no_validation_set_and_not_scored_as_a_test_set(task, tmp_path):
    """Placeholders in the place of labels, for example."""
    placeholders = "text,label\na,?\nb,?\nc,x\n"
    _, splits = task(train_csv=many(), test_csv=placeholders).load()
    assert "labels" not in splits["test"].examples.column_names
    assert splits["test"].notes[-1].endswith("'?' 2, first in line 2; 'x' 1, first in line 4; so no row is scored")
    refused = message(task(train_csv=many(), validation_csv=placeholders), tmp_path)
    assert refused.startswith(
        "validation.csv: 3 of 3 rows have a class that is not in training: '?' 2, first in line 2"
    )
    assert refused.endswith("; expected 'neg', 'pos'")
    assert "\n" not in refused


def test_one_class_alone_is_refused_together_with_other_faults(task, tmp_path):
    assert message(task(train_csv="text,label\na,pos\n,pos\n"), tmp_path, ["train"]).splitlines() == [
        "2 faults:",
        "  - train.csv: every row has the label 'pos'; expected at least two classes",
        "  - train.csv, line 3: text is empty; write a text, or remove the row",
    ]


def test_no_class_at_all_is_refused(task, tmp_path):
    none = task(train_jsonl=rows(text=["a", "b"], label=[[], []]))
    assert message(none, tmp_path, ["train"]) == "train.jsonl: no row has a label in 'label'"


def test_a_number_that_is_missing_or_none_does_not_make_classes_of_the_others(task, tmp_path):
    missing = message(task(train_csv="text,score\na,1.5\nb,\nc,2\n", problem="regression"), tmp_path, ["train"])
    assert missing == "train.csv, line 3: 'score' is ''; expected a number"
    whole = message(task(train_csv="text,label\na,1.0\nb,\nc,0.0\n"), tmp_path, ["train"])
    assert whole == "train.csv, line 3: no value for 'label'"


def test_a_column_of_texts_has_another_name_than_the_labels(task, tmp_path):
    named = task(train_csv="labels,sentiment\na,1\nb,0\n", label_column="sentiment")
    assert message(named, tmp_path) == "train.csv: a column of texts cannot be named 'labels'; rename it"


def test_without_a_table_the_ways_to_give_one_are_told(task):
    for given in ({}, {"validation_csv": TRAIN}, {"test_csv": TRAIN}):
        with pytest.raises(DataError, match=r"no table to read; give --train-file .* or --dataset-name"):
            task(**given).load()


# ---- splits ---------------------------------------------------------------------------------------------------------


def test_a_validation_set_is_held_out_by_class_where_none_is_given(task, tmp_path):
    _, splits = task(train_csv=many("a a a b", 80)).load()
    held = splits["validation"]
    assert sorted(held.examples["labels"][:]) == [0] * 6 + [1] * 2  # tenths of 60 and of 20
    assert len(splits["train"].examples) == 72
    assert not set(held.examples["text"]) & set(splits["train"].examples["text"])
    assert held.notes == (f"8 of 80 examples of {tmp_path}/train.csv, drawn with data.split_seed 42",)


def test_the_held_out_rows_do_not_depend_on_what_else_is_asked(task):
    held = task(train_csv=many()).load()[1]["validation"].examples["text"][:]
    assert task(train_csv=many()).load(["validation"])[1]["validation"].examples["text"][:] == held
    _, limited = task(train_csv=many(), max_train_samples=3).load()
    assert len(limited["train"].examples) == 3
    assert limited["validation"].examples["text"][:] == held
    assert task(train_csv=many(), split_seed=1).load()[1]["validation"].examples["text"][:] != held
    assert len(task(train_csv=many(), max_eval_samples=1).load()[1]["validation"].examples) == 1


def test_rows_without_labels_have_the_columns_of_the_validation_set(task):
    """As for a teacher that bertkit did not write, which records classes and no columns."""
    known = task(
        problem="single_label", label_names=["neg", "pos"], train_csv="id,text\n1,a\n", validation_csv=many(count=4)
    )
    settled, splits = with_optional_labels(known).load(["train", "validation"])
    assert (settled.settings.text_columns, settled.settings.label_column) == (["text"], "label")
    assert splits["train"].examples.column_names == ["text"]


def test_a_checkpoint_is_scored_on_the_rows_that_were_held_out_from_it(task, tmp_path):
    trained, splits = task(train_csv=many(), split_seed=7, validation_fraction=0.3).load()
    held = splits["validation"].examples["text"][:]
    later = through_checkpoint(trained, train_file=str(tmp_path / "train.csv"))
    assert later.load(["validation"])[1]["validation"].examples["text"][:] == held


@pytest.mark.parametrize(
    ("train", "of", "problem"),
    [(many(count=8), "each class", None), (rows(text=["a", "b"], label=[0.5, 1.5]), "them", "regression")],
)
def test_too_few_rows_to_hold_out_are_refused(task, tmp_path, train, of, problem):
    kind = "csv" if train.startswith("text") else "jsonl"
    refused = message(task(**{f"train_{kind}": train}, problem=problem), tmp_path)
    count = 8 if kind == "csv" else 2
    assert refused == (
        f"train.{kind}: {count} examples are too few to hold out 0.1 of {of}; give --validation-file, or a larger "
        "data.validation_fraction"
    )


def test_a_column_of_other_values_has_no_classes(task, tmp_path):
    train = rows(text=list("abcdefgh"), label=[f"2024-01-0{day}" for day in range(1, 9)])
    refused = message(task(train_jsonl=train), tmp_path)
    assert refused == "train.jsonl: 8 rows have 8 different labels; give the column of the classes with --label-column"


def test_rows_are_held_out_of_a_few_rows_of_many_classes(task):
    names = [f"class{row}" for row in range(42)]
    _, splits = task(train_csv=many(" ".join(names), 50)).load()
    assert {name: len(split.examples) for name, split in splits.items()} == {"train": 45, "validation": 5}
    assert len({*splits["train"].examples["labels"][:]}) == 42


def test_rows_of_the_validation_set_that_were_trained_on_are_told(task):
    validation = "text,label\nbad film,neg\nnew,pos\ngood film,neg\n"
    _, splits = task(train_csv=TRAIN, validation_csv=validation).load()
    assert splits["validation"].notes == (
        "warning: the texts of 2 of 3 rows are also in the training set, so the scores are too high; the first "
        "is 'bad film'",
    )
    line = "problem: single_label with 2 classes ('neg' 1, 'pos' 1), inferred from 2 labels: words"
    columns = "columns: texts in 'text', labels in 'label'"
    assert (splits["train"].notes, splits["train"].labels) == ((columns, line), line)


def test_columns_are_found_in_any_case_in_every_split(task):
    """In the validation set and in inputs too, where the case may differ again."""
    loaded, splits = task(
        train_csv="ID,Body ,Category\n1,good,pos\n2,bad,neg\n", validation_csv="body,CATEGORY\na,pos\n"
    ).load()
    assert (loaded.settings.text_columns, loaded.settings.label_column) == (["Body "], "Category")
    assert splits["train"].notes[0] == "columns: texts in 'Body ', labels in 'Category'"
    assert splits["validation"].examples.to_dict() == {"Body ": ["a"], "labels": [1]}
    assert loaded.columns_of(Table({"BODY": ["b"], "n": ["1"]}, "x.csv", "")) == {"Body ": ["b"]}
    _, fresh = task(train_csv=TRAIN, validation_csv="text,label\nnew,pos\n").load()
    assert fresh["validation"].notes == ()


def test_a_pair_repeats_only_as_a_whole(task):
    header = "text_a,text_b,label\n"
    _, splits = task(train_csv=header + "a,b,1\nc,d,0\n", validation_csv=header + "a,d,1\nb,a,0\nc,d,1\n").load()
    assert "1 of 3 rows" in splits["validation"].notes[0]


@pytest.mark.parametrize(
    "test",
    [
        {"test_csv": "text\na\nb\n"},
        {"test_csv": "text,label\na,\nb, \n"},
        {"test_jsonl": rows(text=["a", "b"], label=[None, None])},
    ],
)
def test_a_test_set_may_lack_labels(task, test):
    split = task(train_csv=many(), **test).load()[1]["test"]
    assert split.examples.column_names == ["text"]
    assert split.examples["text"][:] == ["a", "b"]


def test_a_split_that_is_not_given_is_absent(task):
    assert task(train_csv=many()).load(["test"])[1] == {}
    assert list(task(train_csv=many()).load()[1]) == ["train", "validation"]


def test_a_test_set_of_several_labels_may_lack_them_too(task):
    train = "text,label\na,x;y\nb,x\n"
    empty = task(train_csv=train, validation_csv=train, test_csv="text,label\na,\nb,\n", label_separator=";")
    assert "labels" not in empty.load()[1]["test"].examples.column_names
    some = task(train_csv=train, validation_csv=train, test_csv="text,label\na,\nb,y\n", label_separator=";")
    assert some.load()[1]["test"].examples["labels"][:] == [[0, 0], [0, 1]]


def test_a_test_set_with_labels_keeps_them_and_then_lacks_none(task, tmp_path):
    assert task(train_csv=many(), test_csv="text,label\na,pos\n").load()[1]["test"].examples["labels"][:] == [1]
    partly = message(task(train_csv=many(), test_csv="text,label\na,pos\nb,\n"), tmp_path)
    assert partly == "test.csv, line 3: no value for 'label'"


@pytest.fixture
def hub(monkeypatch):
    """Serves tables as splits of the Hub's set ``org/x``."""

    def serve(class_names: dict[str, list[str]], **splits: dict[str, list[Any]]) -> None:
        tables = {
            name: Table(columns, f"org/x ({name})", "", class_names=class_names) for name, columns in splits.items()
        }
        monkeypatch.setattr(table_data, "hub_splits", lambda name, config: list(tables))
        monkeypatch.setattr(table_data, "load_hub_table", lambda name, config, split: tables[split])

    return serve


def test_a_set_of_the_hub_keeps_the_order_of_its_classes_and_minus_one_is_missing(hub, task):
    hub(
        {"label": ["zebra", "ant", "never"]},
        train={"text": ["a", "b"], "label": [1, 0]},
        validation={"text": ["c"], "label": [0]},
        test={"text": ["d"], "label": [-1]},
        extra={"text": ["d"], "label": [9]},
    )
    found = task(dataset_name="org/x")
    found, splits = found.load()
    assert found.settings.label_names == ["zebra", "ant", "never"]
    assert splits["train"].examples["labels"][:] == [1, 0]
    assert splits["test"].examples.column_names == ["text"]
    assert list(splits) == ["train", "validation", "test"]
    assert hub_dataset(found) == ("org/x", "default", "validation")


def test_rows_without_a_class_in_a_hub_set_are_left_out(hub, task, capsys):
    hub({"label": ["n", "y"]}, train={"text": ["a", "b", "c"], "label": [1, -1, 0]})
    found, splits = task(dataset_name="org/x").load(["train"])
    assert splits["train"].examples["text"][:] == ["a", "c"]
    assert found.settings.label_names == ["n", "y"]
    assert splits["train"].place(1) == "row 3"
    assert "left out 1 of 3 rows, which have no label (label is -1)" in capsys.readouterr().err


def test_rows_whose_annotators_disagreed_are_left_out(task, capsys):
    lines = ["a,b,neutral", "c,d,-", "e,f,entailment"]
    found, splits = task(
        train_csv="\n".join(["sentence1,sentence2,gold_label", *lines]), label_column="gold_label"
    ).load(["train"])
    assert found.settings.label_names == ["entailment", "neutral"]
    assert splits["train"].examples["sentence1"][:] == ["a", "e"]
    assert "left out 1 of 3 rows, which have no label (gold_label is -)" in capsys.readouterr().err


def test_a_class_that_may_be_missing_labels_is_said(task):
    _, splits = task(train_csv="text,label\na,-1\nb,0\nc,1\n").load(["train"])
    assert "'-1' is a class of its own" in splits["train"].labels
    _, splits = task(train_csv="text,label\na,2\nb,0\nc,1\n").load(["train"])
    assert "of its own" not in splits["train"].labels


def test_several_classes_of_a_hub_set_have_its_names(hub, task):
    hub({"labels": ["joy", "anger"]}, train={"text": ["a", "b"], "labels": [[1, 0], []]})
    found = task(dataset_name="org/x")
    found, splits = found.load(["train"])
    assert splits["train"].examples["labels"][:] == [[1, 1], [0, 0]]
    assert (found.settings.problem, found.settings.label_names) == ("multi_label", ["joy", "anger"])


# ---- the checkpoint -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("train", "problem_type", "id2label"),
    [
        (rows(text=["a", "b"], label=["y", "n"]), "single_label_classification", {0: "n", 1: "y"}),
        (rows(text=["a", "b"], label=[["y"], ["n"]]), "multi_label_classification", {0: "n", 1: "y"}),
        (NUMBERS.replace("label", "score"), "regression", {0: "score"}),
    ],
)
def test_a_checkpoint_knows_the_columns_and_classes(task, train, problem_type, id2label):
    trained, _ = task(train_jsonl=train, max_seq_length=77).load(["train"])
    config = BertConfig.from_dict(json.loads(BertConfig(**trained.config()).to_json_string()))
    assert (config.num_labels, config.problem_type, config.id2label) == (len(id2label), problem_type, id2label)
    assert config.label2id == {name: index for index, name in id2label.items()}
    later = through_checkpoint(trained)
    assert asdict(later.settings) == asdict(trained.settings)
    assert later.data.max_seq_length == 77
    assert later.data.train_file is None


def test_a_checkpoint_reads_tables_that_have_its_columns_only(task, tmp_path):
    trained = task(train_csv="body,text,kind\na,x,1\nb,x,2\n", text_columns=["body"], label_column="kind")
    trained, _ = trained.load(["train"])
    (tmp_path / "later.csv").write_text("body,label\nc,9\n")
    later = through_checkpoint(trained, test_file=str(tmp_path / "later.csv"))
    assert later.load(["test"])[1]["test"].examples.to_dict() == {"body": ["c"]}
    later = through_checkpoint(trained, validation_file=str(tmp_path / "later.csv"))
    assert message(later, tmp_path, ["validation"]) == (
        "later.csv: no column 'kind'; available: 'body', 'label'; rename those that are meant, or name them: "
        "`bertkit evaluate` has --text-column and --label-column"
    )


def test_a_checkpoint_reads_other_columns_that_are_given(task, tmp_path):
    trained, _ = task(train_csv=TRAIN).load(["train"])
    (tmp_path / "later.csv").write_text("body,kind\nc,neg\n")
    later = through_checkpoint(trained, validation_file=str(tmp_path / "later.csv"))
    found = task_inference(later).with_columns({"text_columns": ["body"], "label_column": "kind"})
    assert found.load(["validation"])[1]["validation"].examples.to_dict() == {"body": ["c"], "labels": [0]}
    assert later.settings.text_columns == ["text"]
    with pytest.raises(RecipeError, match=r"task\.text_columns: a, b; classification reads 1 column of texts"):
        task_inference(later).with_columns({"text_columns": ["a", "b"]})
    with pytest.raises(RecipeError, match=r"task\.token_column: not a column of classification"):
        task_inference(later).with_columns({"token_column": "words"})
    for wrong in ("label", "labels"):
        with pytest.raises(RecipeError, match=rf"task\.text_columns: {wrong} is the column of the labels"):
            task_inference(later).with_columns({"text_columns": [wrong]})


# ---- thresholds, calibration, the metric that decides ---------------------------------------------------------------

SEVERAL = rows(text=["a", "b", "c", "d"], labels=[["x"], ["x", "y"], [], ["y"]])


def decided(task: ClassificationTask, logits: list[list[float]]) -> list[Any]:
    predictions = task.decode(np.array(logits, dtype=np.float32), {}, {})
    return [prediction.get("label", prediction.get("labels")) for prediction in predictions]


def loaded(task: ClassificationTask) -> ClassificationTask:
    return task.load(["train"])[0]


def test_a_threshold_of_two_classes_is_that_of_the_second(task):
    logits = [[0.0, 0.1], [0.0, 3.0], [1.0, 0.0]]  # the second has 0.52, 0.95 and 0.27
    assert decided(loaded(task(train_csv=many("neg pos"))), logits) == ["pos", "pos", "neg"]
    assert decided(loaded(task(train_csv=many("neg pos"), threshold=0.9)), logits) == ["neg", "pos", "neg"]
    assert decided(loaded(task(train_csv=many("neg pos"), threshold={"pos": 0.2})), logits) == ["pos", "pos", "pos"]
    assert decided(loaded(task(train_csv=many("neg pos"), threshold={"neg": 0.6})), logits) == ["pos", "pos", "neg"]
    stricter = loaded(task(train_csv=many("neg pos"))).with_threshold(0.9)
    assert decided(stricter, logits) == ["neg", "pos", "neg"]
    prediction = stricter.decode(np.array(logits[:1]), {}, {})[0]
    assert prediction["probability"] == prediction["probabilities"]["neg"] < 0.5


def test_thresholds_of_several_labels(task):
    logits = [[0.0, 0.0], [2.0, -1.0]]  # 0.5 and 0.5; 0.88 and 0.27
    assert decided(loaded(task(train_jsonl=SEVERAL)), logits) == [["x", "y"], ["x"]]
    assert decided(loaded(task(train_jsonl=SEVERAL, threshold={"y": 0.2})), logits) == [["x", "y"], ["x", "y"]]
    assert decided(loaded(task(train_jsonl=SEVERAL, threshold=0.6)), logits) == [[], ["x"]]


def test_thresholds_of_several_labels_are_tuned_unless_given(task):
    logits, labels = np.array([[-2.0, -3.0], [-1.0, -3.0], [-3.0, -1.0]]), [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    scores = loaded(task(train_jsonl=SEVERAL)).score(logits, {"labels": labels}, {})
    assert scores["f1_micro"] == 1
    assert scores["class/y/threshold"] < 0.5
    scores = loaded(task(train_jsonl=SEVERAL, threshold=0.5)).score(logits, {"labels": labels}, {})
    assert scores["f1_micro"] == 0
    assert "class/y/threshold" not in scores


def test_labels_share_a_tuned_threshold_unless_each_counts_alike(task):
    logits = np.array([[1.0, -3.0], [0.9, -3.5], [-1.0, -4.0], [-1.1, -1.5]])
    features = {"labels": [[1.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]}
    scores = loaded(task(train_jsonl=SEVERAL)).score(logits, features, {})
    assert scores["class/x/threshold"] == scores["class/y/threshold"]
    assert scores["f1_micro"] == pytest.approx(0.8)  # two of three labels, and no other
    scores = loaded(task(train_jsonl=SEVERAL, main_metric="f1_macro")).score(logits, features, {})
    assert scores["class/x/threshold"] > scores["class/y/threshold"]
    assert scores["f1_macro"] == 1


@pytest.mark.parametrize("table", [{"train_csv": many("neg pos")}, {"train_jsonl": SEVERAL}])
def test_what_is_fitted_to_the_validation_set_is_kept_in_the_checkpoint(task, table):
    fitting = loaded(task(**table, threshold="tuned", calibrate=True))
    rng = np.random.default_rng(0)
    several = fitting.settings.problem == "multi_label"
    labels = rng.integers(0, 2, (50, 2)) if several else rng.integers(0, 2, 50)
    of_second = (labels if several else np.stack([1 - labels, labels], 1)) - 0.8
    logits = 4 * (of_second + rng.normal(size=(50, 2)))
    features = {"labels": labels.astype(float).tolist() if several else labels.tolist()}
    scores = fitting.score(logits, features, {})
    assert scores["ece"] < scores["ece_uncalibrated"]
    fitted, message = fitting.learn_from({f"eval_{name}": value for name, value in scores.items()})
    assert message.startswith("fitted to the validation set: temperature ")
    assert set(fitted.settings.threshold) == ({"x", "y"} if several else {"pos"})
    again = through_checkpoint(fitted)
    same = again.score(logits, features, {})
    assert same == {name: pytest.approx(scores[name]) for name in same}
    assert again.learn_from({}) == (again, None)
    assert "temperature" in pytest.importorskip("bertkit.features.sharing.kinds").shared(again).stock_note()
    assert scores["f1_macro"] >= loaded(task(**table)).score(logits, features, {})["f1_macro"] - 0.05
    # The temperature changes probabilities, but no prediction at one half.
    plain = loaded(task(**table))
    warm = plain.with_settings(calibrate=True, temperature=3.0)
    assert decided(warm, logits.tolist()) == decided(plain, logits.tolist())
    assert not np.allclose(warm.probabilities(logits), plain.probabilities(logits))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"threshold": 0.3}, "task.threshold: for two classes, or for several labels per row; this task has 3 classes"),
        ({"threshold": "tuned"}, "task.threshold: for two classes"),
        (
            {"main_metric": "f1"},
            "task.main_metric: 'f1' is not a score of this task; expected one of accuracy",
        ),
        ({"main_metric": "class/d/f1"}, "did you mean"),
    ],
)
def test_settings_that_do_not_fit_the_classes_are_refused(task, settings, expected, tmp_path):
    assert expected in message(task(train_csv=many("a b c"), **settings), tmp_path)


def test_settings_that_do_not_fit_other_problems_are_refused(task, tmp_path):
    numbers = "text,label\n" + "".join(f"text {row},{row / 7}\n" for row in range(30))
    for name, value in (("threshold", 0.4), ("calibrate", True), ("temperature", 0.4)):
        assert f"task.{name}: numbers have no labels" in message(task(train_csv=numbers, **{name: value}), tmp_path)
    wrong = message(task(train_jsonl=SEVERAL, threshold={"z": 0.4}, temperature={"w": 2.0}), tmp_path)
    assert "task.threshold: 'z' is no label of the training data" in wrong
    assert "task.temperature: 'w' is no" in wrong
    both = message(task(train_csv=many("neg pos"), threshold={"neg": 0.4, "pos": 0.3}), tmp_path)
    assert "of two classes, only one has a threshold" in both


@pytest.mark.parametrize("threshold", [0, 1, -0.1, "low", {"x": 1.5}, float("nan")])
def test_thresholds_lie_between_0_and_1(threshold):
    with pytest.raises(ValueError, match=r"^threshold: expected"):
        TaskSettings(threshold=threshold)


def test_the_threshold_of_a_prediction_is_checked(task):
    with pytest.raises(RecipeError, match=r"^--threshold: expected numbers between 0 and 1, got 2"):
        loaded(task(train_csv=many("neg pos"))).with_threshold(2)
    for threshold in (0.3, 0.5):  # also what is the default for others
        with pytest.raises(RecipeError, match=r"^--threshold: for two classes"):
            loaded(task(train_csv=many("a b c"))).with_threshold(threshold)


def test_the_metric_that_decides_may_be_any_score(task):
    assert loaded(task(train_csv=many())).main_metric == "accuracy"
    assert loaded(task(train_csv=many(), main_metric="class/pos/f1")).main_metric == "class/pos/f1"
    assert loaded(task(train_csv=many(), main_metric="pos_f1")).main_metric == "class/pos/f1"  # as it was called
    average = loaded(task(train_csv=many("average pos"), main_metric="average_precision"))
    assert average.main_metric == "average_precision"
    assert loaded(task(train_jsonl=SEVERAL)).main_metric == "average_precision"
