"""Labels of a table (one class, several classes or a number per row) and the class names.

Class names are always those of the data, so that predictions are readable without the table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from bertkit.errors import raise_listed, shown
from bertkit.tables.table import Table, to_number

Problem = Literal["single_label", "multi_label", "regression"]


def is_missing(value: Any) -> bool:
    """Returns whether a label is missing: null, NaN, an empty field or white space. Words like "None" are labels.

    >>> is_missing(None), is_missing(" "), is_missing("None"), is_missing(0)
    (True, True, False, False)
    """
    return value is None or value != value or (isinstance(value, str) and not value.strip())


def infer_problem(table: Table, column: str) -> tuple[Problem, str]:
    """Infers the kind of problem from the form of the labels; missing labels are ignored.

    Lists mean several labels per row. Numbers mean regression if at least one is a float or is text that is not a whole
    number; whole numbers only are classes, like words.

    Returns:
        The problem, and the numbers of labels from which it was inferred, as text.

    Raises:
        DataError: some labels are finite numbers and others are not, such as ``N/A``, ``nan`` or ``inf`` among scores:
            either they are dirt, or the numbers are names of classes. The message lists the first ten of the fewer
            ones.

    >>> infer_problem(Table({"score": ["3", "1.5", ""]}, "x.csv", ""), "score")
    ('regression', 'inferred from 2 labels: numbers, 1 not written as a whole number (the first: x.csv, row 2)')
    """
    values = table.columns[column]
    rows: dict[str, list[int]] = {"list": [], "word": [], "whole": [], "fraction": []}
    for row, value in enumerate(values):
        if not is_missing(value):
            rows[_form(value)].append(row)
    lists, words, whole, fractions = rows.values()
    known = f"inferred from {len(lists) + len(words) + len(whole) + len(fractions)} labels"
    if lists:
        return "multi_label", f"{known}: lists"
    if words and (whole or fractions):
        numbers = sorted([*whole, *fractions])
        fewer, others, what = (words, numbers, "") if len(words) <= len(numbers) else (numbers, words, "no ")
        raise_listed(
            [
                f"{table.place(row)}: {column!r} is {shown(values[row])}, where {len(others)} other labels are {what}"
                f"finite numbers, such as {shown(values[others[0]])}; mend or remove the row, or give --problem "
                "single_label if all are names of classes"
                for row in fewer
            ]
        )
    if fractions:
        first = table.place(fractions[0])
        return (
            "regression",
            f"{known}: numbers, {len(fractions)} not written as a whole number (the first: {first})",
        )
    return "single_label", f"{known}: {'words' if words else 'whole numbers'}"


def _form(value: Any) -> str:
    if isinstance(value, list):
        return "list"
    if not math.isfinite(to_number(value)):
        return "word"
    return "fraction" if _is_fraction(value) else "whole"


def class_names(values: Sequence[Any]) -> list[str]:
    """Returns the distinct labels as text: whole numbers in numeric order, anything else in alphabetical order.

    Missing and invalid labels are skipped; `class_ids` and `class_sets` raise an error for them.

    >>> class_names(["no", "yes", "no"]), class_names([10, 9]), class_names([["b"], ["a", "b"]])
    (['no', 'yes'], ['9', '10'], ['a', 'b'])
    """
    flat = [label for value in values for label in (value if isinstance(value, list) else [value])]
    names = {str(label) for label in flat if _is_label(label)}
    try:
        return sorted(names, key=lambda name: (int(name), name))  # 1 and 01 are two names
    except ValueError:
        return sorted(names)


def class_ids(table: Table, column: str, names: Sequence[str]) -> list[int]:
    """Returns the class of every row as an index into ``names``.

    Raises:
        DataError: a label is missing or is not one of ``names``; the message lists the first ten such rows.
    """
    ids = {name: index for index, name in enumerate(names)}
    values = _values(table, column)
    raise_listed(
        [f"{table.place(row)}: {fault}" for row, value in enumerate(values) for fault in _faults(value, column, ids)]
    )
    return [ids[str(value)] for value in values]


def class_sets(table: Table, column: str, names: Sequence[str]) -> list[list[float]]:
    """Returns one multi-hot list per row: 1.0 for each of ``names`` that the row has, 0.0 for the others.

    Raises:
        DataError: a row does not have a list, or has a label that is not one of ``names``; the message lists the first
            ten faults.
    """
    ids = {name: index for index, name in enumerate(names)}
    values = _values(table, column)
    faults: list[str] = []
    for row, value in enumerate(values):
        if isinstance(value, list):
            faults += [f"{table.place(row)}: {fault}" for label in value for fault in _faults(label, column, ids)]
        elif value is None:
            faults.append(f"{table.place(row)}: no value for {column!r}")
        else:
            faults.append(
                f"{table.place(row)}: expected a list of labels, got {shown(value)}; if a field contains several, give "
                "the separator with --label-separator"
            )
    raise_listed(faults)
    return [
        [float(name in present) for name in names] for present in ({str(each) for each in value} for value in values)
    ]


def named(table: Table, column: str) -> Table:
    """Replaces class ids, or lists of class ids, by the class names of the source.

    -1 becomes a missing value: Hub data sets use it for a missing label.

    Raises:
        DataError: an id is not that of a class.
    """
    if column not in table.class_names:
        return table
    names = table.class_names[column]
    values = table.columns[column]
    raise_listed(
        [
            f"{table.place(row)}: {column} is {value!r}; expected 0 to {len(names) - 1}, a class of {_shown(names)}"
            for row, value in enumerate(values)
            for each in (value if isinstance(value, list) else [value])
            if each is not None and not -1 <= each < len(names)
        ]
    )
    by_id: dict[int | None, str | None] = {None: None, -1: None, **dict(enumerate(names))}
    written = [[by_id[each] for each in value] if isinstance(value, list) else by_id[value] for value in values]
    return replace(table, columns={**table.columns, column: written})


def separated(table: Table, column: str, separator: str) -> Table:
    """Splits the fields of a column that hold several labels, as in CSV and TSV files, into lists.

    An empty field becomes an empty list; values other than text are unchanged, and `class_sets` checks them.
    """
    lists = [
        [label.strip() for label in value.split(separator) if label.strip()] if isinstance(value, str) else value
        for value in table.columns[column]
    ]
    return replace(table, columns={**table.columns, column: lists})


def texts(table: Table, column: str) -> list[str]:
    """Returns the text of every row unchanged: "None", "NA" and "null" are words.

    Raises:
        DataError: a value is missing, empty, only white space, or not a string; the message lists the first ten such
            rows.
    """
    values = _values(table, column)
    faults = []
    for row, value in enumerate(values):
        if value is None:
            faults.append(f"{table.place(row)}: no value for {column!r}")
        elif not isinstance(value, str):
            faults.append(f"{table.place(row)}: {column} is {shown(value)}; expected text")
        elif not value.strip():
            faults.append(f"{table.place(row)}: {column} is empty; write a text, or remove the row")
    raise_listed(faults)
    return values


def _values(table: Table, column: str) -> list[Any]:
    """Returns the values of a column, including missing ones, so that one message can list all faults."""
    return table.columns[column] if column in table.columns else table.column(column)


def _is_label(value: Any) -> bool:
    return isinstance(value, str | int | float) and not is_missing(value)


def _faults(value: Any, column: str, ids: Mapping[str, int]) -> list[str]:
    """Returns the faults of one label."""
    if is_missing(value):
        return [f"no value for {column!r}"]
    if not _is_label(value):
        return [f"{column} is {shown(value)}; expected one label"]
    return [] if str(value) in ids else [f"label {shown(str(value))} is not one of {_shown(list(ids))}"]


def _shown(names: Sequence[str]) -> str:
    return ", ".join(map(shown, names[:10])) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def _is_fraction(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, str) and not value.strip().lstrip("+-").isdigit())
