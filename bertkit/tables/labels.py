"""What the labels of a table are: one class a row, several, or a number; and which classes there are.

The names of classes are always those of the data: what a checkpoint predicts is to be readable without the table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from bertkit.errors import DataError, listed
from bertkit.tables.table import Table

Problem = Literal["single_label", "multi_label", "regression"]


def problem_of(values: Sequence[Any]) -> Problem:
    """What the labels must be by their form.

    Lists are several labels a row. Numbers with a fraction among them, written or stored, are numbers to predict;
    whole numbers alone are classes, like words.

    >>> problem_of(["3", "1"]), problem_of(["3", "1.5"]), problem_of([["a"], []]), problem_of([0.0, 1.0])
    ('single_label', 'regression', 'multi_label', 'regression')
    """
    if any(isinstance(value, list) for value in values):
        return "multi_label"
    numbers = [_number(value) for value in values]
    if all(number is not None for number in numbers) and any(_is_fraction(value) for value in values):
        return "regression"
    return "single_label"


def class_names(values: Sequence[Any]) -> list[str]:
    """The distinct labels, as text: whole numbers in their order, anything else in that of the alphabet.

    >>> class_names(["no", "yes", "no"]), class_names([10, 9]), class_names([["b"], ["a", "b"]])
    (['no', 'yes'], ['9', '10'], ['a', 'b'])
    """
    flat = [label for value in values for label in (value if isinstance(value, list) else [value])]
    names = {str(label) for label in flat}
    try:
        return sorted(names, key=int)
    except ValueError:
        return sorted(names)


def class_ids(table: Table, column: str, names: Sequence[str]) -> list[int]:
    """The class of every row, as a position in ``names``.

    Raises:
        DataError: a label is none of the names; every such row is named.
    """
    ids = {name: index for index, name in enumerate(names)}
    known = _shown(names)
    faults: list[str] = []
    found: list[int] = []
    for row, value in enumerate(table.column(column)):
        found.append(_class_id(value, ids, table, row, known, faults))
    _raise(faults)
    return found


def class_sets(table: Table, column: str, names: Sequence[str]) -> list[list[float]]:
    """For every row a 1 for each of ``names`` that it has, and a 0 for the others.

    Raises:
        DataError: a row has no list, or a label that is none of the names; every such row is named.
    """
    ids = {name: index for index, name in enumerate(names)}
    known = _shown(names)
    faults: list[str] = []
    found: list[list[float]] = []
    for row, value in enumerate(table.column(column)):
        marks = [0.0] * len(names)
        if isinstance(value, list):
            for label in value:
                marks[_class_id(label, ids, table, row, known, faults)] = 1.0
        else:
            faults.append(f"{table.place(row)}: expected a list of labels, got {value!r}")
        found.append(marks)
    _raise(faults)
    return found


def named(table: Table, column: str) -> Table:
    """The table with the names of classes in a column of ids, where its source tells them; -1 becomes a missing value,
    as which the Hub's sets write it.

    Raises:
        DataError: an id is of no class.
    """
    if column not in table.class_names:
        return table
    names = table.class_names[column]
    values = table.columns[column]
    _raise(
        [
            f"{table.place(row)}: {column} is {value!r}; expected 0 to {len(names) - 1}, a class of {_shown(names)}"
            for row, value in enumerate(values)
            if value is not None and not -1 <= value < len(names)
        ]
    )
    return replace(
        table, columns={**table.columns, column: [None if value in (None, -1) else names[value] for value in values]}
    )


def separated(table: Table, column: str, separator: str) -> Table:
    """The table with lists in a column whose fields hold several labels, as CSV and TSV files do.

    Raises:
        DataError: a field is no text.
    """
    values = table.column(column)
    faults = [
        f"{table.place(row)}: {column} is {value!r}; expected labels with {separator!r} between them"
        for row, value in enumerate(values)
        if not isinstance(value, str)
    ]
    _raise(faults)
    lists = [[label.strip() for label in value.split(separator) if label.strip()] for value in values]
    return replace(table, columns={**table.columns, column: lists})


def texts(table: Table, column: str) -> list[str]:
    """The text of every row, as it stands: "None", "NA" and "null" are words.

    Raises:
        DataError: something is empty, or white space alone, or no text; every such row is named.
    """
    values = table.column(column)
    faults = []
    for row, value in enumerate(values):
        if not isinstance(value, str):
            faults.append(f"{table.place(row)}: {column} is {value!r}; expected text")
        elif not value.strip():
            faults.append(f"{table.place(row)}: {column} is empty; write a text, or leave the row out")
    _raise(faults)
    return values


def _class_id(value: Any, ids: dict[str, int], table: Table, row: int, known: str, faults: list[str]) -> int:
    """0 where the label is unknown, which becomes a fault."""
    if str(value) not in ids:
        faults.append(f"{table.place(row)}: label {str(value)!r} is none of {known}")
    return ids.get(str(value), 0)


def _shown(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:10])) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def _number(value: Any) -> float | None:
    """A finite number, or None; a bool is a class."""
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _is_fraction(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, str) and not value.strip().lstrip("+-").isdigit())


def _raise(faults: list[str]) -> None:
    if faults:
        raise DataError(listed(faults, at_most=10))
