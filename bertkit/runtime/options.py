"""Descriptions of settings, in the metadata of their fields: what ``--help``, schema, documentation and errors say.

A settings dataclass describes each field once::

    max_seq_length: int = option("Maximum number of tokens of an input.", default=128, ge=1)

`option` is a field that commands have an option for, `setting` one that only recipes and ``--set`` set. Both are
`dataclasses.field` with ``metadata``, which tasks of other packages can write themselves: ``{"help": "Labels per
text."}``, optionally with ``flag`` and ``metavar``, makes an option.
"""

from __future__ import annotations

import dataclasses
import inspect
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import MISSING, field
from pathlib import Path
from typing import Any, NamedTuple

command_line: ContextVar[Sequence[str]] = ContextVar("command_line", default=())
"""Arguments of the command that runs; none where Python calls a function."""


class Range(NamedTuple):
    """Range of a number; ``None`` is no limit.

    Attributes:
        ge, gt: the number is at least ``ge`` and more than ``gt``.
        le, lt: the number is at most ``le`` and less than ``lt``.

    >>> str(Range(ge=0)), str(Range(ge=1, le=1024)), str(Range(gt=0, le=1)), 0 in Range(gt=0)
    ('at least 0', '1 to 1024', 'more than 0, at most 1', False)
    """

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None

    def __contains__(self, number: object) -> bool:
        assert isinstance(number, int | float)
        return (
            (self.ge is None or number >= self.ge)
            and (self.gt is None or number > self.gt)
            and (self.le is None or number <= self.le)
            and (self.lt is None or number < self.lt)
        )

    def __str__(self) -> str:
        if self.ge is not None and self.le is not None:
            return f"{self.ge:.12g} to {self.le:.12g}"
        words = {"at least": self.ge, "more than": self.gt, "at most": self.le, "less than": self.lt}
        return ", ".join(f"{word} {limit:.12g}" for word, limit in words.items() if limit is not None)


def setting(help: str, *, default: Any = MISSING, factory: Any = MISSING, rare: bool = False, **limits: float) -> Any:
    """Returns a field of a settings dataclass that recipes and ``--set`` set.

    Args:
        help: description, with units; names in backticks.
        default: default of the field.
        factory: function that makes the default. Without both, a recipe must have the value.
        rare: a command that has an option for it all the same shows it by ``--help-all`` only.
        limits: ``ge``, ``gt``, ``le`` and ``lt`` of a number, see `Range`.
    """
    metadata = {"help": help, "in_recipes_only": True, "rare": rare, "range": Range(**limits) if limits else None}
    return field(default=default, default_factory=factory, metadata=metadata)


def option(
    help: str,
    *,
    default: Any = MISSING,
    factory: Any = MISSING,
    flag: str | None = None,
    metavar: str | None = None,
    panel: str | None = None,
    rare: bool = False,
    **limits: float,
) -> Any:
    """Returns a field of a settings dataclass that commands have an option for.

    Args:
        help, default, factory, limits: as of `setting`.
        flag: name of the option; by default that of the field, such as ``--max-seq-length``.
        metavar: placeholder of the value in ``--help``; by default the type.
        panel: panel of the option in ``--help``; by default that of the block.
        rare: the option is shown by ``--help-all`` only.
    """
    metadata = {
        "help": help,
        "flag": flag,
        "metavar": metavar,
        "panel": panel,
        "rare": rare,
        "range": Range(**limits) if limits else None,
    }
    return field(default=default, default_factory=factory, metadata=metadata)


def descriptions(settings: type) -> dict[str, Mapping[str, Any]]:
    """Returns the metadata of the fields of a dataclass by name.

    A field that is declared again without metadata, such as for another default, keeps those of the base class.
    """
    described: dict[str, Mapping[str, Any]] = {}
    for base in reversed(settings.__mro__):
        if dataclasses.is_dataclass(base):
            own = inspect.get_annotations(base)  # without inherited fields: another base may have described them since
            described |= {
                each.name: each.metadata for each in dataclasses.fields(base) if each.metadata and each.name in own
            }
    return {each.name: described.get(each.name, {}) for each in dataclasses.fields(settings)}


def flag_of(name: str, described: Mapping[str, Any]) -> str:
    """Returns the option of a field on the command line, such as ``--max-steps``.

    Args:
        name: name of the field.
        described: its metadata.
    """
    return str(described.get("flag") or f"--{name.replace('_', '-')}")


def check_different(name: str, values: Sequence[str], what: str = "name") -> None:
    """Checks that a setting has none of its values twice.

    Raises:
        ValueError: it has; the message has ``name``, ``what`` its values are, and all of them.
    """
    if len(set(values)) < len(values):
        raise ValueError(f"{name}: expected each {what} once, got {', '.join(values)}")


def check_ranges(settings: Any) -> None:
    """Checks the numbers of an instance of a settings dataclass.

    Raises:
        ValueError: a number is out of the range of its field.
    """
    for name, described in descriptions(type(settings)).items():
        value, numbers = getattr(settings, name), described.get("range")
        if numbers is not None and isinstance(value, int | float) and value not in numbers:
            raise ValueError(f"{name}: expected {numbers}, got {value}")


def several(values: str | Path | Sequence[Any] | None) -> list[Any]:
    """Returns the values of an argument that takes one text or path, or several of them.

    What is neither, such as a number or a mapping, is one value, which the check of the values refuses.

    >>> several("a.txt"), several(["a.txt", "b.txt"]), several(None), several(5)
    (['a.txt'], ['a.txt', 'b.txt'], [], [5])
    """
    if values is None:
        return []
    if isinstance(values, str | Path | Mapping) or not isinstance(values, Iterable):
        return [values]
    return list(values)


def how_to_give(values: Sequence[tuple[str, str, str]], note: str = "") -> str:
    """Returns the end of a message that asks for settings: the command to repeat with them, or arguments in Python.

    Args:
        values: option of the command, argument of the function, and its likely value, of each setting.
        note: a remark on the options.

    >>> how_to_give([("--label-column", "label_column", "kind")])
    "give it, such as label_column='kind'"
    """
    words, ask = command_line.get(), "give it" if len(values) == 1 else "give them"
    if not words:
        return f"{ask}, such as " + ", ".join(f"{argument}={value!r}" for _, argument, value in values)
    options = [word for flag, _, value in values for word in (flag, value)]
    return f"{ask}{note}, such as\n  {shlex.join(['bertkit', *words, *options])}"
