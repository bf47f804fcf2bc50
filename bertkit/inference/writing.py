"""Predictions and vectors on disk: a file that grows during the work and never ends in half a row; its formats."""

from __future__ import annotations

import base64
import csv
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from bertkit.errors import OutputError
from bertkit.files import check_new_file, lock, output_error, readable_size, unlocked
from bertkit.inference.embedding import TokenEmbeddings, Vectors, rows_of_vectors
from bertkit.json_text import dumps
from bertkit.placement.processes import uninterrupted
from bertkit.progress import say

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

Row = dict[str, Any]
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_GIVEN = "input_"  # before the name of a column that the prediction has too
_MOST_TEXT_BYTES = 1 << 32  # of the array of texts in .npz


def check_growing_file(path: Path, name: str) -> None:
    """Refuses what `bertkit.files.check_new_file` refuses, and the partial file of a running or interrupted run.

    An empty partial file, which a killed run may leave behind, is removed.

    Raises:
        OutputError: as above.
    """
    check_new_file(path, name)
    partial = path.with_name(f"{path.name}.partial")
    with unlocked(partial) as is_free:
        if is_free and not partial.stat().st_size:
            partial.unlink()
        elif is_free:
            raise OutputError(f"{name}: {partial} holds the results of an interrupted run; move or delete it")
        elif os.path.lexists(partial):
            raise OutputError(f"{name}: another process writes to {partial}; give another name")


class GrowingFile:
    """Context manager for a new file that is called ``FILE.partial`` until it is complete.

    If the work ends early, by an error or Ctrl-C, the complete rows stay under that name, which is printed on stderr;
    without any row the file is removed.
    """

    def __init__(self, path: Path):
        self.path = path
        self.partial = path.with_name(f"{path.name}.partial")
        self.rows = 0

    def __enter__(self) -> GrowingFile:
        with self._faults():
            self._stream = self.partial.open("xb")
        lock(self._stream.fileno())
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            with self._faults(), self._stream:
                os.fsync(self._stream.fileno())
                os.replace(self.partial, self.path)
            return
        with suppress(OSError):  # `adding` has already reported a failed write
            self._stream.close()
        if self.rows:
            say(f"{self.partial}: {self.rows} complete rows")
        else:
            self.partial.unlink()

    @contextmanager
    def adding(self, rows: int) -> Iterator[BinaryIO]:
        """Yields the file to write ``rows`` rows to: all of them are kept, or none.

        Raises:
            OutputError: the rows cannot be written.
        """
        size = self._stream.tell()
        with uninterrupted():
            try:
                with self._faults():
                    yield self._stream
                    self._stream.flush()
            except OutputError:
                os.truncate(self.partial, size)
                raise
            self.rows += rows

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise output_error(self.partial, error) from error


def with_prediction(columns: Mapping[str, Any], prediction: Mapping[str, Any]) -> Row:
    """Returns the columns of an input and those of its prediction, which no column of the input has.

    A column with the name of a prediction, or of a class beside its probability in CSV, becomes ``input_NAME``,
    and one that is called so already ``input_input_NAME``, whether both are there or not: so a column has the same name
    in all rows of all files, and predictions of predictions lose nothing.

    >>> with_prediction({"id": 7, "label": "good", "input_label": "true"}, {"label": "bad"})
    {'id': 7, 'input_label': 'good', 'input_input_label': 'true', 'label': 'bad'}
    """
    nested = tuple(f"{name}." for name, value in prediction.items() if isinstance(value, Mapping))

    def is_taken(name: str) -> bool:
        while name not in prediction and not name.startswith(nested) and name.startswith(_GIVEN):
            name = name.removeprefix(_GIVEN)
        return name in prediction or name.startswith(nested)

    return {f"{_GIVEN}{name}" if is_taken(name) else name: value for name, value in columns.items()} | dict(prediction)


def names_beside(names: Sequence[str], prediction: Mapping[str, Any]) -> dict[str, str]:
    """Returns column → the name that it has beside a prediction, as in `with_prediction`."""
    return dict(zip(names, with_prediction(dict.fromkeys(names), prediction), strict=False))


def json_lines(rows: Sequence[Mapping[str, Any]]) -> str:
    """Formats rows as JSON lines; numbers of vectors have the nine digits that distinguish every float32."""
    return "".join(dumps(row, ensure_ascii=False, default=plain) + "\n" for row in rows)


def plain(value: Any) -> Any:
    """Converts a value that JSON does not have: a vector, bytes, or a date, time or decimal of Parquet."""
    if isinstance(value, np.ndarray):
        return [float(f"{number:.9g}") for number in value]
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


class CsvRows:
    """Formats rows as CSV; the first call adds the header. Columns that later rows alone have are an OutputError.

    Args:
        safe: escape text that spreadsheets would take for a formula.
        nested_as_json: write a mapping as a JSON object in one column, since its keys differ between rows; otherwise
            each of its keys has a column.
    """

    def __init__(self, safe: bool, nested_as_json: bool = False) -> None:
        self._safe = safe
        self._nested_as_json = nested_as_json
        self._written = io.StringIO(newline="")
        self._writer: csv.DictWriter[str] | None = None

    def __call__(self, rows: Sequence[Row]) -> str:
        cells = [flat(row, self._nested_as_json) for row in rows]
        if self._safe:
            cells = [{_no_formula(name): _no_formula(value) for name, value in row.items()} for row in cells]
        if self._writer is None:
            self._writer = csv.DictWriter(self._written, list(cells[0]))
            self._writer.writeheader()
        known = set(self._writer.fieldnames)
        if new := next((name for row in cells for name in row if name not in known), None):
            raise OutputError(
                f"column {new!r}: it is not in the rows before, from which the columns of the CSV file are taken; give "
                "--output FILE.jsonl, or the column in the first row of the input"
            )
        self._writer.writerows(cells)
        text = self._written.getvalue()
        self._written.seek(0)
        self._written.truncate()
        return text


def flat(row: Row, nested_as_json: bool = False) -> dict[str, Any]:
    """Returns a row whose values are single ones, for the columns of a table; arguments as of `CsvRows`."""
    cells: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping) and not nested_as_json:
            cells |= {f"{name}.{inner}": each for inner, each in value.items()}
        else:
            cells[name] = (
                dumps(value, ensure_ascii=False, default=plain) if isinstance(value, (list, Mapping)) else value
            )
    return cells


def _no_formula(value: Any) -> Any:
    """Puts an apostrophe before text that a spreadsheet would take for a formula; numbers stay as they are.

    The signs are those of https://owasp.org/www-community/attacks/CSV_Injection.

    >>> _no_formula("=1+1"), _no_formula("a=b"), _no_formula(-0.5)
    ("'=1+1", 'a=b', -0.5)
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value


def vector_column(vectors: np.ndarray) -> pa.ListArray:
    """Returns vectors (N, D) as a column of Parquet."""
    import pyarrow as pa

    ends = np.arange(len(vectors) + 1, dtype=np.int32) * vectors.shape[1]
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(vectors.ravel()))


# One writer per format of vectors with ``size`` numbers: ``add`` writes those of the next texts; ``close`` ends the
# file so that it can be read, even after an interruption.


class JsonLinesVectors:
    """Writes one line per text."""

    def __init__(self, file: GrowingFile, size: int):
        self._file = file

    def add(self, texts: Sequence[str], vectors: Vectors, files: Sequence[str] | None = None) -> None:
        rows = [{"text": text, **row} for text, row in zip(texts, rows_of_vectors(vectors), strict=True)]
        if files is not None:
            rows = [{"file": file, **row} for file, row in zip(files, rows, strict=True)]
        with self._file.adding(len(rows)) as stream:
            stream.write(json_lines(rows).encode())

    def close(self) -> None:
        pass


class ParquetVectors:
    """Writes one row per text or per token; a block is a row group."""

    def __init__(self, file: GrowingFile, size: int):
        self._file = file
        self._size = size
        self._texts = 0
        self._writer: pq.ParquetWriter | None = None

    def add(self, texts: Sequence[str], vectors: Vectors, files: Sequence[str] | None = None) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if isinstance(vectors, np.ndarray):
            rows: dict[str, Any] = {"text": pa.array(texts, pa.string()), "embedding": vector_column(vectors)}
        else:
            columns = _token_columns(vectors, self._texts, self._size)
            start, end = columns["offsets"].T
            rows = {"text": columns["text"], "token": columns["tokens"], "start": start, "end": end}
            rows["embedding"] = vector_column(columns["embeddings"])
        if files is not None:
            rows = {"file": pa.array(files, pa.string()), **rows}
        table = pa.table(rows)
        with self._file.adding(len(table)) as stream:
            self._writer = self._writer or pq.ParquetWriter(stream, table.schema)
            self._writer.write_table(table)
        self._texts += len(texts)

    def close(self) -> None:
        if self._writer is not None:
            with self._file.adding(0):
                self._writer.close()


class NpzVectors:
    """Collects all arrays and writes them at the end; NumPy stores each text with the length of the longest one."""

    def __init__(self, file: GrowingFile, size: int):
        self._file = file
        self._size = size
        self._texts: list[str] = []
        self._files: list[str] = []
        self._vectors: list[Any] = []
        self._longest = 0

    def add(self, texts: Sequence[str], vectors: Vectors, files: Sequence[str] | None = None) -> None:
        self._longest = max([self._longest, *map(len, texts)])
        count = len(self._texts) + len(texts)
        if (size := np.dtype((str, self._longest)).itemsize * count) > _MOST_TEXT_BYTES:
            raise OutputError(
                f"{self._file.path}: {count:,} texts would take {readable_size(size)}, since NumPy stores each with "
                f"the {self._longest:,} characters of the longest one; give --output FILE.parquet or FILE.jsonl"
            )
        self._texts += texts
        self._files += files or ()
        self._vectors.append(vectors)

    def close(self) -> None:
        if not self._vectors:
            return
        columns = {"texts": np.asarray(self._texts, dtype=str)}
        if isinstance(self._vectors[0], np.ndarray):
            columns["embeddings"] = np.concatenate(self._vectors)
        else:
            columns |= _token_columns(list(chain.from_iterable(self._vectors)), 0, self._size)
        if self._files:
            columns["files"] = np.asarray(self._files, dtype=str)
        with self._file.adding(len(self._texts)) as stream:
            np.savez(stream, **columns)  # type: ignore[arg-type]


VECTOR_FILES: Mapping[str, type[JsonLinesVectors | ParquetVectors | NpzVectors]] = {
    ".npz": NpzVectors,
    ".parquet": ParquetVectors,
    ".jsonl": JsonLinesVectors,
}
"""Ending of a file of vectors → what writes it."""


def _token_columns(texts: Sequence[TokenEmbeddings], first: int, size: int) -> dict[str, np.ndarray]:
    """Concatenates the tokens of texts, with the number of the text of each; ``first`` is that of the first text."""
    counts = np.asarray([len(each.tokens) for each in texts], np.int64)
    return {
        "text": np.repeat(np.arange(first, first + len(texts)), counts),
        "tokens": np.asarray([token for each in texts for token in each.tokens], dtype=str),
        "offsets": np.concatenate([np.zeros((0, 2), np.int64), *(each.offsets for each in texts)]),
        "embeddings": np.concatenate([np.zeros((0, size), np.float32), *(each.vectors for each in texts)]),
    }
