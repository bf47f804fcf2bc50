"""The rows of shards: a file that can only be read forwards, or by row groups, is not read from its start for each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from bertkit.features.scaling.inputs import InputFile, Shard
from bertkit.features.scaling.rows import (
    RawRow,
    Row,
    arrow_row,
    decode_row,
    open_parquet,
    open_rows,
    raw_rows,
    sheet_rows,
)
from bertkit.runtime.errors import DataError
from bertkit.runtime.reading.paths import PARQUET, XLSX
from bertkit.runtime.reading.text import iterating

_BATCH = 1024  # rows of Parquet in memory at a time


class RowReader:
    """Reads shards one after the other.

    Plain text in UTF-8 is opened anew at the place of each shard. Other files, as `Shard.is_read_on` says, stay open
    until a shard of another file, or an earlier one of the same file, is read: so a worker decompresses a file once,
    and decodes each row group of a Parquet file at most once, if it gets shards in order.
    """

    def __init__(self) -> None:
        self._opened = ExitStack()
        self._file: InputFile | None = None
        # As the form of the file has them: a `RawRow` of text, a `Row` of Excel, (batch, index in it) of Parquet.
        self._rows: Iterator[RawRow | Row | tuple[Any, int]] = iter(())
        self._next = 0  # number of the row that `_rows` yields next, from 0

    def rows(self, shard: Shard) -> Iterator[Row]:
        """Yields the rows of a shard in order.

        Raises:
            DataError: the file cannot be read, or has fewer rows than when it was cut into shards.
        """
        if self._file != shard.file or self._next > shard.first_row or not shard.is_read_on:
            self._open(shard)
        last = shard.first_row + shard.rows
        try:
            for raw in self._rows:
                self._next += 1
                if self._next > shard.first_row:
                    if isinstance(raw, RawRow):
                        yield Row(decode_row(raw, shard.file.form, shard.columns), self._next, raw.line)
                    elif isinstance(raw, Row):
                        yield raw
                    else:
                        yield Row(arrow_row(*raw), self._next, None)
                if self._next == last:
                    return
        except BaseException as error:
            opened = self._opened.pop_all()
            self.close()
            opened.__exit__(type(error), error, error.__traceback__)  # raises the DataError of a file that is damaged
            raise
        self.close()
        raise DataError(f"{shard.file.path}: has fewer rows than when the work began; give another output folder")

    def close(self) -> None:
        """Closes the file."""
        self._opened.close()
        self._file, self._rows = None, iter(())

    def _open(self, shard: Shard) -> None:
        self.close()
        file = shard.file
        if file.form == PARQUET:
            stored = self._opened.enter_context(open_parquet(file.path))
            sizes = [stored.metadata.row_group(number).num_rows for number in range(stored.metadata.num_row_groups)]
            self._next = group = 0
            while group < len(sizes) and self._next + sizes[group] <= shard.first_row:  # groups before the shard
                self._next, group = self._next + sizes[group], group + 1
            batches = stored.iter_batches(_BATCH, row_groups=list(range(group, len(sizes))), use_threads=False)
            self._rows = ((batch, index) for batch in batches for index in range(batch.num_rows))
        elif file.form == XLSX:
            self._next, self._rows = 0, self._opened.enter_context(iterating(sheet_rows(file.path)))
        else:
            on_other = (lambda note: None) if shard.is_recoded else None  # noted when the file was cut
            stream = self._opened.enter_context(open_rows(file.path, file.packing, shard.offset, on_other))
            self._next = shard.first_row
            self._rows = raw_rows(stream, file.form, shard.columns, shard.delimiter, shard.offset, shard.first_line)
        self._file = file
