"""Rows of named columns with their places in the source."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bertkit.errors import did_you_mean, raise_listed


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of named columns, at least one of each, with the place of each row in the source.

    Attributes:
        columns: name → a value a row. CSV and TSV give strings, the other kinds what they hold. None is a missing
            value: a null, or a key that a JSON object lacks; the values within lists and objects are not looked at.
        source: the file as it was given, or the Hub set with configuration and split; for messages and the model card.
        fingerprint: ``sha256:`` and 16 hexadecimal digits, the same for the same content.
        lines: the line that each row begins in, 1 is the first of the file; None where rows are counted instead.
        class_names: column → the names of its classes in the order of their ids, where the source tells them.
        skipped: how many rows with another number of fields than the header were left out.
        first_row: how many rows of the source are before this part of it; 0 for a whole table.
    """

    columns: Mapping[str, list[Any]]
    source: str
    fingerprint: str
    lines: Sequence[int] | None = None
    class_names: Mapping[str, list[str]] = field(default_factory=dict)
    skipped: int = 0
    first_row: int = 0

    def __len__(self) -> int:
        """Returns the number of rows."""
        return len(next(iter(self.columns.values())))

    def place(self, row: int) -> str:
        """Describes the place of a row; 0 is the first row.

        >>> Table({"text": ["a", "b"]}, "reviews.csv", "", lines=[2, 5]).place(1)
        'reviews.csv, line 5'
        >>> Table({"text": ["a", "b"]}, "org/reviews (test)", "").place(1)
        'org/reviews (test), row 2'
        """
        if self.lines is None:
            return f"{self.source}, row {self.first_row + row + 1}"
        return f"{self.source}, line {self.lines[row]}"

    def column(self, name: str) -> list[Any]:
        """Returns the values of one column.

        Raises:
            DataError: there is no such column, or a value of it is missing; as `select`.
        """
        return self.select(name)[name]

    def select(self, *names: str) -> dict[str, list[Any]]:
        """Returns column name → values for some columns.

        Raises:
            DataError: a column does not exist, or has a missing value. The message names all such columns and places
                together, at most ten of them.
        """
        faults = []
        for name in names:
            if name not in self.columns:
                known = ", ".join(map(repr, self.columns))
                faults.append(f"{self.source}: no column {name!r}; there is {known}{did_you_mean(name, self.columns)}")
                continue
            missing = [row for row, value in enumerate(self.columns[name]) if value is None]
            faults += [f"{self.place(row)}: no value for {name!r}" for row in missing]
        raise_listed(faults)
        return {name: self.columns[name] for name in names}

    def numbers(self, name: str) -> list[float]:
        """Returns the values of a column of numbers, such as similarity scores; text is parsed.

        Raises:
            DataError: as `column`; or a value is no finite number: the message names at most ten such places.
        """
        values = self.column(name)
        numbers = list(map(to_number, values))
        wrong = [row for row, number in enumerate(numbers) if not math.isfinite(number)]
        raise_listed([f"{self.place(row)}: {name!r} is {values[row]!r}; expected a number" for row in wrong])
        return numbers


def to_number(value: Any) -> float:
    """Returns the number that a value is or, if it is text, writes; NaN for any other value, bools included.

    >>> to_number("1e3"), to_number(2), to_number(True), to_number("one")
    (1000.0, 2.0, nan, nan)
    """
    if isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def repeated_names(names: Sequence[str], place: str) -> list[str]:
    """Returns the faults of column names that occur more than once.

    >>> repeated_names(["a", "b", "a"], "x.csv, line 1")
    ["x.csv, line 1: 2 columns are named 'a'; expected one of each name"]
    """
    return [
        f"{place}: {count} columns are named {name!r}; expected one of each name"
        for name, count in Counter(names).items()
        if count > 1
    ]
