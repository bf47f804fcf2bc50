"""Predicting from arguments, files and pipes: every line answered, in order, nothing overwritten."""

from __future__ import annotations

import csv
import io
import json

import pytest

from bertkit.errors import DataError, OutputError
from bertkit.inference import files
from bertkit.inference.files import predict_texts, write_predictions


class Echo:
    """Stands for a checkpoint and its task: predicts the length of each text."""

    @property
    def task(self):
        return self

    def read_input(self, lines):
        return {"text": list(lines)}

    def columns_of(self, table):
        return {"review": table.column("review")}

    def shown(self, columns):
        return columns

    def line(self, prediction):
        return prediction["label"]

    def predict_columns(self, columns):
        (texts,) = columns.values()
        return [{"label": str(len(text)), "probability": 1.0, "probabilities": {"a": 0.5, "b": 0.5}} for text in texts]


@pytest.fixture(autouse=True)
def no_model(monkeypatch):
    monkeypatch.setattr(files, "load", lambda checkpoint: Echo())


def labels(outcome):
    rows, _ = outcome
    return [(row["text"], row["label"]) for row in rows]


def test_every_line_is_answered_empty_ones_too(tmp_path):
    path = tmp_path / "in.txt"
    path.write_text("one\n\nthree\r\nNA\n", newline="")
    assert labels(predict_texts("x", input_file=path)) == [("one", "3"), ("", "0"), ("three", "5"), ("NA", "2")]


def test_a_pipe_is_a_file_called_dash(monkeypatch):
    from pathlib import Path

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("a\nbé\n".encode())))
    assert labels(predict_texts("x", input_file=Path("-"))) == [("a", "1"), ("bé", "2")]


def test_a_pipe_that_is_not_utf8_is_refused(monkeypatch):
    from pathlib import Path

    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("b\xe9\n".encode("latin-1"))))
    with pytest.raises(DataError, match="standard input: not UTF-8 at byte offset 1"):
        predict_texts("x", input_file=Path("-"))


def test_texts_are_taken_as_they_are():
    assert labels(predict_texts("x", ["two words", ""])) == [("two words", "9"), ("", "0")]


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "in.txt").write_text("")
    with pytest.raises(DataError, match="no texts in it"):
        predict_texts("x", input_file=tmp_path / "in.txt")


def test_an_output_that_exists_or_cannot_be_is_refused_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "load", lambda checkpoint: pytest.fail("the model was loaded"))
    (tmp_path / "out.jsonl").write_text("mine")
    with pytest.raises(OutputError, match="exists"):
        predict_texts("x", ["a"], output_file=tmp_path / "out.jsonl")
    with pytest.raises(OutputError, match="there is no folder"):
        predict_texts("x", ["a"], output_file=tmp_path / "missing" / "out.jsonl")


def test_jsonl_has_one_object_a_line(tmp_path):
    write_predictions(tmp_path / "out.jsonl", [{"text": "é\n", "label": "a"}, {"text": "b", "label": "c"}])
    lines = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["é\n", "b"]
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]


def test_a_table_is_read_by_the_columns_of_the_task(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text('id,review\n1,"one, two"\n2,NA\n')
    rows, lines = predict_texts("x", input_file=path)
    assert [(row["review"], row["label"]) for row in rows] == [("one, two", "8"), ("NA", "2")]
    assert lines == ["8\tone, two", "2\tNA"]


def test_csv_has_a_column_for_every_probability(tmp_path):
    rows = [{"text": 'a "b", c', "labels": ["x", "y"], "probabilities": {"x": 0.75, "y": 0.5}}]
    write_predictions(tmp_path / "out.csv", rows)
    with (tmp_path / "out.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row == {"text": 'a "b", c', "labels": '["x", "y"]', "probabilities.x": "0.75", "probabilities.y": "0.5"}
