"""A file of results that grows during the work and never ends in half a row."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from bertkit.errors import OutputError
from bertkit.files import check_new_file, lock, output_error, partial_name, uninterrupted, unlocked
from bertkit.progress import say


def check_growing_file(path: Path, name: str) -> None:
    """Refuses what `bertkit.files.check_new_file` refuses, and the partial file of a running or interrupted run.

    An empty partial file, which a killed run may leave behind, is removed.

    Raises:
        OutputError: as above.
    """
    check_new_file(path, name)
    partial = partial_name(path)
    with unlocked(partial) as is_free:
        if is_free and not partial.stat().st_size:
            partial.unlink()
        elif is_free:
            raise OutputError(f"{name}: {partial} holds the results of an interrupted run; move or delete it")
        elif os.path.lexists(partial):
            raise OutputError(f"{name}: another process writes to {partial}; give another name")


class GrowingFile:
    """Context manager for a new file that is called ``FILE.partial`` until it is complete.

    If the work ends early, by an error or Ctrl-C, the complete rows stay under that name and stderr says so; without
    any row the file is removed.
    """

    def __init__(self, path: Path):
        self.path = path
        self.partial = partial_name(path)
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
