"""The rows of a file, one by one, from any row on: a row that cannot be read does not hide those after it.

Text is read as Latin-1, one character per byte, and each field is decoded as UTF-8 afterwards: so the place of every
row in bytes is known, and in a file of UTF-8 a byte that is not spoils its own row only. Files in other encodings are
recoded, or refused, by `bertkit.data.tables.encodings.as_utf8` before that.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import IO, Any, NamedTuple

from bertkit.data.reading.row_files import json_object, lone_surrogate
from bertkit.data.tables.delimited import LONGEST_FIELD, SAMPLED_LINES, TAB, faults_of_names, find_delimiter
from bertkit.data.tables.encodings import as_utf8
from bertkit.data.tables.sheets import sheet_parts
from bertkit.data.tables.table import repeated_names, with_names_first
from bertkit.data.tables.table_files import CSV, DELIMITERS
from bertkit.runtime.errors import DataError, raise_listed
from bertkit.runtime.progress import counted
from bertkit.runtime.reading.paths import JSON_LINES, TEXT, filesystem, workbook_and_sheet
from bertkit.runtime.reading.text import iterating

_BYTE_ORDER_MARK = b"\xef\xbb\xbf".decode("latin-1")
_ROWS_AT_ONCE = 1024  # of a sheet
_BLOCK = 1 << 16


class RawRow(NamedTuple):
    """A row before its text is decoded.

    Attributes:
        fields: its fields, or its whole line as the only one; a string is the reason why it cannot be read.
        line: the line it begins in, from 1.
        last_line: the line it ends in.
        end: bytes of the file up to its end.
    """

    fields: list[str] | str
    line: int
    last_line: int
    end: int


class Row(NamedTuple):
    """A row of a file.

    Attributes:
        values: its columns; a string is the reason why it cannot be read.
        row: its number in the file, from 1; in Excel that of the sheet.
        line: the line it begins in, from 1; None for Parquet and Excel.
    """

    values: dict[str, Any] | str
    row: int
    line: int | None


@contextmanager
def open_rows(
    path: str, packing: str, offset: int = 0, on_other: Callable[[str], object] | None = None
) -> Iterator[IO[str]]:
    """Yields the text of a file, decompressed and decoded as Latin-1 with its line endings, from a place on.

    Args:
        path: path or URL.
        packing: suffix of the compression, or empty.
        offset: bytes of the decompressed file, in UTF-8, to skip.
        on_other: as of `bertkit.data.tables.encodings.as_utf8`, by which the bytes become UTF-8; None for a file that
            is known to be UTF-8, whose bytes are taken as they are.

    Raises:
        DataError: the file cannot be read, also in the block.
    """
    import pyarrow as pa

    files, place = filesystem(path, path)
    try:
        with files.open(place, "rb", compression="gzip" if packing == ".gz" else None) as stored:
            stream = stored
            if packing == ".zst":
                stream = io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(stored, mode="r"), "zstd"))
            if on_other is not None:
                blocks = as_utf8(iter(partial(stream.read, _BLOCK), b""), path, on_other)
                stream = io.BufferedReader(_Blocks(blocks))
            if packing == ".zst" or on_other is not None:
                left = offset
                while left > 0 and (block := stream.read(min(left, 1 << 20))):
                    left -= len(block)
            else:
                stream.seek(offset)
            with io.TextIOWrapper(stream, encoding="latin-1", newline="") as text:
                yield text
    except DataError:
        raise
    except Exception as error:  # of gzip, zlib, Arrow and the clients of object stores
        raise unreadable(path, error) from error


class _Blocks(io.RawIOBase):
    """The bytes of blocks as a file."""

    def __init__(self, blocks: Iterator[bytes]):
        self._blocks, self._rest = blocks, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._rest = memoryview(block)
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


def unreadable(path: str, error: Exception) -> DataError:
    """Returns the error of a file that cannot be read."""
    reason = getattr(error, "strerror", None) or str(error).strip().split("\n")[0] or type(error).__name__
    return DataError(f"{path}: cannot be read: {reason}")


def find_layout(stream: IO[str], path: str, form: str) -> tuple[Iterator[str], tuple[str, ...], str, int, int]:
    """Reads what precedes the first row of CSV and TSV: a byte order mark, titles, and the names of the columns.

    Returns:
        The lines from the first row on; the names and the separator, none for other formats and for an empty file; and
        the bytes and the lines before the first row.

    Raises:
        DataError: the header is missing or cannot be read, no column has a name, or two have one name.
    """
    start = list(itertools.islice(stream, SAMPLED_LINES)) if form in DELIMITERS else []
    if not start:
        return stream, (), "", 0, 0
    delimiter = find_delimiter("".join(start).encode("latin-1").decode("utf-8-sig", "replace"), DELIMITERS[form])
    bare = start[0].removeprefix(_BYTE_ORDER_MARK)
    ahead, lines = itertools.tee(itertools.chain([bare, *start[1:]], stream))  # the names may be below titles
    raws: dict[int, RawRow] = {}

    def rows() -> Iterator[tuple[int, list[str]]]:
        for raw in _read_delimited(ahead, form, delimiter, len(start[0]) - len(bare), 0, True):
            raws[raw.line] = raw
            fields = raw.fields if isinstance(raw.fields, str) else _decode(raw.fields)
            if isinstance(fields, str) and raw.line == 1:
                raise DataError(f"{path}, line 1: the names of the columns cannot be read: {fields}")
            yield raw.line, [] if isinstance(fields, str) else fields

    line, names = next(with_names_first(rows(), f"{path}, line", width=2), (1, [""]))
    if names == [""]:
        raise DataError(f"{path}, line 1: empty; expected a header line with the names of the columns")
    raise_listed(faults_of_names(names, f"{path}, line {line}"))
    after = raws[line].last_line
    return itertools.islice(lines, after, None), tuple(names), delimiter, raws[line].end, after


def raw_rows(
    lines: Iterable[str], form: str, columns: tuple[str, ...], delimiter: str, offset: int, line: int
) -> Iterator[RawRow]:
    """Yields the rows of a stream of `open_rows`; a blank line is a row of text and of tables of one column only.

    Args:
        lines: from the start of a row on.
        form: suffix of the format.
        columns, delimiter: names of the columns of CSV and TSV, and their separator.
        offset, line: bytes and lines of the file before this position.
    """
    if delimiter:
        yield from _read_delimited(lines, form, delimiter, offset, line, len(columns) == 1)
        return
    for text in lines:
        offset, line = offset + len(text), line + 1
        if form == TEXT or text.strip():
            yield RawRow([text.rstrip("\r\n")], line, line, offset)


def _read_delimited(
    lines: Iterable[str], form: str, delimiter: str, offset: int, line: int, blank_rows: bool
) -> Iterator[RawRow]:
    def count_lines() -> Iterator[str]:
        nonlocal offset, line
        for text in lines:
            offset, line = offset + len(text), line + 1
            yield text

    if form != CSV and delimiter == TAB:  # quotes are plain characters
        for text in count_lines():
            bare = text.rstrip("\r\n")
            if bare or blank_rows:
                yield RawRow(bare.split(TAB), line, line, offset)
        return
    csv.field_size_limit(LONGEST_FIELD)
    reader = csv.reader(count_lines(), delimiter=delimiter, strict=True)
    while True:
        begins = line + 1
        try:
            fields: list[str] | str = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            fields = f"a quoted field is not closed, or text follows its closing quote ({error})"
            if line > begins:
                fields += f"; it takes all lines up to line {line}"
        if fields or blank_rows:
            yield RawRow(fields or [""], begins, line, offset)


def _decode(fields: list[str]) -> list[str] | str:
    try:
        texts = [field.encode("latin-1").decode() for field in fields]
    except UnicodeDecodeError as error:
        return f"not UTF-8: byte 0x{error.object[error.start]:02x}; mend the line, or save the file as UTF-8"
    if any("\0" in text for text in texts):
        return "it has a NUL byte; this is not text, or its encoding is UTF-16 or UTF-32"
    return texts


def decode_row(raw: RawRow, form: str, columns: tuple[str, ...]) -> dict[str, Any] | str:
    """Returns the columns of a row of text, or the reason why it cannot be read."""
    fields = raw.fields if isinstance(raw.fields, str) else _decode(raw.fields)
    if isinstance(fields, str):
        return fields
    if raw.line == 1 and not columns:
        fields = [fields[0].removeprefix("\ufeff")]
    if form == TEXT:
        return {"text": fields[0]}
    if form == JSON_LINES:
        try:
            values = json_object(fields[0], "text")
        except DataError as error:
            return str(error)
        half = lone_surrogate(values, fields[0])
        return f"it {half}" if half else values
    if len(fields) != len(columns):
        return f"{counted(len(fields), 'field')} where the header has {len(columns)}"
    return {name: value for name, value in zip(columns, fields, strict=True) if name}


def sheet_rows(path: str) -> Iterator[Row]:
    """Yields the rows of an Excel workbook: of the sheet named in ``FILE.xlsx#SHEET``, or the only one with rows.

    Raises:
        DataError: as `bertkit.data.tables.sheets.sheet_parts`, or the file cannot be opened.
    """
    files, place = filesystem(workbook_and_sheet(path)[0], path)
    try:
        stored = files.open(place, "rb")
    except Exception as error:  # of the clients of object stores
        raise unreadable(path, error) from error
    with stored, iterating(sheet_parts(path, _ROWS_AT_ONCE, may_be_empty=True, stored=stored)) as parts:
        for part in parts:
            for index, number in enumerate(part.lines or ()):
                yield Row({name: values[index] for name, values in part.columns.items()}, number, None)


def parquet_rows(path: str) -> int:
    """Returns the number of rows of a Parquet file; reads its footer only.

    Raises:
        DataError: it cannot be read, or two columns have one name.
    """
    with open_parquet(path) as file:
        raise_listed(repeated_names(file.schema_arrow.names, path))
        return int(file.metadata.num_rows)


@contextmanager
def open_parquet(path: str) -> Iterator[Any]:
    """Yields a Parquet file; DataError if it cannot be read, also in the block."""
    import pyarrow.parquet as pq

    files, place = filesystem(path, path)
    try:
        with files.open(place, "rb") as stored, pq.ParquetFile(stored, pre_buffer=False) as file:
            yield file
    except DataError:
        raise
    except Exception as error:  # of Arrow and the clients of object stores
        raise unreadable(path, error) from error


def arrow_row(batch: Any, index: int) -> dict[str, Any] | str:
    """Returns the columns of a row of an Arrow batch, or the reason why it cannot be read."""
    values = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            values[name] = column[index].as_py()
        except (ValueError, OverflowError) as error:  # such as text that is not UTF-8
            return f"{name!r} cannot be read ({error})"
    return values
