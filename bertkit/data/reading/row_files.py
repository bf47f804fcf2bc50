"""Rows → the texts of one column: JSON lines, Parquet files, Arrow tables."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from bertkit.runtime.errors import DataError, did_you_mean, listed, quoted, shown
from bertkit.runtime.reading.text import iterating

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

GIVE_TEXT_COLUMN = "; give the one that contains the text (--text-column)"

_BATCH_BYTES = 1 << 20
_MOST_ROWS_OF_A_BATCH = 1024
_MOST_FAULTS = 20
_LOOK_ON = 10_000  # lines after the first fault that are searched for more faults


def json_texts(lines: Iterable[str], column: str, name: str) -> Iterator[str]:
    """Yields the texts of JSON objects, one per line; skips blank lines and texts that are null or empty.

    Raises:
        DataError: a line is not a JSON object, lacks the key, or has a value that is not a string. The message also
            lists faults of the following lines (at most 20 in all), by line number from 1.
    """
    faults: list[str] = []
    last = 0
    with iterating(lines) as remaining:
        for number, line in enumerate(remaining, 1):
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
    """Parses a line as a JSON object; messages show ``key`` as an example of a key.

    Raises:
        DataError: the line is not valid JSON, not an object, or has a key twice; the message has no line number.
    """
    try:
        row = json.loads(line, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        raise DataError(f'not valid JSON ({error}); expected one object per line, such as {{"{key}": …}}') from error
    if not isinstance(row, dict):
        raise DataError(f'{shown(row)} is not a JSON object; expected one object per line, such as {{"{key}": …}}')
    return row


def unique_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Returns an object of JSON: the ``object_pairs_hook`` for what users give, of which `json` keeps the last value.

    Raises:
        DataError: a key occurs twice.

    >>> json.loads('{"text": "a", "text": "b"}', object_pairs_hook=unique_keys)
    Traceback (most recent call last):
    bertkit.runtime.errors.DataError: the key 'text' occurs twice in an object; keep one
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        times = Counter(name for name, _ in pairs)
        twice = next(name for name in times if times[name] > 1)
        raise DataError(f"the key {shown(twice)} occurs twice in an object; keep one")
    return found


def _text_of(line: str, column: str) -> str:
    row = json_object(line, column)
    if column not in row:
        raise DataError(missing_column(column, row, GIVE_TEXT_COLUMN))
    text = row[column]
    if text is None:
        return ""
    if not isinstance(text, str):
        raise DataError(f"{column!r} is {shown(text)}; expected a string")
    if half := lone_surrogate(text, line):
        raise DataError(f"{column!r} {half}")
    return text


def lone_surrogate(value: Any, written: str) -> str:
    """Returns the fault of a JSON value whose text has half of a surrogate pair; empty if it has none.

    JSON can contain half of a pair as an escape. It is not a character: neither UTF-8 nor a tokenizer accepts it.
    ``written`` is text that contains the value as JSON.

    >>> lone_surrogate("\\ud83d", r'"\\ud83d"')
    'contains an unpaired surrogate, \\\\ud83d, which is not a character; write the text again'
    """
    if "\\ud" not in written and "\\uD" not in written:  # saves time for most lines
        return ""
    return half_of_pair(json.dumps(value, ensure_ascii=False))


def half_of_pair(text: str) -> str:
    """Returns the fault of a text that has half of a surrogate pair; empty if it has none."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code = ord(error.object[error.start])
        return f"contains an unpaired surrogate, \\u{code:04x}, which is not a character; write the text again"
    return ""


def missing_column(column: str, columns: Collection[str], remedy: str = "") -> str:
    """Returns the fault of rows without a column: the columns that they have, and a similar one, else ``remedy``."""
    return f"no column {column!r}; available: {quoted(columns) or 'none'}{did_you_mean(column, columns) or remedy}"


def parquet_texts(
    file: Path | IO[bytes],
    column: str,
    name: str,
    on_progress: Callable[[float], None],
    groups: tuple[int, int] | None = None,
) -> Iterator[str]:
    """Yields the texts of a Parquet file in order; skips texts that are null or empty.

    Only this column is read, in batches as of `parquet_batches`. ``groups`` are the first and the end of those to read,
    None for all; messages count rows from the first that is read.

    Raises:
        DataError: the file is not a Parquet file, is damaged, or has no such column of strings.
    """
    first = 0
    with iterating(parquet_batches(file, name, on_progress, column, groups)) as batches:
        for batch in batches:
            yield from arrow_texts(batch.column(0), column, name, first)
            first += batch.num_rows


def parquet_batches(
    file: Path | IO[bytes],
    name: str,
    on_progress: Callable[[float], None] = lambda share: None,
    column: str | None = None,
    groups: tuple[int, int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a Parquet file in batches of at most 1,024 rows and about 1 MiB of all columns, independent of
    the size of the row groups.

    ``on_progress`` is called for each batch with the share of the rows that has been read, in [0, 1]; ``column`` is the
    only column to read, None for all; ``groups`` as for `parquet_texts`.

    Raises:
        DataError: the file is not a Parquet file, is damaged, or has no such column.
    """
    with _open_parquet(file, name) as opened:
        columns = opened.schema_arrow.names
        if column is not None and column not in columns:
            raise DataError(f"{name}: {missing_column(column, columns, GIVE_TEXT_COLUMN)}")
        chosen = range(*(groups or (0, opened.metadata.num_row_groups)))
        metadata = opened.metadata
        total = sum(metadata.row_group(group).num_rows for group in chosen)
        size = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
        done = 0
        for batch in opened.iter_batches(
            max(1, min(_MOST_ROWS_OF_A_BATCH, _BATCH_BYTES * metadata.num_rows // max(1, size))),
            row_groups=list(chosen),
            columns=None if column is None else [column],
            use_threads=False,
        ):
            done += batch.num_rows
            on_progress(done / total)
            yield batch


def rows_of_groups(file: Path, name: str) -> list[int]:
    """Returns the number of rows of each row group of a Parquet file; reads its footer only.

    Raises:
        DataError: the file is not a Parquet file, or is damaged.
    """
    with _open_parquet(file, name) as opened:
        return [opened.metadata.row_group(group).num_rows for group in range(opened.metadata.num_row_groups)]


@contextmanager
def _open_parquet(file: Path | IO[bytes], name: str) -> Iterator[pq.ParquetFile]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Without buffer_size, or with pre_buffer, whole row groups would be held in memory.
        with pq.ParquetFile(file, buffer_size=_BATCH_BYTES, pre_buffer=False) as opened:
            yield opened
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno:  # Arrow wraps the message of the system
            raise DataError(f"{name}: cannot be read: {os.strerror(error.errno)}") from error
        reason = str(error).split("\n")[0]
        raise DataError(
            f"{name}: not a Parquet file, damaged or truncated ({reason}); download or write it again"
        ) from error


def arrow_texts(values: pa.Array | pa.ChunkedArray, column: str, name: str, first: int) -> Iterator[str]:
    """Yields the texts of an Arrow column in order; skips texts that are null or empty.

    Messages say ``name``, that of the file or data set, the column and the row; ``first`` is the number of the first
    row, from 0.

    Raises:
        DataError: the column does not hold strings, or a string is not valid UTF-8.
    """
    import pyarrow as pa

    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    is_text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null)
    if not any(is_kind(kind) for is_kind in is_text):
        raise DataError(f"{name}: row {first + 1}: column {column!r} contains {kind}; expected strings")
    for row, value in enumerate(values, first + 1):
        try:
            text = value.as_py()
        except UnicodeDecodeError as error:
            raise DataError(f"{name}: row {row}: {column!r} is not UTF-8 at byte {error.start}") from error
        if text:
            yield text
