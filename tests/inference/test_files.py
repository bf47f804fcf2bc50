"""Predicting from arguments, files and pipes: every line answered, in order, nothing overwritten."""

from __future__ import annotations

import csv
import io
import json
import random
import re
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

import bertkit
from bertkit.inference import files, inputs, predictor
from bertkit.inference.outcome import TaskInference, task_inference
from bertkit.inference.row_files import CsvRows
from bertkit.runtime.errors import DataError, OutputError


class Echo:
    """Stands for a checkpoint and its task: predicts the length of each text."""

    name = "echo"

    @property
    def task(self):
        return self

    def read_input(self, lines, first):
        if "broken" in lines:
            raise DataError(f"input {first + lines.index('broken')}: expected something else")
        return {"text": list(lines)}

    def columns_of(self, table):
        return {"review": table.column("review")}

    model = SimpleNamespace(device=SimpleNamespace(type="cpu"))

    def encode(self, columns):
        return columns

    def predict_encoded(self, columns, features, reached):
        assert features is columns
        (texts,) = columns.values()
        return [{"label": str(len(text)), "probability": 1.0, "probabilities": {"a": 0.5, "b": 0.5}} for text in texts]


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of two inputs."""
    monkeypatch.setattr(inputs, "BLOCK", 2)


@pytest.fixture(autouse=True)
def no_model(monkeypatch):
    monkeypatch.setattr(predictor, "load_task", lambda checkpoint, data: (Echo(), SimpleNamespace(num_labels=2)))
    monkeypatch.setattr(files, "build_predictor", lambda checkpoint, task, config, **_: task)


@task_inference.register(Echo)
class EchoInference(TaskInference):
    """Writes the label alone."""

    def format_prediction(self, prediction):
        return prediction["label"]


def labels(stream):
    return [(row["text"], row["label"]) for block in stream for row in block.rows]


def test_every_line_is_answered_empty_ones_too(tmp_path):
    path = tmp_path / "in.txt"
    path.write_text("one\n\nthree\r\nNA\n", newline="")
    assert labels(bertkit.predict("x", input_file=path)) == [("one", "3"), ("", "0"), ("three", "5"), ("NA", "2")]


def test_a_pipe_is_a_file_called_dash(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("a\nbé\n".encode())))
    assert labels(bertkit.predict("x", input_file=Path("-"))) == [("a", "1"), ("bé", "2")]


def test_texts_are_taken_as_they_are():
    assert labels(bertkit.predict("x", ["two words", " a\t"])) == [("two words", "9"), (" a\t", "3")]


# Options of a prediction for one text, and what is said of them.
IMPOSSIBLE = [
    ({"output_file": "there.jsonl"}, "exists"),
    ({"output_file": "missing/out.jsonl"}, "the folder .*missing does not exist"),
    ({"output_file": "begun.csv"}, r"begun\.csv\.partial holds the results of an interrupted run; move or delete it"),
    *[
        ({"output_file": name}, r"expected a name that ends in \.csv, \.jsonl")
        for name in ("out.tsv", "out.xlsx", "out.csv.gz", "out")
    ],
    ({"input_file": "t.csv"}, "not both"),
    ({"csv_safe": True}, r"--csv-safe is for --output FILE\.csv"),
    ({"csv_safe": True, "output_file": "out.jsonl"}, r"--csv-safe is for --output FILE\.csv"),
    *[
        ({"texts": None, "input_file": name}, f"{name}: echo does not read this kind of file; give a table")
        for name in ("x.conll", "x.IOB.gz")
    ],
]


@pytest.mark.parametrize(("options", "message"), IMPOSSIBLE)
def test_impossible_options_are_refused_before_any_work(tmp_path, monkeypatch, options, message):
    monkeypatch.setattr(files, "build_predictor", lambda *_, **__: pytest.fail("the model was loaded"))
    for name in ("there.jsonl", "begun.csv.partial", "x.conll", "x.IOB.gz"):
        (tmp_path / name).write_text("{}")
    paths = {key: tmp_path / value for key, value in options.items() if isinstance(value, str)}
    with pytest.raises((DataError, OutputError), match=message):
        bertkit.predict("x", **{"texts": ["a"], **options, **paths})


def test_tables_are_read_by_the_tasks_columns(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text('id,review\n1,"one, two"\n2,NA\n')
    ((rows, lines),) = bertkit.predict("x", input_file=path)
    assert [(row["review"], row["label"]) for row in rows] == [("one, two", "8"), ("NA", "2")]
    assert lines == ["8\tone, two", "2\tNA"]


def test_texts_may_be_in_a_file_with_bio_in_its_name(tmp_path):
    (tmp_path / "authors.bio.txt").write_text("one\n")
    assert labels(bertkit.predict("x", input_file=tmp_path / "authors.bio.txt")) == [("one", "3")]


def test_columns_with_numbers_for_names_are_kept(tmp_path, monkeypatch):
    """As pandas writes them for a table without names."""
    monkeypatch.setattr(Echo, "columns_of", lambda self, table: {"0": table.column("0")})
    (tmp_path / "in.csv").write_text("0,1\nsome text,7\n")
    list(bertkit.predict("x", input_file=tmp_path / "in.csv", output_file=tmp_path / "out.jsonl"))
    assert json.loads((tmp_path / "out.jsonl").read_text())["1"] == "7"


def test_a_line_for_a_terminal_is_one_line(tmp_path):
    (tmp_path / "in.csv").write_text('review\n"two\nlines"\n')
    assert [lines for _, lines in bertkit.predict("x", input_file=tmp_path / "in.csv")] == [["9\ttwo lines"]]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"label": "1"}, {"input_label": "1"}),
        ({"probability": "1"}, {"input_probability": "1"}),
        ({"probabilities.a": "1"}, {"input_probabilities.a": "1"}),
        ({"label": "1", "input_label": "2"}, {"input_label": "1", "input_input_label": "2"}),
        ({"input_label": "2", "label": "1"}, {"input_label": "1", "input_input_label": "2"}),
        ({"input_label": "2"}, {"input_input_label": "2"}),  # as in rows that have both
        ({"input_input_label": "3"}, {"input_input_input_label": "3"}),
        (
            {"probabilities": "1", "probabilities.x": "2"},
            {"input_probabilities": "1", "input_probabilities.x": "2"},
        ),
        (
            {"labels": "1", "input_text": "2", "input_": "3", "label.x": "4"},
            {"labels": "1", "input_text": "2", "input_": "3", "label.x": "4"},
        ),
    ],
)
@pytest.mark.parametrize("output", ["out.csv", "out.jsonl"])
def test_no_column_of_an_input_is_lost(tmp_path, monkeypatch, given, kept, output):
    """The first column is the text, of one letter."""
    monkeypatch.setattr(Echo, "columns_of", lambda self, table: {"text": table.column(next(iter(given)))})
    (tmp_path / "in.csv").write_text(f"{','.join(given)}\n{','.join(given.values())}\n")
    list(bertkit.predict("x", input_file=tmp_path / "in.csv", output_file=tmp_path / output))
    text = (tmp_path / output).read_text()
    (row,) = csv.DictReader(io.StringIO(text)) if output.endswith("csv") else [json.loads(text)]
    predicted = {name: value for name, value in row.items() if name not in kept}
    assert {name: row[name] for name in kept} == kept
    assert {name.partition(".")[0] for name in predicted} == {"label", "probability", "probabilities"}
    assert predicted["label"] == "1"


def test_nested_values_of_the_input_are_json_in_csv(tmp_path):
    rows = [{"review": "good", "meta": {"a": 1}}, {"review": "bad", "meta": {"b": [2]}}, {"review": "so"}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    list(bertkit.predict("x", input_file=tmp_path / "in.jsonl", output_file=tmp_path / "out.csv"))
    with (tmp_path / "out.csv").open(newline="") as file:
        found = [row["meta"] for row in csv.DictReader(file)]
    assert found == ['{"a": 1}', '{"b": [2]}', ""]


def test_a_column_that_csv_cannot_have_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(files, "inputs_at_once", lambda config: 2)
    rows = [{"review": "good"}, {"review": "bad"}, {"review": "so", "late": 1}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(OutputError, match=r"column 'late': .*--output FILE\.jsonl"):
        list(bertkit.predict("x", input_file=tmp_path / "in.jsonl", output_file=tmp_path / "out.csv"))
    assert "out.csv.partial: 2 complete rows" in capsys.readouterr().err
    assert len((tmp_path / "out.csv.partial").read_text().splitlines()) == 3


def test_blocks_are_smaller_with_very_many_labels(tmp_path, monkeypatch):
    config = SimpleNamespace(num_labels=inputs._OUTPUTS_AT_ONCE // 2)
    monkeypatch.setattr(predictor, "load_task", lambda checkpoint, data: (Echo(), config))
    (tmp_path / "in.txt").write_text("a\nb\nc\n")
    for given in ({"texts": ["a", "b", "c"]}, {"input_file": tmp_path / "in.txt"}):
        assert [len(block.rows) for block in bertkit.predict("x", **given)] == [2, 1]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
class TestBlocks:
    """On a GPU a thread reads and tokenizes the next block."""

    @pytest.fixture(autouse=True)
    def _device(self, device, monkeypatch):
        monkeypatch.setattr(Echo, "model", SimpleNamespace(device=SimpleNamespace(type=device)))

    def test_the_next_block_is_made_during_the_work_of_a_gpu(self, tmp_path, small_blocks, monkeypatch, device):
        (tmp_path / "in.txt").write_text("a\nbb\nccc\n")
        begun, predict = threading.Event(), Echo.predict_encoded

        def encode(self, columns):
            if "ccc" in columns["text"]:
                begun.set()
            return columns

        def waiting(self, columns, features, reached):
            is_begun = device == "cuda" or "ccc" in columns["text"]
            assert begun.wait(60 if is_begun else 0) is is_begun
            return predict(self, columns, features, reached)

        monkeypatch.setattr(Echo, "encode", encode)
        monkeypatch.setattr(Echo, "predict_encoded", waiting)
        found = labels(bertkit.predict("x", input_file=tmp_path / "in.txt"))
        assert found == [("a", "1"), ("bb", "2"), ("ccc", "3")]

    def test_a_stream_that_is_left_ends_its_thread(self, tmp_path, small_blocks):
        (tmp_path / "in.txt").write_text("a\n" * 50)
        stream = bertkit.predict("x", input_file=tmp_path / "in.txt")
        next(stream)
        stream.close()
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("bertkit")]

    def test_blocks_are_written_one_by_one(self, tmp_path, small_blocks):
        (tmp_path / "in.txt").write_text("a\nbb\nccc\n")
        for output, header in (("out.csv", 1), ("out.jsonl", 0)):
            stream = bertkit.predict("x", input_file=tmp_path / "in.txt", output_file=tmp_path / output)
            for expected in (["a", "bb"], ["ccc"]):
                assert [row["text"] for row in next(stream).rows] == expected
                written = (tmp_path / f"{output}.partial").read_text().splitlines()
                assert len(written) == header + (2 if expected == ["a", "bb"] else 3)
            assert list(stream) == []
            assert len((tmp_path / output).read_text().splitlines()) == header + 3
        assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.csv", "out.jsonl"]

    def test_a_fault_keeps_the_blocks_before(self, tmp_path, small_blocks, capsys):
        (tmp_path / "in.txt").write_text("a\nbb\nccc\nbroken\n")
        output = tmp_path / "out.jsonl"
        with pytest.raises(DataError) as caught:
            list(bertkit.predict("x", input_file=tmp_path / "in.txt", output_file=output))
        assert str(caught.value).splitlines() == [
            "input 4: expected something else",
            "--on-error skip leaves out 1 such input of 2",
            "The 2 inputs before it were processed.",
        ]
        assert not output.exists()
        kept = (tmp_path / "out.jsonl.partial").read_text()
        assert [json.loads(line)["text"] for line in kept.splitlines()] == ["a", "bb"]
        assert capsys.readouterr().err == f"{output}.partial: 2 complete rows\n"

    def test_a_fault_at_once_leaves_no_file(self, tmp_path):
        with pytest.raises(DataError, match=r"input 1: expected something else$"):
            list(bertkit.predict("x", ["broken"], output_file=tmp_path / "out.csv"))
        assert list(tmp_path.iterdir()) == []

    def test_invalid_bytes_are_named_after_the_lines_before(self, monkeypatch):
        """The lines come in two writes; the second holds a Latin-1 é as the third byte of line 4."""
        parts = iter([b"one\ntwo\n", b"three\nab\xe9\n"])

        class Pipe(io.RawIOBase):
            def readable(self):
                return True

            def readinto(self, room):
                part = next(parts, b"")
                room[: len(part)] = part
                return len(part)

        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(Pipe())))
        stream = bertkit.predict("x", input_file=Path("-"))
        assert labels([next(stream)]) == [("one", "3"), ("two", "3")]
        with pytest.raises(
            DataError, match=r"byte offset 16 \(line 4, byte 0xe9: .*\n.*The 2 inputs before it were processed"
        ):
            next(stream)

    def test_rows_with_neighbours_are_one_block(self, tmp_path, small_blocks, monkeypatch):
        monkeypatch.setattr(TaskInference, "reads_neighbours", True)
        (tmp_path / "in.csv").write_text("review\na\nb\nc\n")
        assert [len(block.rows) for block in bertkit.predict("x", input_file=tmp_path / "in.csv")] == [3]


# ---- text of strangers --------------------------------------------------------------------------------------------

SIGNS = ["=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠"]


def hostile_texts(number):
    rng = random.Random(17)
    parts = [*SIGNS, "a", " ", "1", '"', "'", ",", ";", "\x1b[31m", "\x1b]0;title\x07", "\x9b2J", "\x08", "\x7f", "é"]
    return ["".join(rng.choices(parts, k=rng.randint(1, 6))) for _ in range(number)]


@pytest.mark.parametrize("safe", [True, False])
def test_safe_csv_has_no_formulas(tmp_path, safe):
    texts = [*(f"{sign}1" for sign in SIGNS), *filter(str.strip, hostile_texts(60)), '=HYPERLINK("http://x")', "-0.5"]
    list(bertkit.predict("x", texts, output_file=tmp_path / "out.csv", csv_safe=safe))
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as stream:
        found = [row["text"] for row in csv.DictReader(stream)]
    if not safe:
        assert found == texts
    for text, cell in zip(texts, found, strict=True):
        assert cell in (text, f"'{text}")
        assert not safe or not cell.startswith(tuple(SIGNS))


def test_column_names_are_cells_and_numbers_stay():
    rows = [{"=x": -0.5, "probabilities": {"@y": -1.0, "z": 2}, "labels": ["=a"]}]
    header, values = csv.reader(CsvRows(True)(rows).splitlines())
    assert header == ["'=x", "probabilities.@y", "probabilities.z", "labels"]
    assert values == ["-0.5", "-1.0", "2", '["=a"]']


def test_lines_for_a_terminal_have_no_control_characters():
    texts = hostile_texts(60)
    lines = [line for block in bertkit.predict("x", texts) for line in block.lines]
    for text, line in zip(texts, lines, strict=True):
        label, shown = line.split("\t", 1)
        assert label == str(len(text))
        assert not re.search(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]", shown)
        assert re.sub(r"\\u([0-9a-f]{4})", lambda code: chr(int(code[1], 16)), shown) == text
