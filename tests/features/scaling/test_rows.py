"""Shards and their rows: every row of a file once, in order, whatever its neighbours are."""

from __future__ import annotations

import csv
import dataclasses
import errno
import gzip
import io
import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertkit.data.tables import read_table
from bertkit.features.scaling import inputs, shard_rows
from bertkit.features.scaling.inputs import Shard, find_inputs, shards_of
from bertkit.features.scaling.shard_rows import RowReader
from bertkit.runtime.errors import DataError


def cut(path, size):
    [file], _ = find_inputs(str(path))
    return shards_of(file, size)


def rows(path, size):
    reader = RowReader()
    return [row for shard in cut(path, size) for row in reader.rows(shard)]


@pytest.mark.parametrize("size", [1, 3, 7, 20, 100])
@pytest.mark.parametrize("name", ["b.csv", "part/c.jsonl", "part/d.parquet"])
def test_shards_have_the_rows_of_the_table(corpus, name, size):
    table = read_table(corpus / name)
    found = rows(corpus / name, size)
    assert [row.values for row in found] == [
        {column: values[at] for column, values in table.columns.items()} for at in range(len(table))
    ]
    assert [row.row for row in found] == list(range(1, len(table) + 1))
    assert [row.line for row in found] == (list(table.lines) if table.lines else [None] * len(table))


CELLS = [["id", "text", "naïve"], *([str(row), f"Café {row}, {row % 3 * 'wörd '}end", '"a"'] for row in range(9))]


def write_cells(path):
    """Writes the cells; the separator and the encoding are the first parts of the name."""
    if path.suffix == ".xlsx":
        from openpyxl import Workbook

        book = Workbook()
        for row in [CELLS[0], [], *CELLS[1:]]:
            book.active.append(row)
        book.create_sheet("empty")
        book.save(path)
        return
    separator, encoding = path.name.split(".")[:2]
    separator = {"semicolon": ";", "tab": "\t", "comma": ","}[separator]
    written = io.StringIO()
    csv.writer(written, delimiter=separator).writerows([["Of May", "", ""]] * ("title" in path.name) + CELLS)
    data = written.getvalue().encode(encoding)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


@pytest.mark.parametrize(
    "name",
    [
        "semicolon.utf-8.csv",
        "semicolon.utf-8-sig.tsv",
        "tab.cp1252.csv",
        "tab.utf-16.txt.csv",
        "comma.cp1252.csv.gz",
        "semicolon.utf-16-be.csv",
        "semicolon.utf-8.title.csv",
        "a.xlsx",
    ],
)
def test_other_separators_encodings_and_sheets(tmp_path, capsys, name):
    """The reader of folders gives the rows that the reader of single files gives, from any shard on, and says so."""
    write_cells(tmp_path / name)
    table = read_table(tmp_path / name)
    notes = capsys.readouterr().err
    assert table.columns["text"] == [text for _, text, _ in CELLS[1:]]
    expected = [{column: values[at] for column, values in table.columns.items()} for at in range(len(table))]
    found = rows(tmp_path / name, 4)
    assert [row.values for row in found] == expected
    assert [row.row if row.line is None else row.line for row in found] == list(table.lines)
    assert sorted(capsys.readouterr().err.splitlines()) == sorted(notes.splitlines())
    shards = cut(tmp_path / name, 2)
    last = RowReader()
    assert [row.values for row in last.rows(shards[-1])] == expected[-1:]
    assert [row.values for row in last.rows(shards[1])] == expected[2:4]
    last.close()
    assert [Shard.from_json(each) for each in map(dataclasses.asdict, shards)] == shards


def test_text_and_json_in_other_encodings(tmp_path):
    (tmp_path / "a.txt").write_bytes("Café\nnaïve\n".encode("utf-16"))
    (tmp_path / "b.jsonl").write_bytes('{"text": "Café"}\n{"text": "naïve"}\n'.encode("cp1252"))
    for name in ("a.txt", "b.jsonl"):
        assert [row.values["text"] for row in rows(tmp_path / name, 1)] == ["Café", "naïve"]


@pytest.mark.parametrize("size", [1, 2, 50])
@pytest.mark.parametrize("packed", [False, True])
def test_bad_rows_do_not_hide_the_others(tmp_path, size, packed):
    data = (
        b'\xef\xbb\xbfid,text\r\n1,"a, ""b""\r\nc"\r\n2,\xff\r\n\r\n3,x,y\r\n4,"ok"z\r\n5,\xc3\xa9\r\n6,"open\r\n\r\n'
    )
    path = tmp_path / ("x.csv.gz" if packed else "x.csv")
    path.write_bytes(gzip.compress(data) if packed else data)
    found = rows(path, size)
    assert [row.line for row in found] == [2, 4, 6, 7, 8, 9]
    assert [row.values for row in found if isinstance(row.values, dict)] == [
        {"id": "1", "text": 'a, "b"\r\nc'},
        {"id": "5", "text": "é"},
    ]
    reasons = [row.values for row in found if isinstance(row.values, str)]
    assert [reason.split(":")[0].split(" where")[0] for reason in reasons[:2]] == ["not UTF-8", "3 fields"]
    assert all("quoted field" in reason for reason in reasons[2:])
    assert reasons[-1].endswith("; it takes all lines up to line 10")


def test_lines_of_text_may_be_empty(tmp_path):
    (tmp_path / "x.txt").write_bytes(b"a\r\n\r\nb\rc")
    assert [row.values["text"] for row in rows(tmp_path / "x.txt", 2)] == ["a", "", "b", "c"]


def test_a_value_of_parquet_that_is_not_utf8(tmp_path):
    bad = pa.array([b"ok", b"\xff"]).view(pa.string())
    pq.write_table(pa.table({"text": bad}), tmp_path / "x.parquet")
    first, second = rows(tmp_path / "x.parquet", 5)
    assert first.values == {"text": "ok"}
    assert second.values.startswith("'text' cannot be read")


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("x.csv", b"\n", "x.csv, line 1: empty"),
        ("x.csv", b"\ntext;label\na;b\n", "x.csv, line 1: empty"),
        ("x.csv", b"a,a\n1,2\n", "2 columns are named 'a'"),
        ("x.jsonl.gz", b"no gzip", "x.jsonl.gz: cannot be read"),
        ("x.parquet", b"no parquet", "x.parquet: cannot be read"),
        ("x.xlsx", b"no workbook", "x.xlsx: not an Excel workbook"),
        ("x.csv", b"text\n\x81\x8d\x8f\x90\n", "line 2: not UTF-8, nor UTF-16, UTF-32 or Windows-1252"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=message):
        cut(tmp_path / name, 5)


def test_what_is_passed_over_is_counted(corpus):
    for name in ("a.JSON", "part/b.json", "c.bz2", "_SUCCESS", "part/.c.crc", "d.parquet.gz", "out/command.json"):
        (corpus / name).parent.mkdir(exist_ok=True)
        (corpus / name).touch()
    os.mkfifo(corpus / "pipe.csv")
    (corpus / "link.csv").symlink_to(corpus / "pipe.csv")
    files, passed_over = find_inputs(str(corpus), str(corpus / "out"))
    assert len(files) == 4
    assert passed_over == (
        "10 files passed over: 1 .bz2, 1 .gz, 2 .json, 1 .md, 2 hidden, 2 no regular file, 1 without suffix"
    )
    with pytest.raises(DataError, match=r"names no file that ends in .*; 1 file passed over: 1 without suffix"):
        find_inputs(f"{corpus}/_SUCC*")
    with pytest.raises(DataError, match=r"pipe\.csv: no regular file, but a pipe or a device"):
        find_inputs(f"{corpus}/pipe.csv")


def test_a_folder_that_cannot_be_listed_is_a_fault(corpus, monkeypatch):
    """Else its files would be left out without a word."""
    scandir = os.scandir

    def deny(path):
        if path == str(corpus / "part"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", deny)
    with pytest.raises(DataError, match=r"cannot be listed: .*Permission denied: .*/part"):
        find_inputs(str(corpus))


def test_a_hidden_file_is_read_if_it_is_named(corpus):
    assert [file.relative for file in find_inputs(f"{corpus}/.hidden.csv")[0]] == [".hidden.csv"]


def test_columns_of_parquet_with_one_name(tmp_path):
    pq.write_table(pa.Table.from_arrays([pa.array(["a"])] * 2, names=["text", "text"]), tmp_path / "x.parquet")
    with pytest.raises(DataError, match=r"x\.parquet: 2 columns are named 'text'"):
        cut(tmp_path / "x.parquet", 5)


def test_a_link_that_leads_nowhere_is_a_fault(tmp_path):
    (tmp_path / "x.csv").symlink_to(tmp_path / "none")
    [file], _ = find_inputs(str(tmp_path))
    with pytest.raises(DataError, match=r"x\.csv: cannot be read: No such file"):
        shards_of(file, 5)


@pytest.mark.parametrize("name", ["a/../../x.csv", "../x.csv", "a/../x.csv", "x\0.csv"])
def test_names_at_a_url_stay_below(monkeypatch, name):
    """Stores of objects take any name; results are written below the output folder under the same one."""
    found = {f"/bucket/in/{name}": {"size": 3, "type": "file", "name": name}}
    monkeypatch.setattr(inputs, "_list_files", lambda fs, path: (found, "/bucket/in"))
    with pytest.raises(DataError, match="leads out of the folder"):
        find_inputs("memory://bucket/in")


def test_a_file_that_became_shorter_is_a_fault(tmp_path):
    (tmp_path / "x.txt").write_text("a\nb\nc\n")
    (shard,) = cut(tmp_path / "x.txt", 5)
    (tmp_path / "x.txt").write_text("a\n")
    with pytest.raises(DataError, match="fewer rows"):
        list(RowReader().rows(shard))


def test_folders_patterns_and_urls_name_files(corpus):
    names = ["b.csv", "e.txt", "part/c.jsonl", "part/d.parquet"]
    assert [file.relative for file in find_inputs(str(corpus))[0]] == names
    assert [file.relative for file in find_inputs(f"file://{corpus}")[0]] == names
    assert [file.relative for file in find_inputs(f"{corpus}/*")[0]] == names
    assert [file.relative for file in find_inputs(f"{corpus}/**/*.parquet")[0]] == ["part/d.parquet"]
    assert [file.relative for file in find_inputs(f"{corpus}/b.csv")[0]] == ["b.csv"]


@pytest.mark.parametrize(("given", "output"), [("link", "in/out"), ("in", "link/out"), ("link/*", "in/out")])
def test_the_output_is_no_input_under_another_name(tmp_path, given, output):
    (tmp_path / "in" / "out").mkdir(parents=True)
    for name in ("a.csv", "out/a.csv.000000.jsonl"):
        (tmp_path / "in" / name).touch()
    (tmp_path / "link").symlink_to(tmp_path / "in", target_is_directory=True)
    assert [file.relative for file in find_inputs(f"{tmp_path}/{given}", f"{tmp_path}/{output}")[0]] == ["a.csv"]


@pytest.mark.parametrize("given", ["missing", "missing/*.csv", "nothing://bucket/x", "notes.md"])
def test_inputs_that_name_nothing(corpus, given):
    with pytest.raises(DataError, match="--input"):
        find_inputs(given if "://" in given else str(corpus / given))


@pytest.mark.parametrize("name", ["a.csv.gz", "a.jsonl.zst", "a.txt.gz", "a.parquet", "a.csv"])
def test_shards_in_any_order(tmp_path, monkeypatch, name):
    """A worker that gets every other shard reads a compressed file once, and a Parquet file by its row groups."""
    path = tmp_path / name
    rows = [{"text": f"t{number}"} for number in range(50)]
    if name.endswith("parquet"):
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=16)
    else:
        texts = ["text", *(row["text"] for row in rows)] if ".csv" in name else [row["text"] for row in rows]
        lines = "\n".join(map(json.dumps, rows) if ".jsonl" in name else texts).encode()
        path.write_bytes(gzip.compress(lines) if name.endswith("gz") else lines)
        if name.endswith("zst"):
            with pa.CompressedOutputStream(str(path), "zstd") as stream:
                stream.write(lines)
    shards = cut(path, 7)
    read = [row for shard in shards for row in RowReader().rows(shard)]
    assert [row.values["text"] for row in read] == [row["text"] for row in rows]
    opened = []
    for function in ("open_rows", "open_parquet"):
        real = getattr(shard_rows, function)
        monkeypatch.setattr(shard_rows, function, lambda *given, real=real: opened.append(given) or real(*given))
    reader = RowReader()
    for number in (1, 3, 4, 7):
        expected = [row for row in read if shards[number].first_row < row.row <= shards[number].first_row + 7]
        assert list(reader.rows(shards[number])) == expected
    assert len(opened) == (4 if name == "a.csv" else 1)
    assert list(reader.rows(shards[0])) == read[:7]
    assert len(opened) == (5 if name == "a.csv" else 2)
    reader.close()
