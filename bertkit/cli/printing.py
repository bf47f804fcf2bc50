"""Printing of results to stdout, in complete lines; closed, full and broken standard streams.

All commands print with these functions, which escape control characters: results hold names and texts of others.
"""

from __future__ import annotations

import codecs
import errno
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.cli.groups import has_command
from bertkit.runtime.errors import OutputError
from bertkit.runtime.json_text import dumps
from bertkit.runtime.placement.processes import uninterrupted
from bertkit.runtime.progress import printable, wrapped

if TYPE_CHECKING:
    from bertkit.training.runs.record import Run

_BROKEN_PIPE = 141  # 128 + SIGPIPE (13): the exit code that a shell shows for git and grep after a broken pipe


def print_text(text: object, end: str = "\n") -> None:
    """Prints text or JSON, and ``end``."""
    print(printable(str(text)), end=end)


def print_wrapped(text: object) -> None:
    """Prints lines of text, in a terminal broken between words."""
    print_text(wrapped(printable(str(text)), sys.stdout))


def print_result(result: Any, lines: Iterable[object], as_json: bool, format: str = "text") -> None:
    """Prints a result: a dataclass, or plain data, as one line of JSON; or else its lines.

    ``format`` is that of the lines; only those of ``text`` are broken between words in a terminal.
    """
    if as_json:
        print_text(dumps(result if isinstance(result, dict | list) else asdict(result), default=str))
    else:
        for line in lines:
            (print_wrapped if format == "text" else print_text)(line)


def print_lines(lines: Iterable[str]) -> None:
    """Prints lines that are escaped already and may have colours, and flushes."""
    _print("".join(f"{line}\n" for line in lines))


def print_list(name: str, blocks: Iterable[Iterable[Any]]) -> None:
    """Prints one JSON object with one list incrementally, block by block; values are as in files of JSON."""
    from bertkit.inference.row_files import to_json  # imports NumPy

    opening = before = f"{{{dumps(name)}: ["
    for block in blocks:
        if items := ", ".join(map(to_json, block)):  # all inputs of a block may have been skipped
            _print(before + printable(items))
            before = ", "
    _print(f"{opening}]}}\n" if before == opening else "]}\n")  # there may be no block


def print_address(address: str) -> None:
    """Prints the address of a server as one JSON object, and flushes."""
    _print(printable(dumps({"address": address})) + "\n")


def _print(text: str) -> None:
    with uninterrupted():
        sys.stdout.write(text)
        sys.stdout.flush()


def print_results(run: Run, shown: list[tuple[str, str]], as_json: bool, next_commands: Sequence[str] = ()) -> None:
    """Prints the results of a run: one JSON object, or scores, the verdict, where everything is, and what to do next.

    Args:
        run: the finished run.
        shown: the metrics to print, as (key, name).
        as_json: print one JSON object.
        next_commands: commands that use the run, with ``{}`` in place of its folder.
    """
    if as_json:
        more: dict[str, Any] = {} if run.collapse is None else {"collapse": run.collapse}
        if run.verdict.sentences:
            more["verdict"] = list(run.verdict.sentences)
        print_text(dumps({"output_dir": str(run.output_dir), **run.metrics, **more}))
        return
    for key, name in shown:
        if key in run.metrics:
            print_text(f"{name} {run.metrics[key]:.4f}")
    if run.collapse is not None:
        print_text(f"collapsed: {run.collapse}")
    for sentence in run.verdict.sentences:
        print_wrapped(sentence)
    if (proposal := run.verdict.proposal) is not None:
        print_text(f"to try, {proposal.reason}:\n  {proposal.line(run.output_dir)}")
    print_text(f"results, checkpoint and model card: {run.output_dir}")
    if (report := run.output_dir / "report.html").is_file():
        print_text(f"report: {report}")
    if (disk := run.disk) is not None:
        print_text(disk)
    print_next(next_commands, run.output_dir)


def print_next(commands: Sequence[str], folder: Path) -> None:
    """Prints commands to go on with, with ``{}`` in place of a folder."""
    there = [each for each in commands if has_command(each.removeprefix("bertkit "))]
    if there:
        print_text("next:")
    for command in there:
        print_text(f"  {command.format(shlex.quote(str(folder)))}")


# ---- streams -------------------------------------------------------------------------------------------------------


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

    A write to stdout that fails, or finds it closed, raises an OutputError, or SystemExit with code 141 if nobody reads
    the pipe any more. Characters that the encoding of a stream lacks are written as escapes.
    """
    before = sys.stdout, sys.stderr
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # closed: the next opened file would get its number, so that the null device takes it
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)
    sys.stdout, sys.stderr = _Stream(sys.stdout, has_results=True), _Stream(sys.stderr, has_results=False)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


class _Stream:
    """Text stream that passes everything on to another one, up to the first failed write.

    Args:
        stream: the other stream; None if it is closed, so that the first write of text fails.
        has_results: the command ends with that write, and with each one after it, since libraries ignore errors.
    """

    def __init__(self, stream: Any, has_results: bool):
        self._stream = open(os.devnull, "w", encoding="utf-8") if stream is None else stream  # noqa: SIM115
        self._has_results = has_results
        self._error = OSError(errno.EBADF, "it is closed") if stream is None else None
        self._has_text = False  # typer writes empty text as a test, and ignores the exception
        if hasattr(self._stream, "reconfigure"):
            self._stream.reconfigure(errors="backslashreplace")

    def write(self, text: str) -> int:
        self._has_text |= bool(text)
        return self._passed_on(self._stream.write, text) or 0

    def flush(self) -> None:
        self._passed_on(self._stream.flush)

    def _passed_on(self, call: Callable[..., Any], *given: str) -> Any:
        if self._error is None:
            try:
                return call(*given)
            except OSError as error:
                self._error = error
                # What is still in the buffer would fail again when the interpreter ends.
                with suppress(OSError, ValueError):
                    null = os.open(os.devnull, os.O_WRONLY)
                    os.dup2(null, self._stream.fileno())
                    os.close(null)
        if self._has_text and self._has_results:
            if isinstance(self._error, BrokenPipeError):
                sys.exit(_BROKEN_PIPE)
            message = f"standard output: cannot be written: {self._error.strerror or self._error}"
            raise OutputError(message) from self._error
        return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
