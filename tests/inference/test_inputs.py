"""Inputs in blocks: nothing is lost, doubled or reordered, wherever blocks end."""

from __future__ import annotations

import gzip
import io
import json
import os
from itertools import accumulate
from pathlib import Path
from threading import Thread

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertkit.data.tables import read_table
from bertkit.inference.inputs import Block, process_blocks, read_inputs, readable
from bertkit.runtime.errors import DataError
from bertkit.runtime.reading.text import read_text

LINES = st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n"), max_size=5), min_size=1)


class Trickle(io.BytesIO):
    """A pipe that gives so many bytes a time."""

    def __init__(self, data: bytes, size: int):
        super().__init__(data)
        self.size = size

    def read1(self, _):
        return super().read(self.size)


@given(lines=LINES, ending=st.sampled_from(["\n", "\r\n", "\r"]), ended=st.booleans(), size=st.integers(1, 4))
def test_lines_are_those_of_the_whole_text(tmp_path_factory, lines, ending, ended, size):
    path = tmp_path_factory.mktemp("lines") / "in.txt"
    path.write_text(ending.join(lines) + ending * ended, newline="", encoding="utf-8")
    whole = read_text(path)
    expected = whole.removesuffix("\n").split("\n") if whole else []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.TextIOWrapper(Trickle(path.read_bytes(), size)))
        compressed = path.with_suffix(".txt.gz")
        compressed.write_bytes(gzip.compress(path.read_bytes()))
        for source in (path, compressed, Path("-")):
            blocks = list(read_inputs(source, size))
            assert [line for block in blocks for line in block.inputs] == expected
            if not expected:
                continue
            assert all(1 <= len(block.inputs) <= size for block in blocks)
            ends = list(accumulate(len(block.inputs) for block in blocks))
            assert [block.first for block in blocks] == [0, *ends[:-1]]
            assert blocks[-1].total == (None if source == Path("-") else len(expected))


@pytest.mark.parametrize("name", ["in.csv", "in.tsv", "in.jsonl", "in.parquet"])
def test_parts_of_a_table_keep_rows_and_places(tmp_path, name):
    path, texts = tmp_path / name, [f"text {number}" for number in range(5000)]
    if name == "in.parquet":
        pyarrow.parquet.write_table(pyarrow.table({"text": texts}), path)
    elif name == "in.jsonl":
        path.write_text("".join(json.dumps({"text": text}) + "\n\n" for text in texts))
    else:
        delimiter = "\t" if name == "in.tsv" else ","
        path.write_text("".join(f"{text}{delimiter}{number}\n" for number, text in enumerate(["text", *texts])))
    whole = read_table(path)
    blocks = list(read_inputs(path, 700))
    assert all(len(block.inputs) <= 700 for block in blocks)
    assert len(blocks) >= 5000 / 700
    assert [text for block in blocks for text in block.inputs.column("text")] == whole.column("text")
    places = [block.inputs.place(row) for block in blocks for row in range(len(block.inputs))]
    assert places == [whole.place(row) for row in range(len(whole))]
    assert blocks[-1].total == 5000


def test_faults_of_a_part_are_reported_together(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("text,id\n" + "a,1\n" * 4 + "b\nc,1\nd,1,2\n")
    blocks = read_inputs(path, 2)
    assert [len(next(blocks).inputs), len(next(blocks).inputs)] == [2, 2]
    with pytest.raises(DataError, match=r"2 faults:\n  - .*line 6: 1 field where .*\n  - .*line 8: 3 fields where"):
        next(blocks)


def test_unreadable_files_are_refused_before_the_first_block(tmp_path):
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_inputs(tmp_path / "missing.txt")
    (tmp_path / "in.txt").write_bytes("čaj, caf".encode() + b"\xe9")
    with pytest.raises(DataError, match="not UTF-8 at byte offset 9"):
        read_inputs(tmp_path / "in.txt")


def test_a_named_pipe_is_read_to_its_end(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = Thread(target=(tmp_path / "pipe").write_text, args=("a film\nbad\n" * 3,))
    writer.start()
    blocks = list(read_inputs(tmp_path / "pipe", 4))
    writer.join()
    assert [block.inputs for block in blocks] == [["a film", "bad"] * 2, ["a film", "bad"]]
    assert {block.total for block in blocks} == {None}


def test_the_bar_counts_inputs_whatever_the_work_counts(monkeypatch):
    told = []
    monkeypatch.setattr("bertkit.runtime.progress.Bar.__call__", lambda self, done, total: told.append((done, total)))

    def work(block, reached):
        reached(3, 6)
        reached(6, 6)

    list(process_blocks([Block(["a", "b"], 0, 6), Block(["c", "d", "e", "f"], 2, 6)], "x", work))
    assert told == [(1, 6), (2, 6), (4, 6), (6, 6)]


@pytest.mark.parametrize("skipped", [None, []])
def test_a_fault_of_a_whole_table_is_not_looked_for_in_each_row(skipped):
    sizes = []

    def read(block):
        sizes.append(len(block.inputs))
        raise DataError("no column 'text'")

    with pytest.raises(DataError, match=r"^no column 'text'$"):
        readable(read, skipped)(Block(["a"] * 1000, 0, 1000))
    assert (sizes, skipped or []) == ([1000, 0], [])
