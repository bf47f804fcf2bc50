"""Text of large tables on disk: the same values, rows, places and data sets as in memory."""

from __future__ import annotations

import errno
import json
import tempfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertkit.data.tables import Table, read_table, stored_columns, table_files
from bertkit.data.tables.stored_columns import StoredColumn, join_parts
from bertkit.runtime.errors import DataError, OutputError
from bertkit.tasks.classification.settings import DataSettings, TaskSettings
from bertkit.tasks.classification.task import ClassificationTask
from bertkit.tasks.splits import ColumnsOf, Split

TEXTS = ["a", "b", None, "c", "d", "e", "f"]


@pytest.fixture
def small(monkeypatch):
    """Three rows are many, and two texts are not few."""
    monkeypatch.setattr(table_files, "ROWS_AT_ONCE", 3)
    monkeypatch.setattr(stored_columns, "_FEW_VALUES", 1)


def parts(*columns: dict) -> list[Table]:
    return [Table(each, "x", "", first_row=3 * number) for number, each in enumerate(columns)]


@pytest.fixture
def stored(small) -> StoredColumn:
    column = join_parts(iter(parts({"text": TEXTS[:3]}, {"text": TEXTS[3:6]}, {"text": TEXTS[6:]}))).columns["text"]
    assert isinstance(column, StoredColumn)
    return column


def test_labels_of_parquet_are_kept_once(tmp_path, monkeypatch):
    monkeypatch.setattr(table_files, "ROWS_AT_ONCE", 3)
    labels = [("a long label", "another one", None)[row % 3] for row in range(60)]
    pq.write_table(pa.table({"text": [f"t{row}" for row in range(60)], "label": labels}), tmp_path / "x.parquet")
    column = read_table(tmp_path / "x.parquet").columns["label"]
    assert column == labels
    assert len(set(map(id, column))) == 3


def test_a_stored_column_reads_like_a_list(stored):
    assert list(stored) == TEXTS
    assert len(stored) == 7
    assert [stored[row] for row in range(-7, 7)] == TEXTS + TEXTS
    assert [stored[:], stored[2:5], stored[::-3]] == [TEXTS, TEXTS[2:5], TEXTS[::-3]]
    assert stored.to_arrow().to_pylist() == TEXTS
    for row in (7, -8):
        with pytest.raises(IndexError, match="of 7"):
            stored[row]


def test_a_part_without_a_column_has_missing_values(small):
    table = join_parts(iter(parts({"a": ["1", "2", "3"]}, {"b": ["4", "5", "6"]})))
    assert {name: list(values) for name, values in table.columns.items()} == {
        "a": ["1", "2", "3", None, None, None],
        "b": [None, None, None, "4", "5", "6"],
    }


def test_values_that_are_not_text_stay_in_memory(small):
    table = join_parts(iter(parts({"n": [1, 2, 3], "one": ["x"] * 3}, {"n": [4.5, None, "y"], "one": ["x"] * 3})))
    assert table.columns == {"n": [1, 2, 3, 4.5, None, "y"], "one": ["x"] * 6}


def write(path, form):
    rows = [{"text": f"text {number}", "label": "no yes".split()[number % 2]} for number in range(20)]
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        path.write_text("text,label\n" + "".join(f"{row['text']},{row['label']}\n" for row in rows))


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_task_gets_the_same_rows_from_disk(tmp_path, monkeypatch, form):
    path = tmp_path / f"rows.{form}"
    write(path, form)
    data = DataSettings(train_file=str(path), split_seed=3)
    _, whole = ClassificationTask(TaskSettings(), data).load(["train", "validation"])
    monkeypatch.setattr(table_files, "ROWS_AT_ONCE", 3)
    monkeypatch.setattr(stored_columns, "_FEW_VALUES", 2)
    assert isinstance(read_table(path).columns["text"], StoredColumn)
    _, splits = ClassificationTask(TaskSettings(), data).load(["train", "validation"])
    for name, split in splits.items():
        assert split.examples[:] == whole[name].examples[:]
        assert split.fingerprint == whole[name].fingerprint
        assert [split.place(row) for row in (0, 1)] == [whole[name].place(row) for row in (0, 1)]
        assert list(ColumnsOf(split.examples).each("text")) == whole[name].examples["text"][:]


def test_faults_of_a_stored_table_have_their_lines(tmp_path, small):
    path = tmp_path / "rows.csv"
    path.write_text("text,label\n" + "".join(f"t{number},a\n" for number in range(7)) + ",a\nt,b\n")
    with pytest.raises(DataError, match=r"rows\.csv, line 9: text is empty"):
        ClassificationTask(TaskSettings(), DataSettings(train_file=str(path))).load(["train"])


def test_a_full_disk_is_said(small, monkeypatch):
    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(OutputError, match="No space left"):
        join_parts(iter(parts({"text": ["a", "b", "c"]}, {"text": ["d"]})))


def test_rows_are_selected_without_reading_them(stored):
    split = Split.of_table({"text": stored}, Table({"text": stored}, "x", "")).select([5, 0])
    assert split.examples["text"][:] == ["e", "a"]
    assert [split.place(row) for row in (0, 1)] == ["row 6", "row 1"]


@pytest.mark.parametrize("second", [[5, 6], [5, 8]])
def test_lines_are_those_of_the_parts(second):
    tables = [Table({"a": ["x", "y"]}, "x", "", lines=lines) for lines in ([3, 4], second)]
    assert list(join_parts(iter(tables)).numbers_of_rows) == [3, 4, *second]
