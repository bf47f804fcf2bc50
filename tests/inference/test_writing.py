"""A file that grows: rows whole or not there, whatever ends the work."""

from __future__ import annotations

import errno

import pytest

from bertkit.inference.writing import GrowingFile
from bertkit.runtime.errors import OutputError


def add(file, *rows):
    with file.adding(len(rows)) as stream:
        stream.write("".join(f"{row}\n" for row in rows).encode())


def test_a_full_disk_leaves_the_rows_before(tmp_path):
    def work():
        with GrowingFile(tmp_path / "x") as file:
            add(file, "a")
            with file.adding(1) as stream:
                stream.write(b"half a li")
                stream.flush()
                raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OutputError, match=r"x\.partial: cannot be written: No space left"):
        work()
    assert (tmp_path / "x.partial").read_text() == "a\n"


def test_it_takes_no_file_that_is_there(tmp_path):
    (tmp_path / "x.partial").write_text("mine")
    with pytest.raises(OutputError, match="File exists"), GrowingFile(tmp_path / "x"):
        pass
    assert (tmp_path / "x.partial").read_text() == "mine"
