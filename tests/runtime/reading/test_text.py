"""Bytes → lines: the same in blocks of any size, faults with their place, and no file left open."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bertkit.data.corpus.documents import DocumentForm
from bertkit.data.corpus.sources import find_sources
from bertkit.data.corpus.store.encoding import batch_paragraphs, encode_batches
from bertkit.data.tables.table_files import read_table, read_table_parts
from bertkit.inference.inputs import process_blocks, read_inputs
from bertkit.runtime.errors import DataError
from bertkit.runtime.reading.text import decode_lines, decode_text, iterating, read_text
from bertkit.tasks.ner.sentences import read_conll


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        *[
            (
                data,
                f"not UTF-8 at byte offset {offset} .*if you know its encoding: iconv -f ENCODING -t utf-8 OLD > NEW",
            )
            for data, offset in ((b"caf\xe9 au lait", 3), (b"\xef\xbb\xbfcaf\xe9", 6), (b"cut off \xe4\xba", 8))
        ],
        *[
            ("plain".encode(mark), f"its mark is that of {mark.upper()}: convert it: iconv -f {mark} -t utf-8")
            for mark in ("utf-16", "utf-32")
        ],
        ("plain".encode("utf-16-le"), r"NUL byte at byte offset 1: .* UTF-16 or UTF-32; .*iconv -f ENCODING"),
        (b"\xef\xbb\xbfab\0", "NUL byte at byte offset 5"),
    ],
)
def test_what_is_no_utf8_is_refused_with_its_place_and_a_remedy(tmp_path, data, fault):
    file = tmp_path / "text.txt"
    file.write_bytes(data)
    with pytest.raises(DataError, match=rf"^{re.escape(str(file))}: .*{fault}"):
        read_text(file)


def in_blocks(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


@given(st.text(st.sampled_from("aé二😀 \r\n\ufeff"), max_size=40), st.integers(1, 9))
@example("a\r\nb\rc\n\n\r\r\n", 1)
@example("\ufeffa\r", 2)
def test_lines_do_not_depend_on_blocks(text, size):
    data = text.encode()
    lines = re.split("\r\n|\r|\n", text.removeprefix("\ufeff"))
    assert list(decode_lines(in_blocks(data, size), "x")) == lines
    assert decode_text(data, "x") == "\n".join(lines)


@given(st.binary(max_size=30).map(lambda data: data.replace(b"\0", b"\n")), st.integers(1, 9))
@example(b"ab\xe4\xba\n", 3)
@example(b"a\nb\n\xff\n\xff", 2)
def test_offsets_do_not_depend_on_blocks(data, size):
    try:
        data.decode()
    except UnicodeDecodeError as error:
        with pytest.raises(DataError, match=rf"not UTF-8 at byte offset {error.start}[ :]"):
            list(decode_lines(in_blocks(data, size), "x"))
    else:
        list(decode_lines(in_blocks(data, size), "x"))


def test_a_nul_byte_in_a_later_block():
    with pytest.raises(DataError, match="x: NUL byte at byte offset 7"):
        list(decode_lines([b"\xef\xbb\xbfa\n", b"b\n\0\n"], "x"))


# ---- files are closed by what reads them, also while its exception is alive: not by garbage collection ---------------

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
