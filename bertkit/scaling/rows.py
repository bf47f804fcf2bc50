"""The rows of a range of a file, one by one: a row that cannot be read does not hide those after it.

Text is read as Latin-1, one character per byte, and each field is decoded as UTF-8 afterwards: so the place of every
row in bytes is known, and a byte that is not UTF-8 spoils its own row only.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

from bertkit.errors import DataError
from bertkit.reading.paths import JSON_LINES, TEXT, filesystem
from bertkit.reading.row_files import json_object, lone_surrogate

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_BYTE_ORDER_MARK = b"\xef\xbb\xbf".decode("latin-1")
_LONGEST_FIELD = 2**31 - 1  # the largest limit of the csv module


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
        row: its number in the file, from 1.
        line: the line it begins in, from 1; None for Parquet.
    """

    values: dict[str, Any] | str
    row: int
    line: int | None


@contextmanager
def opened(path: str, packing: str, offset: int = 0) -> Iterator[IO[str]]:
    """Yields the text of a file, decompressed and decoded as Latin-1 with its line endings, from a place on.

    Args:
        path: path or URL.
        packing: suffix of the compression, or empty.
        offset: bytes of the decompressed file to skip.

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
                _skip(stream, offset)
            else:
                stream.seek(offset)
            with io.TextIOWrapper(stream, encoding="latin-1", newline="") as text:
                yield text
    except DataError:
        raise
    except Exception as error:  # of gzip, zlib, Arrow and the clients of object stores
        raise unreadable(path, error) from error


def _skip(stream: IO[bytes], count: int) -> None:
    while count > 0 and (block := stream.read(min(count, 1 << 20))):
        count -= len(block)


def unreadable(path: str, error: Exception) -> DataError:
    """Returns the error of a file that cannot be read."""
    reason = getattr(error, "strerror", None) or str(error).strip().split("\n")[0] or type(error).__name__
    return DataError(f"{path}: cannot be read: {reason}")


def delimited_header(stream: IO[str], path: str, form: str) -> tuple[tuple[str, ...], int, int]:
    """Reads what precedes the first row: a byte order mark, and the names of the columns of CSV and TSV.

    Returns:
        The names, none for other formats and for an empty file; and the bytes and the lines before the first row.

    Raises:
        DataError: the header is missing or not UTF-8, or two columns have one name.
    """
    if form not in _DELIMITERS:
        return (), 0, 0
    first = next(stream, "")
    if not first:
        return (), 0, 0
    bare = first.removeprefix(_BYTE_ORDER_MARK)
    for raw in _delimited(itertools.chain([bare], stream), form, len(first) - len(bare), 0, False):
        fields = raw.fields if isinstance(raw.fields, str) else _decoded(raw.fields)
        if isinstance(fields, str):
            raise DataError(f"{path}, line 1: the names of the columns cannot be read: {fields}")
        names = tuple(fields)
        named = [name for name in names if name]
        if not named or len(set(named)) < len(named):
            raise DataError(f"{path}, line 1: expected one name for each column, each only once; found {list(names)}")
        return names, raw.end, raw.last_line
    raise DataError(f"{path}, line 1: empty; expected a header line with the names of the columns")


def raw_rows(stream: IO[str], form: str, columns: tuple[str, ...], offset: int, line: int) -> Iterator[RawRow]:
    """Yields the rows of a stream of `opened` in order; a blank line is a row of text and of tables of one column only.

    Args:
        stream: positioned at the start of a row.
        form: suffix of the format.
        columns: names of the columns of CSV and TSV.
        offset, line: bytes and lines of the file before this position.
    """
    if form in _DELIMITERS:
        yield from _delimited(stream, form, offset, line, len(columns) == 1)
        return
    for text in stream:
        offset, line = offset + len(text), line + 1
        if form == TEXT or text.strip():
            yield RawRow([text.rstrip("\r\n")], line, line, offset)


def _delimited(lines: Iterable[str], form: str, offset: int, line: int, blank_rows: bool) -> Iterator[RawRow]:
    begins = line
    read = [offset, line]

    def noted() -> Iterator[str]:
        for text in lines:
            read[0] += len(text)
            read[1] += 1
            yield text

    if form == ".tsv":
        for text in noted():
            bare = text.rstrip("\r\n")
            if bare or blank_rows:
                yield RawRow(bare.split("\t"), read[1], read[1], read[0])
        return
    csv.field_size_limit(_LONGEST_FIELD)
    reader = csv.reader(noted(), strict=True)
    while True:
        try:
            fields: list[str] | str = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            fields = f"a quoted field is not closed, or text follows its closing quote ({error})"
        if fields or blank_rows:
            yield RawRow(fields or [""], begins + 1, read[1], read[0])
        begins = read[1]


def _decoded(fields: list[str]) -> list[str] | str:
    try:
        texts = [field.encode("latin-1").decode() for field in fields]
    except UnicodeDecodeError as error:
        return f"not UTF-8: byte 0x{error.object[error.start]:02x}; convert the file with iconv"
    if any("\0" in text for text in texts):
        return "it has a NUL byte; this is not text, or its encoding is UTF-16"
    return texts


def decoded_row(raw: RawRow, form: str, columns: tuple[str, ...]) -> dict[str, Any] | str:
    """Returns the columns of a row of text, or the reason why it cannot be read."""
    fields = raw.fields if isinstance(raw.fields, str) else _decoded(raw.fields)
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
        return f"{len(fields)} field{'s' * (len(fields) != 1)} where the header has {len(columns)}"
    return {name: value for name, value in zip(columns, fields, strict=True) if name}


def parquet_rows(path: str) -> int:
    """Returns the number of rows of a Parquet file; reads its footer only.

    Raises:
        DataError: it cannot be read.
    """
    with open_parquet(path) as file:
        return int(file.metadata.num_rows)


@contextmanager
def open_parquet(path: str) -> Iterator[Any]:
    """Yields a Parquet file.

    Raises:
        DataError: it cannot be read, also in the block.
    """
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
