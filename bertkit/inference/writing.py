"""A file of rows that grows during the work, and is complete under its name; names of columns beside predictions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from bertkit.runtime.errors import OutputError
from bertkit.runtime.files import check_new_file, lock, output_error, unlocked
from bertkit.runtime.placement.processes import uninterrupted
from bertkit.runtime.progress import counted, say

Row = dict[str, Any]
_GIVEN = "input_"  # before the name of a column that the prediction has too


def check_growing_file(path: Path, name: str) -> None:
    """Refuses what `bertkit.runtime.files.check_new_file` refuses, and the partial file of a running or interrupted
    run.

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
    without any row the file is removed. A killed process may leave half a row. OutputError if the file is there already
    or cannot be written.

    Attributes:
        path, partial: the file, and its name until it is complete.
        rows: number of rows in it.
        has_failed: whether a write failed; the file then ends with the rows before it, and takes no more.
    """

    def __init__(self, path: Path):
        self.path = path
        self.partial = path.with_name(f"{path.name}.partial")
        self.rows = 0
        self.has_failed = False

    def __enter__(self) -> GrowingFile:
        with self._faults():
            self._stream = self.partial.open("xb")
        lock(self._stream.fileno())
        if self.path.exists():
            self.__exit__(OutputError)
            raise OutputError(f"{self.path}: another process has written it in the meantime; give another name")
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            with self._faults(), self._stream:
                os.fsync(self._stream.fileno())
                if os.name == "nt":  # which renames nothing that is open, and has no lock to keep
                    self._stream.close()
                os.replace(self.partial, self.path)
            return
        with suppress(OSError):  # the exception that ends the work is the one to report
            self._stream.close()
        if self.rows:
            say(f"{self.partial}: {counted(self.rows, 'complete row')}")
        else:
            self.partial.unlink()

    @contextmanager
    def adding(self, rows: int) -> Iterator[BinaryIO]:
        """Yields the file to write ``rows`` rows to: all of them are kept, or, after any exception, none.

        Raises:
            OutputError: the rows cannot be written.
        """
        size = self._stream.tell()
        with uninterrupted():
            try:
                with self._faults():
                    yield self._stream
                    self._stream.flush()
            except BaseException:
                self.has_failed = True
                with suppress(OSError):  # what the buffer still holds would follow later, beyond the end
                    self._stream.close()
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
