"""The task: what its settings refuse, where its data come from, and that all of its parts agree on real questions."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import BertTokenizer

from bertkit import load_recipe
from bertkit.data.tables import Table, read_table
from bertkit.inference.outcome import task_inference
from bertkit.runtime.errors import DataError
from bertkit.tasks.base import encoding_notes, with_optional_labels
from bertkit.tasks.encoding import encode_split
from bertkit.tasks.question_answering import task as question_answering
from bertkit.tasks.question_answering.task import DataSettings, QuestionAnsweringTask, TaskSettings
from bertkit.tasks.registry import task_of_recipe
from bertkit.tasks.splits import Split, hub_dataset

from .conftest import perfect_logits

SIGNS = [*(chr(code) for code in range(33, 127) if not chr(code).isupper()), "½"]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *SIGNS, *(f"##{sign}" for sign in SIGNS)]
TOKENIZER = BertTokenizer(vocab={word: index for index, word in enumerate(WORDS)})  # a token a letter


@pytest.mark.real
@pytest.mark.parametrize(("name", "negative"), [("dev-v1.1", False), ("dev-v2.0", True)])
def test_perfect_scores_are_scored_perfect(real_data, name, negative):
    """The first 400 questions, in windows of 384 letters; each text takes several."""
    file = str(real_data / "squad" / f"{name}.json")
    # Where a question is as long as it may be, 250 letters shared leave 3 new ones for a window.
    data = DataSettings(validation_file=file, max_eval_samples=400, max_query_length=128, doc_stride=250)
    task = QuestionAnsweringTask(TaskSettings(version_2_with_negative=negative, max_answer_length=250), data)
    split = task.load(["validation"])[1]["validation"]
    encoded, _ = encode_split(task, split, TOKENIZER)
    features, examples = encoded.to_dict(), split.examples.to_dict()
    assert len(features["length"]) > 2 * len(examples["id"])
    scores = task.score(perfect_logits(features), features, examples)
    assert scores["f1"] == 100
    assert scores["exact" if negative else "exact_match"] == 100
    if negative:
        assert scores["NoAns_total"] > 150
        assert scores["best_f1"] == 100
    first = task.decode(perfect_logits(features), features, examples)[0]
    assert first["answer"] == examples["answers"][0]["text"][0]
    assert first["start"] == examples["answers"][0]["answer_start"][0]


def test_checkpoint_answers_by_its_best_threshold(through_checkpoint):
    """No answer scores 2 more than the best span: at 0 there is none, at 3 there is one."""
    task = QuestionAnsweringTask(TaskSettings(version_2_with_negative=True), DataSettings())
    columns = {"question": ["q"], "context": ["x y"]}
    features = task.encode(columns, TOKENIZER)
    assert features["input_ids"][0] == TOKENIZER("q", "x y")["input_ids"]
    outputs = np.array([[2.0, 0, 0, 0, 0, 0]]), np.array([[0.0, 0, 0, 0, 0, 0]])
    (none,) = task.decode(outputs, features, columns)
    assert (none["answer"], none["start"], none["end"]) == ("", None, None)
    assert none["probability"] == none["no_answer_probability"] == pytest.approx(np.e**2 / (np.e**2 + 3))
    assert task_inference(task).format_prediction(none) == f"(no answer)\t{none['probability']:.4f}"
    untaught = {"eval_total": 4, "eval_NoAns_total": 2, "eval_best_f1": 50.0, "eval_best_f1_thresh": 0.0}
    assert (
        "predicting no answer for every question scores best on the validation set (F1 50.00)"
        in task.learn_from(untaught)[1]
    )
    assert task.learn_from(untaught)[0].settings.predict_threshold is None
    assert "uses threshold 5.0" in task.with_settings(predict_threshold=5.0).learn_from(untaught)[1]
    learnt, message = task.learn_from({**untaught, "eval_best_f1": 62.5, "eval_best_f1_thresh": 3.0})
    assert "exceeds the best span's by more than 3," in message
    assert task.settings.predict_threshold is None
    (found,) = through_checkpoint(learnt).decode(outputs, features, columns)
    assert (found["answer"], found["start"], found["end"]) == ("x", 0, 1)
    assert found["no_answer_probability"] == none["probability"]


def test_hub_set_is_read_without_files(monkeypatch):
    asked = []

    def load(name: str, config: str | None, split: str) -> Table:
        asked.append((name, config, split))
        answers = {"text": ["b"], "answer_start": [2]}
        return Table({"id": ["1"], "context": ["a b"], "question": ["q"], "answers": [answers]}, name, "f")

    monkeypatch.setattr(question_answering, "load_hub_table", load)
    for version, name in (("v1", "rajpurkar/squad"), ("v2", "rajpurkar/squad_v2")):
        task = task_of_recipe(load_recipe(f"finetune/squad/{version}"))
        _, found = task.load()
        assert asked[-2:] == [(name, None, "train"), (name, None, "validation")]
        assert hub_dataset(task) == (name, "default", "validation")
        assert found["train"].examples["answers"][0] == {"text": ["b"], "answer_start": [2]}
        # Every question has an answer, which 2.0 is not for.
        assert [note[:8] for note in found["train"].notes] == (["warning:"] if version == "v2" else [])
        assert found["validation"].notes == ()
    recipe = load_recipe("finetune/squad/v1", {"data.dataset_name": "org/own", "data.dataset_config": "de"})
    task_of_recipe(recipe).load(["validation"])
    assert asked[-1] == ("org/own", "de", "validation")


def test_answer_without_a_token_is_ignored_and_noted():
    task = QuestionAnsweringTask(TaskSettings(), DataSettings())
    answers = [{"text": ["\u200b"], "answer_start": [0]}, {"text": ["x"], "answer_start": [1]}]
    columns = {"id": ["1", "2"], "question": ["q", "q"], "context": ["\u200bx"] * 2, "answers": answers}
    features, _ = encode_split(task, Split(Dataset.from_dict(columns), "x", ""), TOKENIZER)
    assert features["start_positions"][:] == [-100, 3]
    (note,) = encoding_notes(task, features)
    assert note == "answers that no token covers, excluded from the loss: 1"
    assert encoding_notes(task, features.select([1])) == ()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"question": "q"}, "expected question and context, got question"),
        (
            {"question": ["a", "b"], "context": ["c"]},
            "2 questions, 1 context; expected one context for each question, or a text, not a list, for all",
        ),
    ],
)
def test_questions_and_contexts_must_fit(fields, expected):
    task = QuestionAnsweringTask(TaskSettings(), DataSettings())
    with pytest.raises(DataError, match=expected):
        task_inference(task).read_fields(fields)
    both = task_inference(task).read_fields({"question": ["a", "b"], "context": "c"})
    assert both == {"question": ["a", "b"], "context": ["c", "c"]}


def test_answers_are_items_and_outside_ones_are_none():
    task = QuestionAnsweringTask(TaskSettings(), DataSettings())
    ids = torch.zeros(3, 5, dtype=torch.int64)
    batch = {"start_positions": torch.tensor([0, 5, -1]), "end_positions": torch.tensor([1, 5, -1]), "input_ids": ids}
    assert task.count(batch) == 1
    assert set(task.label_columns) < batch.keys()


@pytest.mark.parametrize("answer", ["answer", "Answer"])
def test_a_csv_of_questions_is_read(tmp_path, answer):
    file = tmp_path / "qa.csv"
    file.write_text(f"Question,Context,{answer}\nwho?,a dog and a cat,a cat\n")
    task = QuestionAnsweringTask(TaskSettings(), DataSettings(train_file=str(file)))
    [example] = task.load(["train"])[1]["train"].examples
    assert (example["id"], example["answers"]) == ("1", {"text": ["a cat"], "answer_start": [10]})
    assert task.columns_of(read_table(file)) == {"question": ["who?"], "context": ["a dog and a cat"]}


def test_questions_without_answers_have_the_places_of_the_file(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text("question,context\nwho?,a dog\n")
    task = with_optional_labels(QuestionAnsweringTask(TaskSettings(), DataSettings(train_file=str(path))))
    assert task.load(["train"])[1]["train"].place(0) == "line 2"


def test_dropped_questions_do_not_move_the_places_of_others(tmp_path):
    rows = [
        {"question": "who?", "context": "a dog", "answers": {"text": ["dog"], "answer_start": [start]}}
        for start in (2, 0, 2)
    ]
    path = tmp_path / "train.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    task = QuestionAnsweringTask(TaskSettings(), DataSettings(train_file=str(path)))
    train = task.load(["train"])[1]["train"]
    assert [train.place(row) for row in range(len(train.examples))] == ["line 1", "line 3"]
