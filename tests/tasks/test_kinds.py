"""Behaviour of several kinds of task: columns in any case, test sets without labels, rankings."""

from __future__ import annotations

import numpy as np
import pytest

from bertkit.data.tables import read_table
from bertkit.inference.outcome import task_inference
from bertkit.tasks.registry import TASKS

from .conftest import json_lines

TEXTS = "text,label\na film,pos\na plot,neg\n"
SEVERAL = "text,label\na film,x;y\na plot,x\n"
CHOICES = "context,ending0,ending1,label\na,b,c,0\nd,e,f,1\n"
PASSAGES = "query,passage,label\nq,a,1\nq,b,0\n"
TAGS = "a B-X\nb O\n"


@pytest.mark.parametrize(
    ("kind", "of_training", "other", "rows", "note"),
    [
        (
            "classification",
            "ID,Body ,Category",
            "id,body,CATEGORY",
            "1,a,x\n2,b,y\n",
            "texts in 'Body ', labels in 'Category'",
        ),
        ("multiple_choice", "context,ending0,ending1,label", "CONTEXT,Ending0,ENDING1,LABEL", "a,b,c,1\n", None),
        ("reranking", "QUERY,PASSAGE,NEGATIVE", "query,passage,negative", "q,a,b\n", "negatives in 'NEGATIVE'"),
        ("reranking", "Query,Passage,Score", "query,PASSAGE,score", "q,a,1\nq,b,0\n", "relevance in 'Score'"),
        ("similarity", "Sentence1,Sentence2,Score", "sentence1,SENTENCE2,score", "a,b,1.5\nc,d,3\n", "scored_pairs"),
        ("similarity", "Query,Passage", "query,PASSAGE", "a,b\n", "pairs"),
        ("similarity", "Anchor,Positive,Negative", "anchor,POSITIVE,negative", "a,b,c\n", "triplets"),
        ("similarity", "Premise,Hypothesis,Label", "premise,HYPOTHESIS,label", "a,b,neutral\nc,d,entailment\n", "nli"),
    ],
)
def test_columns_are_found_in_any_case(task_of_files, tmp_path, kind, of_training, other, rows, note):
    """In the validation set and in inputs too, where the case may differ again."""
    files = {"train_csv": f"{of_training}\n{rows}", "validation_csv": f"{other}\n{rows}"}
    settled, splits = task_of_files(TASKS.task(kind), **files).load()
    train, validation = (
        {name: split.examples[name][:] for name in split.examples.column_names} for split in splits.values()
    )
    assert validation == train
    assert {*settled.columns_of(read_table(tmp_path / "validation.csv"))} == {*train} - {"labels"}
    assert note is None or note in splits["train"].notes[0]


@pytest.mark.parametrize(
    ("kind", "files"),
    [
        ("classification", {"train_csv": TEXTS, "test_csv": "text\na\nb\n"}),
        ("classification", {"train_csv": TEXTS, "test_csv": "text,label\na,\nb, \n"}),
        ("classification", {"train_csv": TEXTS, "test_jsonl": json_lines(text=["a", "b"], label=[None, None])}),
        ("classification", {"train_csv": SEVERAL, "label_separator": ";", "test_csv": "text,label\na,\nb,\n"}),
        ("multiple_choice", {"train_csv": CHOICES, "test_csv": "context,ending0,ending1\na,b,c\nd,e,f\n"}),
        ("multiple_choice", {"train_csv": CHOICES, "test_csv": CHOICES.replace(",0\n", ",\n").replace(",1\n", ",\n")}),
        ("multiple_choice", {"train_csv": CHOICES, "test_csv": CHOICES.replace(",0\n", ",-1\n").replace(",1", ",-1")}),
        ("reranking", {"train_csv": PASSAGES, "test_csv": "query,passage,label\na,b,\na,c, \n"}),
        ("ner", {"train_conll": TAGS, "test_conll": "a\n\nb\n"}),
        ("ner", {"train_conll": TAGS, "test_jsonl": json_lines(tokens=[["a"], ["b"]], ner_tags=[None, []])}),
        (
            "ner",
            {"train_conll": TAGS, "test_jsonl": json_lines(tokens=[["a", "b"], ["c"]], ner_tags=[["", None], [" "]])},
        ),
        ("ner", {"train_conll": TAGS, "test_jsonl": json_lines(text=["a b", "c"])}),
    ],
)
def test_a_test_set_may_lack_labels(task_of_files, kind, files):
    _, splits = task_of_files(TASKS.task(kind), **files).load(["train", "test"])
    assert "labels" in splits["train"].examples.column_names
    assert "labels" not in splits["test"].examples.column_names
    assert len(splits["test"].examples) == 2


@pytest.mark.parametrize(
    ("kind", "form", "content"),
    [
        ("classification", "csv", TEXTS),
        ("multiple_choice", "csv", CHOICES),
        ("reranking", "csv", PASSAGES),
        ("ner", "conll", TAGS),
    ],
)
def test_a_test_set_keeps_its_labels(task_of_files, kind, form, content):
    files = {f"train_{form}": content, f"test_{form}": content}
    _, splits = task_of_files(TASKS.task(kind), **files).load(["train", "test"])
    assert splits["test"].examples["labels"][:] == splits["train"].examples["labels"][:]


@pytest.mark.parametrize(
    ("kind", "files", "message"),
    [
        (
            "classification",
            {"train_csv": TEXTS, "test_csv": "text,label\na,pos\nb,\n"},
            "test.csv, line 3: no value for 'label'",
        ),
        (
            "multiple_choice",
            {"train_csv": CHOICES, "test_csv": CHOICES.replace(",1\n", ",\n")},
            "test.csv, line 3: label ''; expected the position of the correct ending, from 0 to 1",
        ),
        ("ner", {"train_conll": TAGS, "test_conll": "a\tO\nb\t\n"}, "test.conll, line 2: no tag"),
    ],
)
def test_a_test_set_with_some_labels_must_have_them_all(task_of_files, refusal, kind, files, message):
    assert refusal(task_of_files(TASKS.task(kind), **files), ["train", "test"]) == message


@pytest.mark.parametrize(
    ("kind", "train", "outputs"),
    [
        ("reranking", "query,passage,label\nq,a,0\nq,b,1\nr,c,1\nr,d,0\n", [[0.1], [0.5], [2.0], [-1.0]]),
        ("similarity", "query,passage\nx,y\nz,w\n", [[[1.0, 0.0], [1.0, 0.1]], [[0.0, 1.0], [0.3, 1.0]]]),
    ],
)
def test_perfect_rankings_are_no_collapse(task_of_files, kind, train, outputs):
    settled, splits = task_of_files(TASKS.task(kind), train_csv=train).load(["train"])
    examples = splits["train"].examples
    columns, outputs = {name: examples[name][:] for name in examples.column_names}, np.array(outputs)
    assert settled.score(outputs, columns, columns)["ndcg_at_10"] == 1
    assert task_inference(settled).collapse(outputs, columns, columns) is None
    assert task_inference(settled).collapse(np.ones_like(outputs), columns, columns)
