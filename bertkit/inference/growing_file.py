"""A file of results that grows while work goes on, and is never half a line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from bertkit.errors import OutputError
from bertkit.files import check_new_file, partial_name, uninterrupted
from bertkit.progress import say


def check_growing_file(path: Path, name: str) -> None:
    """Refuses what `bertkit.files.check_new_file` does, and a file that a broken off run has begun.

    Raises:
        OutputError: as above.
    """
    check_new_file(path, name)
    if partial_name(path).exists():
        raise OutputError(
            f"{name}: {partial_name(path)} is there, with what a run that was broken off had done; move or delete it"
        )


class GrowingFile:
    """A new file, called ``FILE.partial`` until everything is in it. A context manager.

    Where the work ends before that, by an error or by Ctrl-C, the rows that are whole stay under that name, and stderr
    says so; without any row nothing stays.
    """

    def __init__(self, path: Path):
        self.path = path
        self.partial = partial_name(path)
        self.rows = 0

    def __enter__(self) -> GrowingFile:
        with self._faults():
            self._stream = self.partial.open("xb")
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        with suppress(OSError):  # what could not be written has been told
            self._stream.close()
        if kind is None:
            os.replace(self.partial, self.path)
        elif self.rows:
            say(f"{self.partial}: {self.rows} rows, each of them whole")
        else:
            self.partial.unlink()

    @contextmanager
    def adding(self, rows: int) -> Iterator[BinaryIO]:
        """The file, to write so many rows to, all of them or none.

        Raises:
            OutputError: they cannot be written.
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
            raise OutputError(f"{self.partial}: cannot be written: {error.strerror or error}") from error
