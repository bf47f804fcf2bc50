"""Atomic writing of files and folders, without overwriting files of the user."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bertkit.errors import OutputError

UNFINISHED = ".unfinished-"
"""Prefix of the temporary name of a folder from `new_folder`; a killed process leaves such a folder behind."""


def check_new_file(path: Path, name: str) -> None:
    """Checks that a file does not exist and that its folder does; does not write anything.

    Args:
        path: the file to be written.
        name: name of the file in messages, such as ``--output FILE``.

    Raises:
        OutputError: the file exists, or its folder does not.
    """
    if path.exists():
        raise OutputError(f"{name}: exists; give another name")
    if not path.parent.is_dir():
        raise OutputError(f"{name}: there is no folder {path.parent}")


def partial_name(path: Path) -> Path:
    """Returns the temporary name of a file during writing.

    >>> partial_name(Path("labels.csv")).name
    'labels.csv.partial'
    """
    return path.with_name(path.name + ".partial")


@contextmanager
def new_folder(place: Path, is_there: Callable[[], bool] = lambda: False) -> Iterator[Path]:
    """Yields a temporary folder to write to; renames it to ``place`` at the end, or removes it on an exception.

    Args:
        place: a new or empty folder; parent folders are created.
        is_there: called if ``place`` exists at the end; returns whether another process has written the same content,
            so that the temporary folder is discarded.

    Raises:
        OutputError: the temporary folder cannot be created.
        OSError: the rename fails, for example because ``place`` exists, and ``is_there()`` is False.
    """
    draft = place.with_name(f"{UNFINISHED}{place.name[:32]}-{uuid.uuid4().hex}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        draft.mkdir()
    except OSError as error:
        raise OutputError(f"{place}: cannot be written: {error.strerror}") from error
    try:
        yield draft
        try:
            os.rename(draft, place)
        except OSError:
            if not is_there():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Defers Ctrl-C to the end of the block, so that no line is truncated; a second Ctrl-C takes effect at once."""
    interrupt = signal.getsignal(signal.SIGINT)
    if not callable(interrupt) or threading.current_thread() is not threading.main_thread():  # then no signal arrives
        yield
        return
    came = False

    def wait(number: int, frame: Any) -> None:
        nonlocal came
        if came:
            interrupt(number, frame)
        came = True

    signal.signal(signal.SIGINT, wait)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, interrupt)
    if came:
        interrupt(signal.SIGINT, None)


def write_whole(path: Path, content: str | bytes) -> None:
    """Writes bytes, or text as UTF-8, atomically: the file has either its old or its complete new content."""
    partial = partial_name(path)
    partial.write_bytes(content.encode() if isinstance(content, str) else content)
    os.replace(partial, path)


def write_json_lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes one JSON object per line, atomically."""
    write_whole(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
