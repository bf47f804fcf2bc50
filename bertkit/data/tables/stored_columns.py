"""Columns of large tables: text in Arrow files that are mapped from disk, other values in memory."""

from __future__ import annotations

import mmap
import sys
import tempfile
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from bertkit.data.tables.table import Table
from bertkit.runtime.files import disk_faults

if TYPE_CHECKING:
    import pyarrow as pa

_FEW_VALUES = 256  # a part with no more different texts, such as labels, stays in memory


class StoredColumn(Sequence[Any]):
    """Column whose texts are mostly on disk; indices, slices and iteration give its values, as of a list.

    Args:
        parts: lists of any values, and Arrow arrays of strings with 64-bit offsets, in the order of the rows.
    """

    def __init__(self, parts: Sequence[list[Any] | pa.Array]):
        self._parts = parts
        self._ends = list(accumulate(map(len, parts)))

    def __len__(self) -> int:
        return self._ends[-1]

    def __iter__(self) -> Iterator[Any]:
        for part in self._parts:
            yield from part if isinstance(part, list) else part.to_pylist()

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            rows = range(*key.indices(len(self)))
            return self._between(rows.start, rows.stop) if rows.step == 1 else [self[row] for row in rows]
        row = key + len(self) if key < 0 else key
        if not 0 <= row < len(self):
            raise IndexError(f"row {key} of {len(self)}")
        number = bisect_right(self._ends, row)
        value = self._parts[number][row - self._ends[number]]  # counted from the end of its part
        return value if isinstance(self._parts[number], list) else value.as_py()

    def _between(self, start: int, stop: int) -> list[Any]:
        """Returns the values of consecutive rows, which are read part by part."""
        values: list[Any] = []
        while start < stop:
            number = bisect_right(self._ends, start)
            part, begin = self._parts[number], self._ends[number] - len(self._parts[number])
            some = part[start - begin : stop - begin]
            values += some if isinstance(some, list) else some.to_pylist()
            start = self._ends[number]
        return values

    def to_arrow(self) -> pa.ChunkedArray:
        """Returns the column for Arrow; what is on disk stays there.

        Raises:
            pyarrow.ArrowTypeError: some values are not text.
        """
        import pyarrow as pa

        texts = pa.large_string()
        return pa.chunked_array([pa.array(part, texts) if isinstance(part, list) else part for part in self._parts])


def join_parts(parts: Iterator[Table]) -> Table:
    """Joins the parts of a table; text of many values goes to temporary files, which end with the process.

    A column that a part lacks has missing values there. The files are in Python's temporary folder, ``TMPDIR``.

    Args:
        parts: parts in the order of their rows, at least one; a table of one part is better left as it is.

    Raises:
        OutputError: the disk is full.
    """
    first = next(parts)
    columns = {name: _Column() for name in first.columns}
    lines = None if first.lines is None else array("q")
    rows = 0
    for part in chain([first], parts):
        columns |= {name: _Column(rows) for name in part.columns if name not in columns}
        for name, column in columns.items():
            column.add(part.columns[name] if name in part.columns else [None] * len(part))
        if lines is not None and part.lines is not None:
            lines.extend(part.lines)
        rows += len(part)
    values = {name: column.values() for name, column in columns.items()}
    numbers: Sequence[int] | None = lines
    if lines and lines[-1] - lines[0] == len(lines) - 1:  # none is left out, and no field has several lines
        numbers = range(lines[0], lines[-1] + 1)
    return replace(first, columns=values, lines=numbers)


class _Column:
    """A column while its parts are read; ``missing`` is the number of rows before it first occurs."""

    def __init__(self, missing: int = 0):
        self._parts: list[list[Any] | int] = [[None] * missing] if missing else []  # values, or a number in the file
        self._file: IO[bytes] | None = None
        self._writer: Any = None
        self._written = 0

    def add(self, values: Sequence[Any]) -> None:
        """Adds values of the next rows."""
        is_text = all(value is None or isinstance(value, str) for value in values)
        if not is_text or len(set(values)) <= _FEW_VALUES:
            # Readers of JSON and Parquet make each value anew; of labels one is enough.
            self._parts.append([sys.intern(value) if type(value) is str else value for value in values])
            return
        import pyarrow as pa

        with disk_faults(Path(tempfile.gettempdir())):
            if self._writer is None:
                self._file = tempfile.TemporaryFile(prefix="bertkit-")  # noqa: SIM115 - has no name, so ends with us
                self._writer = pa.ipc.new_file(self._file, pa.schema([("text", pa.large_string())]))
            self._writer.write_batch(pa.record_batch([pa.array(values, pa.large_string())], names=["text"]))
        self._parts.append(self._written)
        self._written += 1

    def values(self) -> list[Any] | StoredColumn:
        """Returns the column after its last value."""
        if self._file is None:
            return [value for part in self._parts if isinstance(part, list) for value in part]
        import pyarrow as pa

        with disk_faults(Path(tempfile.gettempdir())):
            self._writer.close()
            self._file.flush()
        # The mapping outlives the file object; the arrays keep it.
        with self._file:
            batches = pa.ipc.open_file(pa.py_buffer(mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)))
        parts = [part if isinstance(part, list) else batches.get_batch(part).column(0) for part in self._parts]
        return StoredColumn(parts)
