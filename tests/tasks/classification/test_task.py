"""Classification of anybody's table: what is found in it, refused, held out and kept."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest

from bertkit import BertConfig
from bertkit.inference.outcome import task_inference
from bertkit.runtime.errors import RecipeError
from bertkit.tasks.base import with_optional_labels
from bertkit.tasks.classification.settings import DataSettings, TaskSettings
from bertkit.tasks.splits import hub_dataset
from tests.tasks.conftest import json_lines

from .conftest import SEVERAL, many

TRAIN = "text,label\ngood film,pos\nbad film,neg\n"
NUMBERS = json_lines(text=[f"text {row}" for row in range(24)], label=[row / 4 for row in range(24)])


def test_rejected_rows_of_prodigy_are_not_trained_on(task):
    answers = ["accept", "reject", "accept", "ignore"] * 10
    texts, labels = [f"text {row}" for row in range(40)], ["yes" if row % 3 else "no" for row in range(40)]
    _, splits = task(train_jsonl=json_lines(text=texts, label=labels, answer=answers)).load()
    used = {row["text"] for split in splits.values() for row in split.examples}
    assert used == {text for text, answer in zip(texts, answers, strict=True) if answer == "accept"}
    assert {splits["train"].place(row) for row in range(3)} < {f"line {row}" for row in range(1, 41, 2)}


# ---- what the labels are --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("train", "problem", "names", "labels", "main_metric"),
    [
        (json_lines(text=["a", "b", "c"], label=["y", "n", "y"]), "single_label", ["n", "y"], [1, 0, 1], "accuracy"),
        (json_lines(text=["a", "b", "c"], label=[10, 9, 9]), "single_label", ["9", "10"], [1, 0, 0], "accuracy"),
        (json_lines(text=["a", "b"], label=["null", "NA"]), "single_label", ["NA", "null"], [1, 0], "accuracy"),
        (json_lines(text=["a", "b"], label=[True, False]), "single_label", ["False", "True"], [1, 0], "accuracy"),
        (json_lines(text=list("abc"), label=[1.0, 1, 0.0]), "single_label", ["0", "1"], [1, 1, 0], "accuracy"),
        (NUMBERS, "regression", [], [number / 4 for number in range(24)], "pearson"),
        (
            json_lines(text=["a", "b"], label=[["x", "y"], []]),
            "multi_label",
            ["x", "y"],
            [[1, 1], [0, 0]],
            "average_precision",
        ),
    ],
)
def test_problem_and_classes_are_found_in_the_training_data(task, train, problem, names, labels, main_metric):
    unsettled = task(train_jsonl=train)
    found, splits = unsettled.load(["train"])
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


def test_names_that_are_given_set_the_order(task):
    found = task(train_csv=TRAIN, label_names=["pos", "neg"])
    assert found.load(["train"])[1]["train"].examples["labels"][:] == [0, 1]
    numbers = task(train_csv="text,label\na,1.5\nb,2.5\n", label_names=["2.5", "1.5"])
    assert numbers.load(["train"])[1]["train"].examples["labels"][:] == [1, 0]


@pytest.mark.parametrize(
    ("make", "wrong", "expected"),
    [
        (TaskSettings, {"text_columns": ["a", "b", "c"]}, "text_columns: expected one, or two for pairs, got a, b, c"),
        (TaskSettings, {"text_columns": ["a", "a"]}, "text_columns: expected two different columns for pairs, got a"),
        (TaskSettings, {"label_separator": ""}, "label_separator: expected at least one character"),
        (TaskSettings, {"label_separator": ",", "problem": "single_label"}, "label_separator: ',' is for several"),
        (TaskSettings, {"label_names": ["a"], "problem": "regression"}, "label_names: numbers have no classes"),
        (TaskSettings, {"label_names": ["a", "b", "a"]}, "label_names: expected each name once, got a, b, a"),
        (DataSettings, {"validation_fraction": 0.0}, "validation_fraction: expected more than 0, less than 1, got 0.0"),
        (DataSettings, {"data_dir": "x"}, "data_dir: tables are files"),
        (DataSettings, {"dataset_name": "org/x", "test_file": "t.csv"}, "or files; test_file is given too"),
        (DataSettings, {"dataset_config": "en"}, "dataset_config: is for a Hub data set; give dataset_name"),
    ],
)
def test_impossible_settings_are_refused(make, wrong, expected):
    with pytest.raises(ValueError, match=expected):
        make(**wrong)


# ---- faults ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {
                "train_csv": "text,label\ngood,pos\n,neg\n  ,pos\nNA,\n",
                "validation_csv": "text,label\na,pos\nb,other\nc,\n",
            },
            "4 faults:\n"
            "  - train.csv, line 3: text is empty; write a text, or remove the row (2 times, also line 4)\n"
            "  - train.csv, line 5: no value for 'label'\n"
            "  - validation.csv, line 4: no value for 'label'",
        ),
        (
            {"train_tsv": "sentence1\tsentence2\tlabel\na\t\t1\n \tb\t0\n"},
            "2 faults:\n"
            "  - train.tsv, line 3: sentence1 is empty; write a text, or remove the row\n"
            "  - train.tsv, line 2: sentence2 is empty; write a text, or remove the row",
        ),
        (
            {"train_csv": "text,label\na,pos\n,pos\n"},
            "2 faults:\n"
            "  - train.csv: every row has the label 'pos'; expected at least two classes\n"
            "  - train.csv, line 3: text is empty; write a text, or remove the row",
        ),
        (
            {"train_csv": "text,label\na,pos\nb,neg\n", "label_names": ["pos"]},
            "2 faults:\n"
            "  - task.label_names: only 'pos'; expected at least two classes\n"
            "  - train.csv, line 3: label 'neg' is not one of 'pos'",
        ),
        ({"train_jsonl": json_lines(text=["a", "b"], label=[[], []])}, "train.jsonl: no row has a label in 'label'"),
        (
            {"train_csv": "text,label\na,3\nb,3.0\n", "problem": "regression"},
            "train.csv: every row has the number '3'; expected at least two",
        ),
        (
            {"train_csv": "text,label\na,pos\nb,neg\n", "problem": "regression"},
            "2 faults:\n"
            "  - train.csv, line 2: 'label' is 'pos'; expected a number\n"
            "  - train.csv, line 3: 'label' is 'neg'; expected a number",
        ),
        (
            {"train_csv": "text,score\na,1.5\nb,\nc,2\n", "problem": "regression"},
            "train.csv, line 3: 'score' is ''; expected a number",
        ),
        ({"train_csv": "text,label\na,1.0\nb,\nc,0.0\n"}, "train.csv, line 3: no value for 'label'"),
        (
            {"train_csv": TRAIN, "label_names": ["pos", "negative"]},
            "train.csv, line 3: label 'neg' is not one of 'pos', 'negative'",
        ),
        (
            {"train_csv": "labels,sentiment\na,1\nb,0\n", "label_column": "sentiment"},
            "train.csv: a column of texts cannot be named 'labels'; rename it",
        ),
        (
            {"train_csv": many(), "validation_csv": "text,label\na,?\nb,?\nc,x\n"},
            "validation.csv: 3 of 3 rows have a class that is not in training: '?' 2, first in line 2; 'x' 1, first in "
            "line 4; expected 'neg', 'pos'",
        ),
        (
            {"train_jsonl": SEVERAL, "validation_jsonl": json_lines(text=["a"], labels=[["new"]])},
            "validation.jsonl: 1 of 1 rows has a class that is not in training: 'new' 1, first in line 1; expected "
            "'x', 'y'",
        ),
        (
            {"train_csv": many(count=8)},
            "train.csv: 8 examples are too few to hold out 0.1 of each class; give --validation-file, or a larger "
            "data.validation_fraction",
        ),
        (
            {"train_jsonl": json_lines(text=["a", "b"], label=[0.5, 1.5]), "problem": "regression"},
            "train.jsonl: 2 examples are too few to hold out 0.1 of them; give --validation-file, or a larger "
            "data.validation_fraction",
        ),
        (
            {"train_jsonl": json_lines(text=list("abcdefgh"), label=[f"2024-01-0{day}" for day in range(1, 9)])},
            "train.jsonl: 8 rows have 8 different labels; give the column of the classes with --label-column",
        ),
        *(
            (given, "no table to read; give --train-file (and --validation-file, --test-file), or --dataset-name")
            for given in ({}, {"validation_csv": TRAIN}, {"test_csv": TRAIN})
        ),
    ],
)
def test_data_that_cannot_be_trained_on_are_refused(task, refusal, given, expected):
    """All faults of all files are told at once."""
    assert refusal(task(**given)) == expected


def test_rows_of_a_class_that_training_has_not_are_counted_and_wrong(task):
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


def test_labels_that_training_has_not_are_left_out_of_rows_with_several(task):
    later = json_lines(text=["a", "b", "c"], labels=[["x", "new"], ["y"], ["new"]])
    _, splits = task(train_jsonl=SEVERAL, validation_jsonl=later, test_jsonl=later).load()
    for name in ("validation", "test"):
        assert splits[name].examples["labels"][:] == [[1, 0], [0, 1], [0, 0]]
        [note] = [note for note in splits[name].notes if note.startswith("warning: 2 of 3 rows have a class")]
        assert "'new' 2, first in line 1; such labels are left out, so the scores are too high" in note
    _, splits = task(train_jsonl=SEVERAL, validation_jsonl=json_lines(text=["a"], labels=[["x", "new"]])).load()
    assert splits["validation"].examples["labels"][:] == [[1, 0]]


def test_a_test_set_without_a_class_of_training_is_not_scored(task):
    """Placeholders in the place of labels, for example."""
    _, splits = task(train_csv=many(), test_csv="text,label\na,?\nb,?\nc,x\n").load()
    assert "labels" not in splits["test"].examples.column_names
    assert splits["test"].notes[-1].endswith("'?' 2, first in line 2; 'x' 1, first in line 4; so no row is scored")


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


def test_a_checkpoint_is_scored_on_the_rows_that_were_held_out_from_it(task, through_checkpoint, tmp_path):
    trained, splits = task(train_csv=many(), split_seed=7, validation_fraction=0.3).load()
    held = splits["validation"].examples["text"][:]
    later = through_checkpoint(trained, train_file=str(tmp_path / "train.csv"))
    assert later.load(["validation"])[1]["validation"].examples["text"][:] == held


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
    _, fresh = task(train_csv=TRAIN, validation_csv="text,label\nnew,pos\n").load()
    assert fresh["validation"].notes == ()
    line = "problem: single_label with 2 classes ('neg' 1, 'pos' 1), inferred from 2 labels: words"
    columns = "columns: texts in 'text', labels in 'label'"
    assert (splits["train"].notes, splits["train"].labels) == ((columns, line), line)


def test_a_pair_repeats_only_as_a_whole(task):
    header = "text_a,text_b,label\n"
    _, splits = task(train_csv=header + "a,b,1\nc,d,0\n", validation_csv=header + "a,d,1\nb,a,0\nc,d,1\n").load()
    assert "1 of 3 rows" in splits["validation"].notes[0]


def test_a_split_that_is_not_given_is_absent(task):
    assert task(train_csv=many()).load(["test"])[1] == {}
    assert list(task(train_csv=many()).load()[1]) == ["train", "validation"]


def test_rows_of_a_test_set_of_several_labels_may_have_none(task):
    train = "text,label\na,x;y\nb,x\n"
    some = task(train_csv=train, validation_csv=train, test_csv="text,label\na,\nb,y\n", label_separator=";")
    assert some.load()[1]["test"].examples["labels"][:] == [[0, 0], [0, 1]]


def test_a_set_of_the_hub_keeps_the_order_of_its_classes_and_minus_one_is_missing(hub, task):
    hub(
        {"label": ["zebra", "ant", "never"]},
        train={"text": ["a", "b"], "label": [1, 0]},
        validation={"text": ["c"], "label": [0]},
        test={"text": ["d"], "label": [-1]},
        extra={"text": ["d"], "label": [9]},
    )
    found, splits = task(dataset_name="org/x").load()
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
    found, splits = task(dataset_name="org/x").load(["train"])
    assert splits["train"].examples["labels"][:] == [[1, 1], [0, 0]]
    assert (found.settings.problem, found.settings.label_names) == ("multi_label", ["joy", "anger"])


# ---- the checkpoint -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("train", "problem_type", "id2label"),
    [
        (json_lines(text=["a", "b"], label=["y", "n"]), "single_label_classification", {0: "n", 1: "y"}),
        (json_lines(text=["a", "b"], label=[["y"], ["n"]]), "multi_label_classification", {0: "n", 1: "y"}),
        (NUMBERS.replace("label", "score"), "regression", {0: "score"}),
    ],
)
def test_a_checkpoint_knows_the_columns_and_classes(task, through_checkpoint, train, problem_type, id2label):
    trained, _ = task(train_jsonl=train, max_seq_length=77).load(["train"])
    config = BertConfig.from_dict(json.loads(BertConfig(**trained.config()).to_json_string()))
    assert (config.num_labels, config.problem_type, config.id2label) == (len(id2label), problem_type, id2label)
    assert config.label2id == {name: index for index, name in id2label.items()}
    later = through_checkpoint(trained)
    assert asdict(later.settings) == asdict(trained.settings)
    assert later.data.max_seq_length == 77
    assert later.data.train_file is None


def test_a_checkpoint_reads_tables_that_have_its_columns_only(task, through_checkpoint, tmp_path, refusal):
    trained = task(train_csv="body,text,kind\na,x,1\nb,x,2\n", text_columns=["body"], label_column="kind")
    trained, _ = trained.load(["train"])
    (tmp_path / "later.csv").write_text("body,label\nc,9\n")
    later = through_checkpoint(trained, test_file=str(tmp_path / "later.csv"))
    assert later.load(["test"])[1]["test"].examples.to_dict() == {"body": ["c"]}
    later = through_checkpoint(trained, validation_file=str(tmp_path / "later.csv"))
    assert refusal(later, ["validation"]) == (
        "later.csv: no column 'kind'; available: 'body', 'label'; rename those that are meant, or name them: "
        "`bertkit evaluate` has --text-column and --label-column"
    )


def test_a_checkpoint_reads_other_columns_that_are_given(task, through_checkpoint, tmp_path):
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
        with pytest.raises(RecipeError, match=rf"task\.text_columns: {wrong} is the name of the labels"):
            task_inference(later).with_columns({"text_columns": [wrong]})
