"""The values of a grid and the ranges of a search, as given on the command line or from Python."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bertkit.recipe.files import parse_value
from bertkit.runtime.errors import RecipeError, shown
from bertkit.runtime.options import several

PAPER: dict[str, list[Any]] = {
    "train.global_train_batch_size": [16, 32],
    "train.learning_rate": [5e-5, 3e-5, 2e-5],
    "train.num_train_epochs": [2.0, 3.0, 4.0],
}
"""The grid of BERT §A.3; ``--grid paper``."""

Values = str | Sequence[str] | Mapping[str, Any]
"""Strings as on the command line, ``KEY=VALUES``, or a mapping of key to values."""

_RANGE = re.compile(r"(?P<low>[^/]+?)\.\.(?P<high>[^:/]+)(?P<log>:log)?")  # of no paths, as in ../a,../b
_FORMS = {
    "--grid": "paper, or KEY=VALUE,VALUE such as train.learning_rate=2e-5,3e-5",
    "--search": "KEY=LO..HI, KEY=LO..HI:log or KEY=VALUE,VALUE, such as train.learning_rate=1e-5..1e-4:log",
}
# Keys that are no dimension of a grid → what to use instead.
_NOT_IN_A_GRID = {
    "train.seed": "use --seeds",
    "data.folds": "use --folds",
    "data.fold": "use --folds",
    "train.report": "does not change the scores; give it once with --set",
    "task.kind": "a grid is for one task",
}


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high`` to sample from, by logarithm if ``log``; integers if both ends are."""

    low: float
    high: float
    log: bool = False

    @property
    def is_whole(self) -> bool:
        """Returns whether its values are integers."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def examples(self) -> list[float]:
        """Returns its ends, and of numbers that are no integers one between them, as 8.0 is taken for an integer."""
        ends = [self.low, self.high]
        return ends if self.is_whole or self.fault() else [*ends, self.low + (self.high - self.low) / math.pi]

    def fault(self) -> str | None:
        """Returns the fault of the range, or None."""
        if not all(isinstance(end, (int, float)) and not isinstance(end, bool) for end in (self.low, self.high)):
            return f"expected two numbers, got {shown(self.low)} and {shown(self.high)}"
        if not (math.isfinite(self.low) and math.isfinite(self.high)):
            return "expected finite numbers"
        if self.low >= self.high:
            return f"the range from {self.low:g} to {self.high:g} is empty"
        return f"a logarithmic range starts above 0, got {self.low:g}" if self.log and self.low <= 0 else None


def spaces_of(option: str, entries: Values, faults: list[str]) -> dict[str, Any]:
    """Returns key → list of values, or `Range`, of a grid or of a search.

    Args:
        option: ``--grid``, or ``--search``, which may have ranges.
        entries: values as the option has them, or a mapping.
        faults: list to which the faults are added.
    """
    pairs: list[tuple[str, Any]] = []
    if is_mapping := isinstance(entries, Mapping):
        pairs += ((str(key), space) for key, space in entries.items())
    else:
        for text in map(str, several(entries)):
            key, equals, values = text.partition("=")
            if text == "paper" and option == "--grid":
                pairs += PAPER.items()
            elif equals and key:
                pairs.append((key.strip(), values))
            else:
                faults.append(f"{option} {shown(text)[1:-1]}: expected {_FORMS[option]}")
    spaces: dict[str, Any] = {}
    for key, space in pairs:
        if key in spaces:
            faults.append(f"{option} {key}: given twice; list all values once")
        if isinstance(space, str) and (not is_mapping or option == "--search"):
            try:
                space = _parse_values(option, space)
            except RecipeError as error:
                faults.append(f"{option} {key}: {error}")
                continue
        if not isinstance(space, Range):
            spaces[key] = _as_list(space)
        elif option == "--search":
            low, high = _as_list([space.low, space.high])
            spaces[key] = Range(low, high, space.log)
        else:
            faults.append(f"{option} {key}: a range is for --search; expected {_FORMS[option]}")
            continue
        faults += [f"{option} {key}: {fault}" for fault in _faults_of_space(option, key, spaces[key])]
    return spaces


def _parse_values(option: str, text: str) -> Range | list[Any]:
    """Reads the values of a key, or of ``--search`` a range; RecipeError if they are neither."""
    match = _RANGE.fullmatch(text) if option == "--search" else None
    parts = [text] if match is None else [match["low"], match["high"]]
    try:
        values = [value for part in parts for value in _as_list(parse_value(f"[{part}]"))]
    except RecipeError as error:
        raise RecipeError(f"expected values with a comma between two; {error}") from error
    if match is None:
        return values
    if len(values) != 2:
        raise RecipeError(f"expected {_FORMS['--search']}")
    return Range(values[0], values[1], match["log"] is not None)


def _as_list(values: Any) -> list[Any]:
    """Returns values, or a single one, as a list, with numbers of NumPy as those of Python, which JSON has."""
    values = values.tolist() if isinstance(values, np.ndarray) else values
    values = list(values) if isinstance(values, (list, tuple, range)) else [values]
    return [value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value for value in values]


def _faults_of_space(option: str, key: str, space: Range | list[Any]) -> list[str]:
    faults = []
    block = key.partition(".")[0]
    if key in _NOT_IN_A_GRID:
        faults.append(_NOT_IN_A_GRID[key])
    elif block in ("placement", "hub"):
        faults.append(f"a {block} does not change the scores; give it once with --set")
    if isinstance(space, Range):
        return [*faults, *filter(None, [space.fault()])]
    if not space:
        faults.append(f"no values; expected {_FORMS[option]}")
    return faults + [f"{shown(value)} is given twice" for at, value in enumerate(space) if value in space[:at]]


def label(values: Mapping[str, Any]) -> str:
    """Formats recipe values for messages and names of folders: keys without their block.

    >>> label({"train.learning_rate": 2e-5, "train.global_train_batch_size": 16})
    'learning_rate=2e-05,global_train_batch_size=16'
    """
    return ",".join(f"{key.partition('.')[2]}={value_label(value)}" for key, value in values.items())


def value_label(value: Any) -> str:
    """Formats a recipe value for a table: floats with at most six digits.

    >>> value_label(3.123456789e-05), value_label(3.0), value_label("mean"), value_label(None)
    ('3.12346e-05', '3', 'mean', 'null')
    """
    if value is None:
        return "null"
    return f"{value:g}" if isinstance(value, float) else str(value)
