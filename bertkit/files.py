"""Writing files so that nothing of a user's is overwritten and nothing is left half-written."""

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
"""The name of a folder from `new_folder` begins so until it is whole; a killed process leaves it behind."""


def check_new_file(path: Path, name: str) -> None:
    """Refuses a file that exists, or whose folder does not; touches nothing.

    Args:
        path: the file to be written.
        name: what messages call it, such as ``--output FILE``.

    Raises:
        OutputError: as above.
    """
    if path.exists():
        raise OutputError(f"{name}: exists; give another name")
    if not path.parent.is_dir():
        raise OutputError(f"{name}: there is no folder {path.parent}")


def partial_name(path: Path) -> Path:
    """What a file is called until it is whole.

    >>> partial_name(Path("labels.csv")).name
    'labels.csv.partial'
    """
    return path.with_name(path.name + ".partial")


@contextmanager
def new_folder(place: Path, is_there: Callable[[], bool] = lambda: False) -> Iterator[Path]:
    """Yields a folder to write to that becomes ``place`` at the end, or vanishes where something goes wrong.

    Args:
        place: new, or an empty folder; folders above it are made.
        is_there: asked if ``place`` is taken at the end: whether another process has put the same content there
            meanwhile, so that this one is not needed.

    Raises:
        OutputError: the folder cannot be made.
        OSError: ``place`` is taken at the end.
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
    """Lets Ctrl-C wait until what is within is done, so that no line is broken off; a second Ctrl-C does not wait."""
    interrupt = signal.getsignal(signal.SIGINT)
    if not callable(interrupt) or threading.current_thread() is not threading.main_thread():  # then none comes here
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
    """Writes bytes, or text as UTF-8, so that the file is either as it was before or whole."""
    partial = partial_name(path)
    partial.write_bytes(content.encode() if isinstance(content, str) else content)
    os.replace(partial, path)


def write_json_lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes one JSON object a line; the file appears only when it is whole."""
    write_whole(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
