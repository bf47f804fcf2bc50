"""Splits of Hub data sets: which one is used for what, parts of splits, and what is refused."""

from __future__ import annotations

import json

import pytest

from bertkit.runtime.errors import DataError
from bertkit.tasks import table_data
from bertkit.tasks.classification.settings import DataSettings, TaskSettings
from bertkit.tasks.classification.task import ClassificationTask
from bertkit.tasks.question_answering.task import DataSettings as QuestionSettings
from bertkit.tasks.splits import hub_dataset
from tests.hub_server import HubServer

ROLES = ("train", "validation", "test")


@pytest.mark.parametrize(
    ("known", "given", "expected"),
    [
        ("train validation test", {}, {"train": "train", "validation": "validation", "test": "test"}),
        ("train dev", {}, {"train": "train"}),
        ("train dev", {"validation": "dev"}, {"train": "train", "validation": "dev"}),
        ("train test", {"validation": "test"}, {"train": "train", "validation": "test"}),  # and no test set
        ("train test", {"validation": "test[:50%]"}, {"train": "train", "validation": "test[:50%]"}),
        (
            "train validation test",
            {"train": "train+validation", "test": "test[:10]"},
            {"train": "train+validation", "test": "test[:10]"},
        ),
        ("all", {"train": "all[:80%]", "validation": "all[80%:]"}, {"train": "all[:80%]", "validation": "all[80%:]"}),
    ],
)
def test_a_split_has_one_use(known, given, expected):
    data = table_data.TableData(dataset_name="a/b", **{f"{use}_split": split for use, split in given.items()})
    assert data.splits_of(known.split(), ROLES) == expected


@pytest.mark.parametrize(
    ("settings", "given", "expected"),
    [
        (DataSettings, {"train_split": "train"}, "train_split: is for a Hub data set; give dataset_name"),
        (DataSettings, {"dataset_name": "a/b", "test_split": " "}, "test_split: expected a split such as train or"),
        (DataSettings, {"dataset_name": "a/b", "train_split": "x", "test_split": "x"}, "test_split: x is the train_sp"),
        (
            QuestionSettings,
            {"train_file": "x", "train_split": "train"},
            "train_split: is for a Hub data set; remove it",
        ),
    ],
)
def test_impossible_settings_are_refused(settings, given, expected):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text follows
        settings(**given)
    assert str(caught.value).startswith(expected)


@pytest.mark.parametrize(
    ("known", "given", "expected"),
    [
        (["dev", "extra"], {}, "no split 'train'; available: 'dev', 'extra'; give --train-split"),
        ([], {}, "no split 'train'; available: none; give --train-split"),
        (
            ["train"],
            {"validation_split": "train[90%:]"},
            "--validation-split takes the split train or a part of it; give --train-split for the rest, such as "
            "'train[:90%]' beside 'train[90%:]'",
        ),
    ],
)
def test_set_without_training_split_is_refused(hub, known, given, expected):
    hub({}, **{split: {} for split in known})
    with pytest.raises(DataError) as caught:
        DataSettings(dataset_name="org/x", **given).tables(ROLES)
    assert str(caught.value) == f"org/x: {expected}"


def test_model_card_names_the_scored_split(hub, monkeypatch):
    table = {"text": [f"text {number}" for number in range(40)], "label": ["x", "y"] * 20}
    hub({}, train=table, dev=table)
    monkeypatch.setattr(table_data, "check_disjoint", lambda *args: None)
    given = ClassificationTask(TaskSettings(), DataSettings(dataset_name="org/x", validation_split="dev"))
    assert hub_dataset(given.load()[0]) == ("org/x", "default", "dev")
    held_out = ClassificationTask(TaskSettings(), DataSettings(dataset_name="org/x", train_split="train[:50%]"))
    assert hub_dataset(held_out.load()[0]) == ("org/x", "default", "train[:50%]")


# ---- from a Hub -----------------------------------------------------------------------------------------------------

PROGRAM = """
import json, sys
from bertkit.runtime.errors import BertkitError
from bertkit.tasks.registry import TASKS

for kind, task, data in json.loads(sys.argv[1]):
    try:
        made = TASKS.task(kind)
        _, splits = made(made.Settings(**task), made.data_settings(**data)).load()
        print(json.dumps({name: [split.source, split.examples.to_dict()] for name, split in splits.items()}))
    except BertkitError as error:
        print(json.dumps(str(error)))
"""


def parquet(columns: dict, features: dict) -> bytes:
    import io

    import pyarrow.parquet as pq
    from datasets import Dataset, Features

    stream = io.BytesIO()
    pq.write_table(Dataset.from_dict(columns, features=Features(features)).with_format("arrow")[:], stream)
    return stream.getvalue()


@pytest.fixture
def load(with_hub):
    """``load((kind, task, data), …)`` loads tasks in another process; the sets have one file per split."""
    from datasets import ClassLabel, List, Value

    reviews = {"review": [f"text {row}" for row in range(40)], "mark": [row % 2 for row in range(40)]}
    kinds = {"review": Value("string"), "mark": ClassLabel(names=["bad", "good"])}
    spans = [[{"start": 0, "end": 3, "label": 1}], [], [{"start": 4, "end": 8, "label": 0}], []]
    span = {"start": Value("int64"), "end": Value("int64"), "label": ClassLabel(names=["LOC", "PER"])}
    choices = {"context": ["a", "b"], "endings": [["c", "d"], ["e", "f"]], "answer_id": [1, 0]}
    asked = [{"key": "1", "query": "q", "context": "a b", "found": {"text": ["b"], "answer_start": [2]}}]
    repositories = {
        "org/reviews": {"train.parquet": parquet(reviews, kinds), "test.parquet": parquet(reviews, kinds)},
        "org/spans": {
            "train.parquet": parquet(
                {"text": ["Ann left", "He saw", "Ann Oslo", "x"], "spans": spans},
                {"text": Value("string"), "spans": List(span)},
            )
        },
        "org/choices": {
            "train.parquet": parquet(
                choices,
                {
                    "context": Value("string"),
                    "endings": List(Value("string")),
                    "answer_id": ClassLabel(names=["first", "second"]),
                },
            )
        },
        "org/asked": {"train.jsonl": "\n".join(map(json.dumps, asked)).encode()},
    }
    with HubServer(repositories) as hub:
        yield lambda *calls: with_hub(hub.endpoint, PROGRAM, calls)


@pytest.mark.slow
def test_splits_may_be_parts(load):
    names = {"text_columns": ["review"], "label_column": "mark"}
    parts = {"train_split": "train[:75%]", "validation_split": "train[75%:]", "test_split": "test[5:8]"}
    reviews, shared, bad, far, empty = load(
        ("classification", names, {"dataset_name": "org/reviews", **parts}),
        ("classification", names, {"dataset_name": "org/reviews", **parts, "validation_split": "train[20:]"}),
        ("classification", names, {"dataset_name": "org/reviews", "train_split": "train[:90"}),
        ("classification", names, {"dataset_name": "org/reviews", "train_split": "train[:900%]"}),
        (
            "question_answering",
            {"id_column": "key", "question_column": "query", "answers_column": "found"},
            {"dataset_name": "org/asked", "train_split": "train[:1]", "validation_split": "train[1:]"},
        ),
    )
    assert {name: len(examples["labels"]) for name, (_, examples) in reviews.items()} == {
        "train": 30,
        "validation": 10,
        "test": 3,
    }
    assert reviews["test"][0] == "org/reviews (test[5:8])"
    assert reviews["test"][1]["review"] == ["text 5", "text 6", "text 7"]
    assert reviews["test"][1]["labels"] == [1, 0, 1]
    assert shared == (
        "org/reviews: 10 rows are in the train set (train[:75%]) and in the validation set (train[20:]); give parts "
        "without common rows, such as 'train[:90%]' and 'train[90%:]', with --train-split and --validation-split"
    )
    for message, split in ((bad, "train[:90"), (far, "train[:900%]")):
        assert message.startswith(f"org/reviews: split '{split}': expected the name of a split, a part of one such as")
    assert empty == "org/asked (train[1:]): no rows; give a larger part"


@pytest.mark.slow
def test_columns_and_classes_of_every_task(load):
    unnamed, choices, nameless, spans = load(
        ("classification", {}, {"dataset_name": "org/reviews"}),
        (
            "multiple_choice",
            {"label_column": "answer_id"},
            {"dataset_name": "org/choices", "train_split": "train[:1]", "validation_split": "train[1:]"},
        ),
        ("question_answering", {}, {"dataset_name": "org/asked", "validation_split": "train[:1]"}),
        ("ner", {}, {"dataset_name": "org/spans", "train_split": "train[:3]", "validation_split": "train[3:]"}),
    )
    assert unnamed.startswith("org/reviews (train): cannot tell which of its columns has the labels:\n  'review': ")
    assert choices["validation"][1]["labels"] == [0]
    assert "org/asked (train): no column 'question'; available: 'key', 'query', 'context', 'found'" in nameless
    assert "of the questions with --question-column" in nameless
    assert spans["train"][1] == {  # O, B-LOC, I-LOC, B-PER, I-PER
        "tokens": [["Ann", "left"], ["He", "saw"], ["Ann", "Oslo"]],
        "labels": [[3, 0], [0, 0], [0, 1]],
    }
