"""Exceptions for errors in user input.

    BertkitError            never raised itself; ``except BertkitError`` catches all of the below
    ├── RecipeError         a recipe, an override or a flag: unknown key, wrong type, invalid value
    ├── DataError           a file or data set: missing, not UTF-8, ragged row, unknown label
    ├── CheckpointError     a model or tokenizer that cannot be loaded for the requested purpose
    ├── PlacementError      a batch size, precision or device that this machine does not support
    ├── OutputError         an output directory or file that is in use or cannot be written
    ├── HubError            an upload that the Hub rejects or that fails with the connection
    ├── TrainingError       a training that failed with its settings, for example diverged
    └── OtherProcessError   another process of the run failed

The command line prints the message of these exceptions without a traceback and exits with code 2, and so it does with
an `OSError` of the system, such as a missing permission. Any other exception is a bug in bertkit and keeps its
traceback (exit code 1). A message states the value, its place and a remedy.
"""

from __future__ import annotations

import os
import re
import reprlib
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import takewhile
from typing import Any, TypeVar

Value = TypeVar("Value")
Result = TypeVar("Result")

_LONGEST_LINE, _LONGEST_FAULT = 2_000, 20_000  # characters of a message; values come from files of any size

_COUNT = re.compile(r"(\d+) faults:\n")  # the beginning of `_format_list`
_MORE = re.compile(r"… and \d+ more")  # its last entry
_PLACE = re.compile(r"(?P<source>.+?), (?P<place>(?:line|row) \d+): (?P<fault>.+)", re.DOTALL)
_TIMES = re.compile(r" \((\d+) times, also (?:line|row) [^()]*\)$")  # the end of `merged`
_MOST_PLACES = 9  # of equal faults, beside the first

_REPR = reprlib.Repr()
_REPR.maxlevel = 3
_REPR.maxstring = _REPR.maxother = 120


class BertkitError(Exception):
    """Base class of all errors that the user can correct.

    Examples:
        ```python
        try:
            bertkit.load_recipe("no-such-recipe")
        except bertkit.BertkitError as error:
            print(error)
        ```
    """

    def _render_traceback_(self) -> list[str]:
        """Returns the lines that notebooks show, by a convention of IPython: those of the caller, and the message."""
        frames = traceback.extract_tb(self.__traceback__)
        ours = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")
        own = takewhile(lambda frame: not frame.filename.startswith(ours), frames)
        of_caller = [frame for frame in own if f"{os.sep}IPython{os.sep}" not in frame.filename]
        return [*traceback.format_list(of_caller), f"{type(self).__name__}: {self}"]


class RecipeError(BertkitError):
    """Raised for an invalid recipe, override or flag."""


class DataError(BertkitError):
    """Raised for an invalid or missing file or data set."""


class CheckpointError(BertkitError):
    """Raised if a model or a tokenizer cannot be loaded, or does not suit the requested purpose."""


class PlacementError(BertkitError):
    """Raised if the requested placement does not fit the available devices."""


class OutputError(BertkitError):
    """Raised if an output file or folder is in use or cannot be written."""


class HubError(BertkitError):
    """Raised if an upload to the Hub fails; local files are not changed."""


class TrainingError(BertkitError):
    """Raised if a training fails with the given settings."""


class OtherProcessError(BertkitError):
    """Raised in a process of a run after another one has failed; the message has the other's."""


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Returns the end of a message about an unknown name, such as ``"; did you mean 'sst2'?"``.

    It is empty if no known name is similar.

    >>> did_you_mean("sst3", ["cola", "sst2"])
    "; did you mean 'sst2'?"
    >>> did_you_mean("translation", ["cola", "sst2"])
    ''
    """
    near = get_close_matches(given, list(known), n=1)
    return f"; did you mean '{near[0]}'?" if near else ""


@contextmanager
def noted(faults: list[str], kind: type[BertkitError] = DataError) -> Iterator[None]:
    """Catches an error of the block, of the class ``kind``, and appends its message to ``faults``, to report several
    faults together."""
    try:
        yield
    except kind as error:
        faults.append(str(error))


def collected(function: Callable[[str, Value], Result], items: Mapping[str, Value]) -> dict[str, Result]:
    """Returns the results of a function of each key and value; raises one DataError with the faults of all."""
    results: dict[str, Result] = {}
    faults: list[str] = []
    for key, value in items.items():
        with noted(faults):
            results[key] = function(key, value)
    raise_all(faults)
    return results


@contextmanager
def importing(what: str, extra: str, kind: type[BertkitError] = RecipeError) -> Iterator[None]:
    """Context of the imports of an extra: raises ``kind`` with the command that installs it if a package is missing, or
    with the reason if one that is there cannot be imported.

    Args:
        what: the option or the command that needs the extra.
        extra: its name.
        kind: class of the error.

    >>> with importing("--to onnx", "onnx"):
    ...     raise ImportError("libgomp.so.1: no such file")
    Traceback (most recent call last):
    bertkit.runtime.errors.RecipeError: --to onnx: the extra onnx cannot be imported: libgomp.so.1: no such file
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise kind(f"{what} needs the extra {extra}: pip install 'bertkit[{extra}]'") from error
    except ImportError as error:
        raise kind(f"{what}: the extra {extra} cannot be imported: {error}") from error


def raise_all(faults: Sequence[str], kind: type[BertkitError] = DataError) -> None:
    """Raises one error of the class ``kind`` with all ``faults``, if there are any; a fault can be a list of `listed`
    itself."""
    if len(faults) == 1:
        raise kind(faults[0])
    if faults:
        entries = entries_of(faults)
        heads = [_COUNT.match(fault) for fault in faults]
        total = sum(
            times_of(fault) if head is None else int(head[1]) for fault, head in zip(faults, heads, strict=True)
        )
        raise kind(_format_list(total, entries, left=total - sum(map(times_of, entries))))


def entries_of(faults: Iterable[str]) -> list[str]:
    """Returns the single faults, of which some may be lists of `listed`; without those that a list only counts.

    >>> entries_of(["a", "3 faults:\\n  - b\\n  - c\\n  - … and 1 more"])
    ['a', 'b', 'c']
    """
    entries: list[str] = []
    for fault in faults:
        single = [fault] if _COUNT.match(fault) is None else fault.split("\n  - ")[1:]
        entries += [each for each in single if not _MORE.fullmatch(each)]
    return entries


def merged(faults: Iterable[str]) -> list[str]:
    """Returns faults with the same words in several lines or rows of a file once, with their number and first places.

    >>> merged(["x.csv, line 3: empty", "x.csv, line 4: odd", "x.csv, line 7: empty", "x.csv, line 8: empty"])
    ['x.csv, line 3: empty (3 times, also line 7, line 8)', 'x.csv, line 4: odd']
    """
    places: dict[tuple[str, str], list[str]] = {}
    for fault in faults:
        parts = _PLACE.fullmatch(fault)
        key = ("", fault) if parts is None else (parts["source"], parts["fault"])
        places.setdefault(key, []).append("" if parts is None else parts["place"])
    entries = []
    for (source, fault), (first, *others) in places.items():
        entry = f"{source}, {first}: {fault}" if first else fault
        if first and others:
            more = ", …" if len(others) > _MOST_PLACES else ""
            entry += f" ({len(others) + 1} times, also {', '.join(others[:_MOST_PLACES])}{more})"
        entries += [entry] * (1 if first else 1 + len(others))
    return entries


def times_of(entry: str) -> int:
    """Returns how many faults an entry of `merged` stands for."""
    times = _TIMES.search(entry)
    return 1 if times is None else int(times[1])


def without_place(fault: str) -> str:
    """Returns the words of a fault that are the same in each line or row of a file: without its place and number.

    >>> without_place("x.csv, line 3: empty (3 times, also line 7, line 8)")
    'x.csv: empty'
    """
    fault = _TIMES.sub("", fault)
    parts = _PLACE.fullmatch(fault)
    return fault if parts is None else f"{parts['source']}: {parts['fault']}"


def raise_listed(faults: Sequence[str]) -> None:
    """Raises one DataError with the first ten faults of a data file, if there are any."""
    if faults:
        raise DataError(listed(faults, at_most=10))


def listed(faults: Sequence[str], at_most: int = 20) -> str:
    """Formats one fault as it is, several as a counted and indented list of at most ``at_most`` entries of `merged`.

    A line of a fault has at most 2,000 characters and a fault at most 20,000, see `shortened`.

    >>> print(listed(["a is wrong", "b is wrong", "c is wrong"], at_most=2))
    3 faults:
      - a is wrong
      - b is wrong
      - … and 1 more
    """
    different = merged(faults)
    entries = [shortened(fault, _LONGEST_FAULT, _LONGEST_LINE) for fault in different[:at_most]]
    if len(different) == 1:
        return entries[0]
    return _format_list(sum(map(times_of, different)), entries, left=sum(map(times_of, different[at_most:])))


def _format_list(total: int, entries: Sequence[str], left: int) -> str:
    """Formats a list of faults with their number, as `_COUNT` and `_MORE` read it."""
    more = [f"… and {left} more"] if left > 0 else []
    return f"{total} faults:\n" + "\n".join(f"  - {entry}" for entry in [*entries, *more])


def shortened(text: str, at_most: int, at_most_of_a_line: int | None = None) -> str:
    """Replaces the middle of a text, and of each of its lines, by an ellipsis if it has too many characters.

    The start of a message has the place of a fault and its end the remedy, so both are kept.

    >>> shortened("abcdefghij", 7)
    'abc … j'
    """
    if len(text) > at_most:
        end = (at_most - 3) // 3
        text = f"{text[: at_most - 3 - end]} … {text[len(text) - end :]}"
    if at_most_of_a_line is not None:
        text = "\n".join(shortened(line, at_most_of_a_line) for line in text.split("\n"))
    return text


def described(error: BaseException, at_most: int = 500) -> str:
    """Formats an error of a library as one line of at most ``at_most`` characters: its class and its message, if any.

    >>> described(ValueError("a\\nb")), described(AssertionError())
    ('ValueError: a b', 'AssertionError')
    """
    return shortened(f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": "), at_most)


def quoted(names: Iterable[Any], at_most: int = 20) -> str:
    """Formats names, of which at most ``at_most`` are listed and the others counted.

    >>> quoted(["a", "b", "c"], at_most=2)
    "'a', 'b' and 1 more"
    """
    names = list(names)
    more = f" and {len(names) - at_most} more" if len(names) > at_most else ""
    return ", ".join(map(shown, names[:at_most])) + more


def shown(value: Any) -> str:
    """Formats a value for a message in at most 200 characters, whatever its size and depth.

    >>> shown("fast"), shown(10**5000)
    ("'fast'", '<a number of more than 4300 digits>')
    """
    try:
        return shortened(_REPR.repr(value), 200)
    except ValueError:  # Python does not convert integers of more digits to text
        return "<a number of more than 4300 digits>"
