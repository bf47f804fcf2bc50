"""Rows → the texts of one of their columns: JSON lines, Parquet files, Arrow tables."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from bertkit.errors import DataError, did_you_mean, listed

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_BATCH_BYTES = 1 << 20
_MOST_ROWS_OF_A_BATCH = 1024
_MOST_FAULTS = 20
_LOOK_ON = 10_000  # lines after the first fault in which others are looked for


def json_texts(lines: Iterable[str], column: str, name: str) -> Iterator[str]:
    """The texts of JSON objects, one a line, in order; blank lines, and texts that are null or empty, are left out.

    Args:
        lines: from `decode_lines`.
        column: the key of the text.
        name: what messages call the file.

    Raises:
        DataError: a line holds no JSON object, or one without that key or with another type of value. The faults of
            the lines that follow the first one are named with it, by their number (1 is the first line).
    """
    faults: list[str] = []
    last = 0
    for number, line in enumerate(lines, 1):
        text = ""
        try:
            if line.strip():
                text = _text_of(line, column)
        except DataError as fault:
            last = last or number + _LOOK_ON
            faults.append(f"{name}: line {number}: {fault}")
        if faults and (len(faults) == _MOST_FAULTS or number >= last):
            break
        if text and not faults:
            yield text
    if faults:
        raise DataError(listed(faults))


def json_object(line: str, key: str) -> dict[str, Any]:
    """The JSON object that a line holds; ``key`` is one that messages name as an example.

    Raises:
        DataError: it is no JSON, or another value; the message does not name the line.
    """
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"no JSON ({error}); expected one object a line, such as {{{key!r}: …}}") from error
    if not isinstance(row, dict):
        raise DataError(f"{_shown(row)} is no JSON object; expected one object a line, such as {{{key!r}: …}}")
    return row


def _text_of(line: str, column: str) -> str:
    row = json_object(line, column)
    if column not in row:
        raise DataError(missing_column(column, list(row)))
    text = row[column]
    if text is None:
        return ""
    if not isinstance(text, str):
        raise DataError(f"{column!r} is {_shown(text)}; expected a string")
    try:
        text.encode()
    except UnicodeEncodeError as error:  # JSON can write half of a surrogate pair, which no UTF-8 can
        raise DataError(f"{column!r} holds \\u{ord(text[error.start]):04x} alone, which is no character") from error
    return text


def _shown(value: object) -> str:
    shown = json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= 40 else f"{shown[:40]}…"


def missing_column(column: str, columns: list[str]) -> str:
    """What a message says of rows without the wanted column."""
    near = did_you_mean(column, columns) or "; name the one that holds the text (--text-column)"
    return f"no column {column!r}; there is {', '.join(map(repr, columns)) or 'none'}{near}"


def parquet_texts(file: Path | IO[bytes], column: str, name: str, reached: Callable[[float], None]) -> Iterator[str]:
    """The texts of a Parquet file, in order; those that are null or empty are left out.

    Only that column is read, by batches of about 1 MiB, whatever the size of the row groups.

    Args:
        file: where it is, or an open file that can be sought in.
        column: the text's.
        name: what messages call the file.
        reached: told with each batch which share of the rows is read, in [0, 1].

    Raises:
        DataError: it is no Parquet file, is damaged, or has no such column of strings.
    """
    first = 0
    for batch in parquet_batches(file, name, reached, column):
        yield from arrow_texts(batch.column(0), column, name, first)
        first += batch.num_rows


def parquet_batches(
    file: Path | IO[bytes], name: str, reached: Callable[[float], None], column: str | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file, in order, by batches of about 1 MiB, whatever the size of the row groups.

    Args:
        file: where it is, or an open file that can be sought in.
        name: what messages call the file.
        reached: told with each batch which share of the rows is read, in [0, 1].
        column: the only one to read; None reads all.

    Raises:
        DataError: it is no Parquet file, is damaged, or has no such column.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Without a buffer, and with pre-buffering, whole row groups would be held in memory.
        with pq.ParquetFile(file, buffer_size=_BATCH_BYTES, pre_buffer=False) as opened:
            columns = opened.schema_arrow.names
            if column is not None and column not in columns:
                raise DataError(f"{name}: {missing_column(column, columns)}")
            wanted = None if column is None else [column]
            done = 0
            for batch in opened.iter_batches(_rows_of_a_batch(opened.metadata), columns=wanted, use_threads=False):
                done += batch.num_rows
                reached(done / opened.metadata.num_rows)
                yield batch
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno:  # its own words are wrapped in those of Arrow
            raise DataError(f"{name}: cannot be read: {os.strerror(error.errno)}") from error
        reason = str(error).split("\n")[0]
        raise DataError(f"{name}: no Parquet file, damaged or cut off ({reason}); fetch or write it again") from error


def _rows_of_a_batch(metadata: pq.FileMetaData) -> int:
    size = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    return max(1, min(_MOST_ROWS_OF_A_BATCH, _BATCH_BYTES * metadata.num_rows // max(1, size)))


def arrow_texts(column: pa.Array | pa.ChunkedArray, name: str, of: str, first: int) -> Iterator[str]:
    """The texts of an Arrow column, in order; those that are null or empty are left out.

    Args:
        column: ``name``'s values.
        name: the column's.
        of: what messages call the file or set.
        first: number of the first row, from 0; messages count from 1.

    Raises:
        DataError: the column is none of strings, or a string is not UTF-8.
    """
    import pyarrow as pa

    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    is_text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null)
    if not any(is_kind(kind) for is_kind in is_text):
        raise DataError(f"{of}: row {first + 1}: column {name!r} holds {kind}; expected strings")
    for row, value in enumerate(column, first + 1):
        try:
            text = value.as_py()
        except UnicodeDecodeError as error:
            raise DataError(f"{of}: row {row}: {name!r} is not UTF-8 at byte {error.start} of it") from error
        if text:
            yield text
