"""Predictions in files: each form is what its ending says, whole or not there, with the same columns in all."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import numpy as np
import pandas
import pyarrow.parquet as pq
import pytest

import bertkit
from bertkit.data.tables import read_table
from bertkit.inference import inputs, row_files
from bertkit.inference.options import EmbedOptions
from bertkit.inference.row_files import JsonList, ParquetRows, TextRows, json_lines, writing_rows
from bertkit.inference.writing import GrowingFile
from bertkit.runtime.errors import DataError, OutputError

FORMS = [".csv", ".jsonl", ".ndjson", ".json", ".parquet"]
TEXTS = ["a good film", "an awful plot", "a film", "the plot", "a good plot"]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("".join(f"{line}\n" for line in ("id,text", *(f"{n},{text}" for n, text in enumerate(TEXTS)))))
    return path


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of two inputs, and row groups of two rows."""
    monkeypatch.setattr(inputs, "BLOCK", 2)
    monkeypatch.setattr("bertkit.inference.files.inputs_at_once", lambda config: 2)
    monkeypatch.setattr(row_files, "ROW_GROUP", 2)


def written(path) -> pandas.DataFrame:
    if path.suffix == ".json":
        return pandas.DataFrame(json.loads(path.read_text()))
    if path.suffix in (".jsonl", ".ndjson"):
        return pandas.read_json(path, lines=True)
    return pandas.read_csv(path) if path.suffix == ".csv" else pandas.read_parquet(path)


@pytest.mark.parametrize("form", FORMS)
def test_a_file_is_what_its_ending_says(fine_tuned, table, tmp_path, small_blocks, form):
    out = tmp_path / f"out{form}"
    blocks = list(bertkit.predict(fine_tuned("film"), input_file=table, output_file=out))
    rows = [row for block in blocks for row in block.rows]
    found = written(out)
    assert [len(block.rows) for block in blocks] == [2, 2, 1]
    assert list(found["text"]) == TEXTS
    assert list(found["label"]) == [row["label"] for row in rows]
    assert list(map(int, found["id"])) == list(range(5))
    if form not in (".ndjson", ".csv"):  # the tool reads its own files
        assert list(read_table(str(out)).columns["text"]) == TEXTS
        again = bertkit.predict(fine_tuned("film"), input_file=out)
        assert [row["label"] for block in again for row in block.rows] == [row["label"] for row in rows]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", out.name]


@pytest.mark.parametrize(("kind", "options"), [("film", {}), ("intents", {}), ("intents", {"all_probabilities": True})])
def test_the_same_columns_wherever_there_are_columns(fine_tuned, table, tmp_path, kind, options):
    checkpoint, frame = fine_tuned(kind), pandas.read_csv(table)
    files = [tmp_path / "out.csv", tmp_path / "out.parquet"]
    for out in files:
        list(bertkit.predict(checkpoint, input_file=table, output_file=out, **options))
    bertkit.predict_folder(checkpoint, table, tmp_path / "folder", output_format="parquet", **options)
    files.append(tmp_path / "folder" / "in.csv.000000.parquet")
    frames = [written(out) for out in files] + [bertkit.load(checkpoint).predict(frame, **options)]
    columns = [list(each.columns) for each in frames]
    assert columns == [columns[0]] * len(columns)
    labels = 3 if kind == "film" else 15
    if kind == "film" or options:
        assert sum(name.startswith("probabilities.") for name in columns[0]) == labels
        assert "probabilities" not in columns[0]
    else:  # the ten most probable: one column
        [as_json, as_map, in_folder, in_frame] = [each["probabilities"][0] for each in frames]
        assert isinstance(in_frame, dict)
        assert list(in_frame) == list(json.loads(as_json)) == list(dict(as_map)) == list(dict(in_folder))
        assert len(in_frame) == 10


@pytest.mark.parametrize("form", [".json", ".parquet"])
def test_an_empty_file_is_a_valid_one(fine_tuned, tmp_path, form):
    (tmp_path / "in.txt").touch()
    out = tmp_path / f"out{form}"
    assert list(bertkit.predict(fine_tuned("film"), input_file=tmp_path / "in.txt", output_file=out)) == []
    assert len(written(out)) == 0


@pytest.mark.parametrize("form", [".json", ".parquet"])
def test_an_interrupted_prediction_leaves_complete_rows_aside(fine_tuned, table, tmp_path, small_blocks, form, capsys):
    out = tmp_path / f"out{form}"
    stream = bertkit.predict(fine_tuned("film"), input_file=table, output_file=out)
    next(stream)
    stream.close()
    assert not out.exists()
    (tmp_path / f"out{form}.partial").rename(out)
    assert list(written(out)["text"]) == TEXTS[:2]
    assert f"out{form}.partial: 2 complete rows" in capsys.readouterr().err


def test_a_fault_closes_the_list(fine_tuned, tmp_path, small_blocks):
    (tmp_path / "in.csv").write_text("text\na film\na plot\n \n")
    out = tmp_path / "out.json"
    with pytest.raises(DataError, match="line 4"):
        list(bertkit.predict(fine_tuned("film"), input_file=tmp_path / "in.csv", output_file=out))
    assert not out.exists()
    assert [row["text"] for row in json.loads((tmp_path / "out.json.partial").read_text())] == ["a film", "a plot"]


def test_vectors_of_more_numbers_than_an_array_of_lists_holds(checkpoint, tmp_path, monkeypatch):
    embedder = bertkit.load(checkpoint).embedder
    monkeypatch.setattr(row_files, "_NUMBERS_OF_LISTS", 3 * 32 + 1)
    bertkit.embed(checkpoint, tmp_path / "out.parquet", ["a good film", "the plot is lovely"], pooling="none")
    found = pq.read_table(tmp_path / "out.parquet")
    expected = embedder.embed(["a good film", "the plot is lovely"], EmbedOptions(pooling="none"))
    assert found["token"].to_pylist() == [token for text in expected for token in text.tokens]
    vectors = np.concatenate([text.vectors for text in expected])
    np.testing.assert_allclose(np.stack(found["embedding"].to_numpy()), vectors, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "message"), [("x.partial", "File exists"), ("x", "another process has written it")])
def test_no_file_that_is_there_is_taken(tmp_path, name, message):
    (tmp_path / name).write_text("mine")
    with pytest.raises(OutputError, match=message), GrowingFile(tmp_path / "x"):
        pass
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {name: "mine"}


@pytest.mark.parametrize(
    "writer_of", [lambda file: TextRows(file, json_lines), JsonList, lambda file: ParquetRows(file, False)]
)
def test_a_full_disk_ends_with_one_message(tmp_path, writer_of, monkeypatch):
    def work():
        with GrowingFile(tmp_path / "x") as file:
            writer = writer_of(file)
            monkeypatch.setattr(row_files, "ROW_GROUP", 1)
            writer.add([{"text": "a"}])
            kept.append((tmp_path / "x.partial").read_bytes())
            try:
                with file.adding(1) as stream:
                    stream.write(b"half ")
                    stream.flush()
                    stream.write(b"a li")  # is still in the buffer
                    raise OSError(errno.ENOSPC, "No space left on device")
            finally:
                writer.close()

    kept: list[bytes] = []
    with pytest.raises(OutputError, match=r"x\.partial: cannot be written: No space left"):
        work()
    assert (tmp_path / "x.partial").read_bytes() == kept[0]


def write(path, *blocks):
    with writing_rows(path, False, False) as add:
        for rows in blocks:
            add(rows)


def test_types_of_parquet_do_not_change_within_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr(row_files, "ROW_GROUP", 2)
    first = [{"n": 1, "x": None, "meta": '{"a": 1}'}, {"n": None, "x": 2.5, "meta": None}]
    write(tmp_path / "out.parquet", [*first, {"n": 3, "x": 1, "meta": 7}])
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.to_pydict() == {"n": [1, None, 3], "x": [None, 2.5, 1.0], "meta": ['{"a": 1}', None, "7"]}
    assert pq.ParquetFile(tmp_path / "out.parquet").num_row_groups == 2
    write(tmp_path / "mixed.parquet", [{"x": value} for value in (1, "a", "a", [1])])
    assert pq.read_table(tmp_path / "mixed.parquet")["x"].to_pylist() == ["1", "a", "a", "[1]"]
    for late, message in (({"n": "many"}, "column 'n': it has int64 in the rows before"), ({"new": 1}, "column 'new'")):
        name = tmp_path / f"{next(iter(late))}.parquet"
        for others in ([late], [late, late], [late, late, first[0]]):  # fewer rows than a group, one group, and more
            with pytest.raises(OutputError, match=message):
                write(name, first, others)
            assert pq.read_table(f"{name}.partial").num_rows == 2
            Path(f"{name}.partial").unlink()


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_later_column_without_a_name_is_refused(tmp_path, monkeypatch, form):
    monkeypatch.setattr(row_files, "ROW_GROUP", 1)
    with pytest.raises(OutputError, match="column '': it is not in the rows before"):
        write(tmp_path / f"out.{form}", [{"text": "a"}], [{"text": "b", "": 1}])


@pytest.mark.parametrize("form", FORMS)
def test_half_a_character_in_another_column_is_refused(fine_tuned, tmp_path, form):
    rows = [{"text": "a film", "note": "\ud83d"}]
    with pytest.raises(OutputError, match=r"a value contains an unpaired surrogate, \\ud83d, which is not a character"):
        bertkit.predict(fine_tuned("film"), rows, output_file=tmp_path / f"out{form}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("form", [".csv", ".parquet"])
def test_forms_of_annotation_tools_have_no_columns(fine_tuned, tmp_path, form):
    with pytest.raises(DataError, match="--as doccano: is JSON"):
        bertkit.predict(fine_tuned("entities"), ["a film"], output_file=tmp_path / f"out{form}", form="doccano")
