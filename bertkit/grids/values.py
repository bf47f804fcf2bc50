"""The values of a grid and the ranges of a search, as given on the command line or from Python."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bertkit.errors import RecipeError, shown
from bertkit.recipe.files import parse_value

PAPER: dict[str, list[Any]] = {
    "train.global_train_batch_size": [16, 32],
    "train.learning_rate": [5e-5, 3e-5, 2e-5],
    "train.num_train_epochs": [2.0, 3.0, 4.0],
}
"""The grid of BERT §A.3; ``--grid paper``."""

Given = Sequence[str] | Mapping[str, Any]
"""Strings as on the command line, ``KEY=VALUES``, or a mapping of key to values."""

_RANGE = re.compile(r"(?P<low>.+?)\.\.(?P<high>[^:]+)(?P<log>:log)?")
_FORMS = {
    "--grid": "paper, or KEY=VALUE,VALUE such as train.learning_rate=2e-5,3e-5",
    "--search": "KEY=LO..HI, KEY=LO..HI:log or KEY=VALUE,VALUE, such as train.learning_rate=1e-5..1e-4:log",
}
# Keys that are no dimension of a grid → what to use instead.
_NOT_IN_A_GRID = {
    "train.seed": "use --seeds",
    "data.folds": "use --folds",
    "data.fold": "use --folds",
    "task.kind": "a grid is for one task",
}


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high`` to sample from, by logarithm if ``log``; integers if both ends are."""

    low: float
    high: float
    log: bool = False

    def fault(self) -> str | None:
        """Returns what is wrong with the range, or None."""
        if not all(isinstance(end, (int, float)) and not isinstance(end, bool) for end in (self.low, self.high)):
            return f"expected two numbers, got {shown(self.low)} and {shown(self.high)}"
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            return "expected finite numbers"
        if self.low >= self.high:
            return f"the range from {self.low:g} to {self.high:g} is empty"
        return f"a logarithmic range starts above 0, got {self.low:g}" if self.log and self.low <= 0 else None


def grid_of(given: Given, faults: list[str]) -> dict[str, list[Any]]:
    """Returns key → values of a grid; faults are added to ``faults``."""
    if isinstance(given, Mapping):
        found = {key: _listed(values) for key, values in given.items()}
    else:
        pairs: list[tuple[str, Any]] = []
        for text in given:
            of_text = PAPER.items() if text == "paper" else _pair("--grid", text, faults)
            pairs += [
                (key, _choices("--grid", key, values, faults) if isinstance(values, str) else values)
                for key, values in of_text
            ]
        found = _unique("--grid", pairs, faults)
    for key, values in found.items():
        _check_choices("--grid", key, values, faults)
    return found


def search_of(given: Given, faults: list[str]) -> dict[str, Range | list[Any]]:
    """Returns key → range or list of values of a search; faults are added to ``faults``."""
    if isinstance(given, Mapping):
        pairs = list(given.items())
    else:
        pairs = [pair for text in given for pair in _pair("--search", text, faults)]
    found: dict[str, Range | list[Any]] = _unique(
        "--search",
        [(key, _space(key, space, faults) if isinstance(space, str) else space) for key, space in pairs],
        faults,
    )
    for key, space in found.items():
        if isinstance(space, list):
            _check_choices("--search", key, space, faults)
            continue
        _check_key("--search", key, faults)
        if fault := space.fault():
            faults.append(f"--search {key}: {fault}")
    return found


def _pair(option: str, text: str, faults: list[str]) -> list[tuple[str, str]]:
    key, equals, values = text.partition("=")
    if equals and key:
        return [(key.strip(), values)]
    faults.append(f"{option} {shown(text)[1:-1]}: expected {_FORMS[option]}")
    return []


def _unique(option: str, pairs: Sequence[tuple[str, Any]], faults: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, values in pairs:
        if key in found:
            faults.append(f"{option} {key}: given twice; list all values once")
        found[key] = values
    return found


def _space(key: str, text: str, faults: list[str]) -> Range | list[Any]:
    match = _RANGE.fullmatch(text)
    if match is None:
        return _choices("--search", key, text, faults)
    ends = [*_choices("--search", key, match["low"], faults), *_choices("--search", key, match["high"], faults)]
    if len(ends) != 2:
        faults.append(f"--search {key}: expected {_FORMS['--search']}")
        return Range(0, 1)
    return Range(ends[0], ends[1], match["log"] is not None)


def _choices(option: str, key: str, text: str, faults: list[str]) -> list[Any]:
    try:
        return _listed(parse_value(f"[{text}]"))
    except RecipeError:
        faults.append(f"{option} {key}: {shown(text)} is not a list of values with a comma between two")
        return [None]


def _listed(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _check_choices(option: str, key: str, values: Sequence[Any], faults: list[str]) -> None:
    _check_key(option, key, faults)
    if not values:
        faults.append(f"{option} {key}: no values; expected {_FORMS[option]}")
    repeated = [value for number, value in enumerate(values) if value in values[:number]]
    faults += [f"{option} {key}: {shown(value)} is given twice" for value in repeated]


def _check_key(option: str, key: str, faults: list[str]) -> None:
    if key in _NOT_IN_A_GRID:
        faults.append(f"{option} {key}: {_NOT_IN_A_GRID[key]}")
    elif key.partition(".")[0] in ("placement", "hub"):
        faults.append(f"{option} {key}: a {key.partition('.')[0]} does not change the scores; give it once with --set")


def label(values: Mapping[str, Any]) -> str:
    """Formats recipe values for messages and names of folders: keys without their block.

    >>> label({"train.learning_rate": 2e-5, "train.global_train_batch_size": 16})
    'learning_rate=2e-05,global_train_batch_size=16'
    """
    return ",".join(f"{key.partition('.')[2]}={value_label(value)}" for key, value in values.items())


def value_label(value: Any) -> str:
    """Formats a recipe value for a table: numbers with at most six digits.

    >>> value_label(3.123456789e-05), value_label(3.0), value_label("mean"), value_label(None)
    ('3.12346e-05', '3', 'mean', 'null')
    """
    if value is None:
        return "null"
    return f"{value:g}" if isinstance(value, float) else str(value)
