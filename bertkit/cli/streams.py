"""The standard streams of a command: each may be closed, full, or a pipe that nobody reads any more."""

from __future__ import annotations

import codecs
import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from bertkit.errors import OutputError

_BROKEN_PIPE = 141  # 128 + SIGPIPE (13): the exit code that a shell shows for git and grep after a broken pipe


def use_utf8() -> None:
    """Restarts the command in Python's UTF-8 mode if the locale is ASCII, as texts and file names are UTF-8.

    Python itself uses that mode in the C locale, unless PYTHONUTF8 is 0.
    """
    if codecs.lookup(sys.getfilesystemencoding()).name == "ascii" and sys.executable:
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


@contextmanager
def standard_streams() -> Iterator[None]:
    """Replaces stdout by a stream whose failed writes end the command, and stderr by one whose failed writes do not.

    A failed write to stdout raises an OutputError, or SystemExit with code 141 if nobody reads the pipe any more.
    Characters that the encoding of a stream lacks are written as escapes.
    """
    before = sys.stdout, sys.stderr
    _occupy_descriptors()
    sys.stdout, sys.stderr = _Output(sys.stdout), _Messages(sys.stderr)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _occupy_descriptors() -> None:
    """Opens the null device in place of closed standard streams, whose numbers the next opened files would get."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)


class _Stream:
    """Text stream that passes everything on to another one, and failed writes to `failed`."""

    def __init__(self, stream: Any):
        self._fault = OSError(errno.EBADF, "it is closed") if stream is None else None
        self._has_text = False
        self._stream = open(os.devnull, "w", encoding="utf-8") if stream is None else stream  # noqa: SIM115
        if hasattr(self._stream, "reconfigure"):
            self._stream.reconfigure(errors="backslashreplace")

    def write(self, text: str) -> int:
        try:
            self._stream.write(text)
        except OSError as error:
            self._end(error)
        self._has_text |= bool(text)
        self._check()
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._end(error)
        self._check()

    def _check(self) -> None:
        if self._fault is not None and self._has_text:  # typer writes empty text as a test, and ignores the exception
            self.failed(self._fault)

    def _end(self, error: OSError) -> None:
        self._fault = error
        # What is still in the buffer would fail again when the interpreter ends.
        with suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)

    def failed(self, error: OSError) -> None:
        """Called for the first write that fails and each one after it; the output is discarded."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Messages(_Stream):
    """stderr: work goes on without its messages."""


class _Output(_Stream):
    """stdout: results that cannot be written are an error."""

    def failed(self, error: OSError) -> NoReturn:
        if isinstance(error, BrokenPipeError):
            sys.exit(_BROKEN_PIPE)
        raise OutputError(f"standard output: cannot be written: {error.strerror or error}") from error
