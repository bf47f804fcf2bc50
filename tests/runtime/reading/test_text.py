"""Files are closed by the code that reads them, also while its exception is alive: not by garbage collection."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bertkit.data.corpus.documents import DocumentForm
from bertkit.data.corpus.sources import find_sources
from bertkit.data.corpus.store.encoding import batch_paragraphs, encode_batches
from bertkit.data.tables.table_files import read_table, read_table_parts
from bertkit.inference.inputs import process_blocks, read_inputs
from bertkit.runtime.errors import DataError
from bertkit.runtime.reading.text import iterating
from bertkit.tasks.ner.sentences import read_conll

MUCH = 300_000  # lines: more than one block, so that the file is open when the fault is found
NOT_UTF8 = b"line\n" * MUCH + "čaj, caf".encode() + b"\xe9\n"
JSON = b"".join(json.dumps({"text": f"number {number}"}).encode() + b"\n" for number in range(MUCH))


def paragraphs(path: Path) -> None:
    for _ in find_sources([path])[0].paragraphs(DocumentForm()):
        pass


def lines(path: Path) -> None:
    for _ in find_sources([path])[0].lines():
        pass


def parts(path: Path) -> None:
    for _ in read_table_parts(path, 100, lambda share: None):
        pass


def inputs(path: Path) -> None:
    for _ in read_inputs(path):
        pass


def number_column(path: Path) -> None:
    for _ in find_sources([path], text_column="number")[0].lines():
        pass


def open_files(path: Path) -> list[str]:
    return [each.path for each in psutil.Process().open_files() if Path(each.path) == path]


@pytest.mark.parametrize(
    ("name", "content", "read"),
    [
        ("a.txt", NOT_UTF8, paragraphs),
        ("a.txt.gz", NOT_UTF8, paragraphs),
        ("a.txt.zst", NOT_UTF8, lines),
        ("a.txt", NOT_UTF8, inputs),
        ("a.jsonl.gz", JSON.replace(b"text", b"body"), paragraphs),
        ("a.jsonl", JSON.replace(b'"text"', b"text", 1), lines),
        ("a.jsonl.gz", b"[1]\n" + JSON, parts),
        ("a.csv.gz", b"a,b\n" + b"1,2,3\n" * MUCH, read_table),
        ("a.csv", b"a,b\n" + b"1,2,3\n" * MUCH, parts),
        ("a.tsv", NOT_UTF8, read_table),
        ("a.conll.gz", NOT_UTF8, read_conll),
        ("a.parquet", b"", number_column),
    ],
)
def test_faults_leave_no_file_open(tmp_path, name, content, read: Callable[[Path], object]):
    path = tmp_path / name
    if name.endswith(".parquet"):
        pq.write_table(pa.table({"number": range(MUCH)}), path)
    else:
        pack = {".gz": gzip.compress, ".zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True)}
        path.write_bytes(pack.get(path.suffix, bytes)(content))
    with pytest.raises(DataError) as caught:  # keeps the frames of the generators alive
        read(path)
    assert open_files(path) == []
    assert caught.value.__traceback__ is not None


@pytest.mark.parametrize("form", [".txt", ".jsonl", ".parquet", ".parquet.gz"])
def test_exceptions_of_callers_close_sources(tmp_path, form):
    path = tmp_path / f"a{form}"
    table = pa.table({"text": [f"number {number}" for number in range(MUCH)]})
    if form.startswith(".parquet"):
        pq.write_table(table, tmp_path / "a.parquet")
        path.write_bytes((gzip.compress if form.endswith(".gz") else bytes)((tmp_path / "a.parquet").read_bytes()))
    else:
        path.write_bytes(JSON)

    def fail(batch: object) -> None:
        raise RuntimeError("of the splitter")

    encoded = encode_batches(batch_paragraphs(find_sources([path])[0].paragraphs(DocumentForm())), fail)
    with pytest.raises(RuntimeError) as caught:
        next(encoded)
    assert open_files(path) == []
    assert caught.value.__traceback__ is not None


def test_exceptions_of_callers_close_inputs(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"line\n" * MUCH)

    def fail(*_: object) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full") as caught:
        next(process_blocks(read_inputs(path), "work", fail))
    assert open_files(path) == []
    assert caught.value.__traceback__ is not None


def test_iterating_closes_generators_only():
    closed = []

    def numbers():
        try:
            yield from range(3)
        finally:
            closed.append(True)

    with iterating(numbers()) as each:
        assert next(each) == 0
    assert closed == [True]
    with iterating([1, 2]) as each:
        assert list(each) == [1, 2]
