"""Rows as CSV, JSON and Parquet: predictions block by block in a file of their own, and one file at once."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.data.reading.row_files import half_of_pair
from bertkit.inference.writing import GrowingFile, Row
from bertkit.runtime.errors import OutputError
from bertkit.runtime.json_text import dumps

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

ROW_FILES = (".csv", ".jsonl", ".json", ".ndjson", ".parquet")
"""Endings of the files that `writing_rows` writes."""
ROW_GROUP = 8192
"""Rows of a row group of Parquet."""
_NUMBERS_OF_LISTS = (1 << 31) - 1  # of an array of lists, whose ends are int32
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def has_columns(path: Path) -> bool:
    """Returns whether a file of rows has columns, of values of one type each."""
    return path.suffix.lower() in (".csv", ".parquet")


@contextmanager
def writing_rows(path: Path, csv_safe: bool, leaves_out_labels: bool) -> Iterator[Callable[[Sequence[Row]], None]]:
    """Yields a function that adds rows to a new file, whose ending, one of `ROW_FILES`, says the form.

    Args:
        csv_safe: as ``safe`` of `CsvRows`.
        leaves_out_labels: as of `spread`.

    Raises:
        OutputError: the rows cannot be written.
    """
    with GrowingFile(path) as file:
        match path.suffix.lower():
            case ".csv":
                writer: TextRows | ParquetRows = TextRows(file, CsvRows(csv_safe, leaves_out_labels))
            case ".json":
                writer = JsonList(file)
            case ".parquet":
                writer = ParquetRows(file, leaves_out_labels)
            case _:
                writer = TextRows(file, json_lines)
        try:
            with closing(writer):
                yield writer.add
        except UnicodeEncodeError as error:  # in a column that is only repeated: texts are checked when they are read
            raise OutputError(f"{path}: a value {half_of_pair(error.object)}") from error


def json_lines(rows: Sequence[Mapping[str, Any]]) -> str:
    """Formats rows as JSON lines, each by `to_json`."""
    return "".join(to_json(row) + "\n" for row in rows)


def to_json(value: Any) -> str:
    """Formats a value as JSON on one line; numbers of vectors have the nine digits that distinguish every float32.

    >>> to_json({"id": np.int64(3), "words": np.array(["a"]), "vector": np.array([0.5, np.nan], np.float32)})
    '{"id": 3, "words": ["a"], "vector": [0.5, null]}'
    """
    return dumps(value, ensure_ascii=False, default=plain)


def plain(value: Any) -> Any:
    """Converts a value that JSON does not have: a vector, what else NumPy has, bytes, or a date, time or decimal."""
    if isinstance(value, np.ndarray) and value.dtype == np.float32 and value.ndim == 1:
        return [float(f"{number:.9g}") for number in value]
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind not in "mM":  # times would become numbers
        return value.tolist()
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


class CsvRows:
    """Formats rows, at least one at a time, as CSV; the first call adds the header, the names of its first row.

    Columns that later rows alone have are an OutputError.

    Args:
        safe: escape text that spreadsheets would take for a formula.
        leaves_out_labels: as of `spread`.
    """

    def __init__(self, safe: bool, leaves_out_labels: bool = False) -> None:
        self._safe = safe
        self._leaves_out_labels = leaves_out_labels
        self._written = io.StringIO(newline="")
        self._writer: csv.DictWriter[str] | None = None

    def __call__(self, rows: Sequence[Row]) -> str:
        cells = [flat(spread(row, self._leaves_out_labels)) for row in rows]
        cells = [
            {name: plain(cell) if isinstance(cell, bytes) else cell for name, cell in row.items()} for row in cells
        ]
        if self._safe:
            cells = [{_quote_formula(name): _quote_formula(value) for name, value in row.items()} for row in cells]
        if self._writer is None:
            self._writer = csv.DictWriter(self._written, list(cells[0]))
            self._writer.writeheader()
        _check_columns(cells, self._writer.fieldnames, "CSV")
        self._writer.writerows(cells)
        text = self._written.getvalue()
        self._written.seek(0)
        self._written.truncate()
        return text


def spread(row: Row, leaves_out_labels: bool) -> Row:
    """Returns a row with a column ``COLUMN.KEY`` for each key of a mapping, for CSV, Parquet and DataFrames.

    The mappings are probabilities by label. With ``leaves_out_labels`` those of some labels only are given, which
    differ between rows; they stay one column then.

    >>> spread({"label": "a", "probabilities": {"a": 0.75, "b": 0.25}}, False)
    {'label': 'a', 'probabilities.a': 0.75, 'probabilities.b': 0.25}
    """
    if leaves_out_labels:
        return row
    columns: Row = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            columns |= {f"{name}.{inner}": each for inner, each in value.items()}
        else:
            columns[name] = value
    return columns


def flat(row: Mapping[str, Any]) -> Row:
    """Returns a row whose lists and objects are JSON text."""
    return {name: to_json(value) if isinstance(value, (list, Mapping)) else value for name, value in row.items()}


def _check_columns(rows: Sequence[Row], known: Collection[str], form: str) -> None:
    """Checks that rows have no columns but the known ones; OutputError if they have."""
    if (new := next((name for row in rows for name in row if name not in known), None)) is not None:
        raise OutputError(
            f"column {new!r}: it is not in the rows before, from which the columns of the {form} file are taken; give "
            "--output FILE.jsonl, or the column in the first row of the input"
        )


def _quote_formula(value: Any) -> Any:
    """Puts an apostrophe before text that a spreadsheet would take for a formula; numbers stay as they are.

    The signs are those of https://owasp.org/www-community/attacks/CSV_Injection.

    >>> _quote_formula("=1+1"), _quote_formula("a=b"), _quote_formula(-0.5)
    ("'=1+1", 'a=b', -0.5)
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value


# One writer of rows per form of a file: ``add`` takes the next rows; ``close`` ends the file so that it can be read,
# even after an interruption.


class TextRows:
    """Writes rows as ``format`` gives them: CSV, or an object a line."""

    def __init__(self, file: GrowingFile, format: Callable[[Sequence[Row]], str]):
        self._file = file
        self._format = format

    def add(self, rows: Sequence[Row]) -> None:
        text = self._format(rows).encode()
        with self._file.adding(len(rows)) as stream:
            stream.write(text)

    def close(self) -> None:
        pass


class JsonList(TextRows):
    """Writes one list of objects, each on lines of its own."""

    def __init__(self, file: GrowingFile):
        def items(rows: Sequence[Row]) -> str:
            return ("," if file.rows else "[") + "\n" + json_lines(rows).rstrip("\n").replace("\n", ",\n")

        super().__init__(file, items)

    def close(self) -> None:
        if not self._file.has_failed:
            with self._file.adding(0) as stream:
                stream.write(b"\n]\n" if self._file.rows else b"[]\n")


class RowGroups:
    """Writes tables of Arrow to a file that grows, each as a row group of Parquet; the first one fixes the columns.

    pyarrow writes to memory: of a write to the disk that fails it would know nothing, and repeat it when it is closed.
    """

    def __init__(self, file: GrowingFile):
        self._file = file
        self._memory = _Memory()
        self._writer: pq.ParquetWriter | None = None

    @property
    def schema(self) -> pa.Schema | None:
        """The columns and their types; None before the first table."""
        return None if self._writer is None else self._writer.schema

    def add(self, table: pa.Table) -> None:
        import pyarrow.parquet as pq

        self._writer = self._writer or pq.ParquetWriter(self._memory, table.schema)
        self._writer.write_table(table)
        with self._file.adding(len(table)) as stream:
            stream.write(self._memory.take())

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        if not self._file.has_failed:
            with self._file.adding(0) as stream:
                stream.write(self._memory.take())


class _Memory(io.RawIOBase):
    """A file of which the bytes since the last call of `take` are in memory."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._taken = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._taken + len(self._bytes)

    def write(self, data: Any) -> int:
        self._bytes += data
        return len(data)

    def take(self) -> bytes:
        """Returns the bytes since the last call."""
        taken = bytes(self._bytes)
        self._bytes.clear()
        self._taken += len(taken)
        return taken


class ParquetRows:
    """Writes row groups of `ROW_GROUP` rows; the first one fixes the columns and their types.

    Args:
        leaves_out_labels: as of `spread`.
    """

    def __init__(self, file: GrowingFile, leaves_out_labels: bool):
        self._file = file
        self._groups = RowGroups(file)
        self._leaves_out_labels = leaves_out_labels
        self._waiting: list[Row] = []

    def add(self, rows: Sequence[Row]) -> None:
        self._waiting += [spread(row, self._leaves_out_labels) for row in rows]
        while len(self._waiting) >= ROW_GROUP:
            self._write()

    def _write(self) -> None:
        rows, schema = self._waiting[:ROW_GROUP], self._groups.schema
        if schema is not None:
            _check_columns(rows, schema.names, "Parquet")
        self._groups.add(arrow_table(rows, schema=schema))
        del self._waiting[:ROW_GROUP]  # not before: what follows a group that cannot be written must not be written

    def close(self) -> None:
        import pyarrow as pa

        with closing(self._groups):
            if not self._file.has_failed and self._waiting:
                self._write()
            elif self._groups.schema is None:  # no rows: a file without columns
                self._groups.add(pa.table({}))


def arrow_table(
    rows: Sequence[Mapping[str, Any]], vectors: str | None = None, schema: pa.Schema | None = None
) -> pa.Table:
    """Returns rows as a table of Arrow; a key that a row lacks is null.

    A mapping of numbers (probabilities by label) is a map, and other lists and objects are JSON text, as is what is no
    text in a column of several types: the type of a column must not depend on the rows.

    Args:
        rows: at least one.
        vectors: name of a column of float32 arrays (D); None if there is none.
        schema: columns and their types; None for those of the rows.

    Raises:
        OutputError: a value is not of the type in ``schema``.
    """
    import pyarrow as pa

    arrays = {}
    for name in dict.fromkeys(name for row in rows for name in row) if schema is None else schema.names:
        values = [row.get(name) for row in rows]
        if name == vectors:
            arrays[name] = vector_column(np.stack(values).astype(np.float32))  # type: ignore[arg-type]
        else:
            arrays[name] = _to_array(name, values, None if schema is None else schema.field(name).type)
    return pa.table(arrays)


def _to_array(name: str, values: list[Any], known: pa.DataType | None) -> pa.Array:
    import pyarrow as pa

    present = [value for value in values if value is not None]
    kind = known or pa.string()
    if known is None and present:
        maps = [value.values() for value in present if isinstance(value, Mapping) and value]
        if len(maps) == len(present) and all(isinstance(number, float) for numbers in maps for number in numbers):
            kind = pa.map_(pa.string(), pa.float64())
        elif not any(isinstance(value, (list, Mapping)) for value in present):
            with suppress(pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # several types in a column of JSON lines
                return pa.array(values)
    if pa.types.is_map(kind):
        values = [list(value.items()) if isinstance(value, Mapping) else value for value in values]
    elif pa.types.is_string(kind):
        values = [value if value is None or isinstance(value, str) else to_json(value) for value in values]
    try:
        return pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise OutputError(
            f"column {name!r}: it has {kind} in the rows before, from which the types of the Parquet file are taken, "
            f"and a value of another type after them ({error}); give --output FILE.jsonl"
        ) from error


def vector_column(vectors: np.ndarray) -> pa.ChunkedArray:
    """Returns vectors (N, D) as a column of Parquet."""
    import pyarrow as pa

    size = vectors.shape[1]
    at_once = max(1, _NUMBERS_OF_LISTS // size)
    parts = [vectors[start : start + at_once] for start in range(0, max(1, len(vectors)), at_once)]
    ends = [np.arange(len(part) + 1, dtype=np.int32) * size for part in parts]
    return pa.chunked_array(
        [pa.ListArray.from_arrays(pa.array(end), pa.array(part.ravel())) for end, part in zip(ends, parts, strict=True)]
    )
