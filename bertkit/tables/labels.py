"""Labels of a table (one class, several classes or a number per row) and the class names.

What the values of a column become is decided here alone, by `decide`, and stated in one line before a training. Class
names are those of the data, so that predictions are readable without the table; only whole numbers as pandas writes
them beside missing values, ``1.0``, get the name ``1``.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal, NamedTuple

from bertkit.errors import DataError, raise_listed, shortened, shown
from bertkit.tables.spelling import appearance, is_invisible, is_number, likeness, look_alikes
from bertkit.tables.table import Table, to_number

Problem = Literal["single_label", "multi_label", "regression"]

MOST_WHOLE_NUMBERS = 20
"""Different numbers up to which they are the names of classes, if they are whole."""

_WHOLE = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,300})(?:\.0*)?")  # not 007 and 1e5, which are names as they are
_PADDED = re.compile(r"[+-]?0[0-9]+")
_LIKE_MISSING = {"na", "n/a", "nan", "none", "null"}
_MOST_LISTED = 20  # classes in a line


class Labels(NamedTuple):
    """Kind of problem and class names of the labels of a column.

    Attributes:
        problem: the kind of problem.
        names: the class names in the order of their ids; none for regression.
        line: a sentence on the problem, the classes with their counts, and what is unusual about their names.
    """

    problem: Problem
    names: list[str]
    line: str


def is_missing(value: Any) -> bool:
    r"""Returns whether a label is missing: null, NaN, an empty field, or only white space and characters that cannot be
    seen. Words like "None" are labels.

    >>> is_missing(None), is_missing(" \u200b"), is_missing("None"), is_missing(0)
    (True, True, False, False)
    """
    if isinstance(value, str):
        return all(each.isspace() or is_invisible(each) for each in value)
    return value is None or value != value


def decide(table: Table, column: str, problem: Problem | None = None, names: Sequence[str] = ()) -> Labels:
    """Decides what the labels of a training set are.

    Args:
        table: the training set.
        column: column of the labels.
        problem: the kind of problem; ``None`` infers it as `infer_problem`.
        names: the class names, if they are known in advance.

    Raises:
        DataError: as `infer_problem`.
    """
    values = table.columns[column]
    if problem is not None:
        why = "as given"
    elif names:
        problem = "multi_label" if any(isinstance(value, list) for value in values) else "single_label"
        why = "with names that are given"
    else:
        problem, why = infer_problem(table, column)
    if problem == "regression":
        numbers = sorted({number for number in map(to_number, values) if math.isfinite(number)})
        span = f" from {numbers[0]:g} to {numbers[-1]:g}" if numbers else ""
        return Labels(problem, [], f"problem: regression ({len(numbers):,} different numbers{span}), {why}")
    names = list(names) or class_names(values)
    classes = _Classes(names)
    rows = Counter(text for text in _labels(values) if classes.find(text) is not None)
    counts = dict.fromkeys(names, 0)
    for text, count in rows.items():
        counts[names[classes.id(text)]] += count
    line = f"problem: {problem} with {len(names)} {'class' if len(names) == 1 else 'classes'} ({listed(counts)}), {why}"
    return Labels(problem, names, "; ".join([line, *_remarks(rows, counts)]))


def infer_problem(
    table: Table, column: str, remedies: tuple[str, str] = ("--problem single_label", "--problem regression")
) -> tuple[Problem, str]:
    """Infers the kind of problem from the form of the labels; missing labels are ignored.

    Lists mean several labels per row, words one class per row. At most 20 different whole numbers (``1``, ``1.0``,
    ``1e5``) are classes as well, and any number of them if some are written with zeros in front (``007``). More than
    20 different numbers are a regression.

    Args:
        table: the rows.
        column: column of the labels.
        remedies: what to give where the labels are names of classes, and where they are numbers, for messages.

    Returns:
        The problem, and what it was inferred from, as text.

    Raises:
        DataError: some labels are finite numbers and others are not, such as ``N/A``, ``nan`` or ``inf`` among scores:
            either they are dirt, or the numbers are names of classes. The message lists the first ten of the fewer
            ones. Or there are few different numbers, and some have decimals: these can be both.

    >>> infer_problem(Table({"label": ["1.0", "0.0", ""]}, "x.csv", ""), "label")
    ('single_label', 'inferred from 2 labels: whole numbers')
    >>> infer_problem(Table({"version": ["3.1", "3.10", "4"]}, "x.csv", ""), "version")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    bertkit.errors.DataError: x.csv: 'version' has a few different numbers, some with decimals ('3.1', '3.10', '4'); ...
    """
    values = table.columns[column]
    rows: dict[str, list[int]] = {"list": [], "word": [], "number": []}
    for row, value in enumerate(values):
        if not is_missing(value):
            rows[_form(value)].append(row)
    lists, words, numbers = rows.values()
    known = f"inferred from {len(lists) + len(words) + len(numbers):,} labels"
    if lists:
        return "multi_label", f"{known}: lists"
    if words and numbers:
        fewer, others, what = (words, numbers, "") if len(words) <= len(numbers) else (numbers, words, "no ")
        raise_listed(
            [
                f"{table.place(row)}: {column!r} is {shown(values[row])}, where {len(others)} other labels are {what}"
                f"finite numbers, such as {shown(values[others[0]])}; mend or remove the row, or give "
                f"{remedies[0]} if all are names of classes"
                for row in fewer
            ]
        )
    if not numbers:
        return "single_label", f"{known}: words"
    spellings = {str(values[row]).strip(): to_number(values[row]) for row in numbers}
    different = sorted(set(spellings.values()))
    are_whole = all(number.is_integer() for number in different)
    if are_whole and any(map(_PADDED.fullmatch, spellings)):
        return "single_label", f"{known}: whole numbers, some with zeros in front"
    if len(different) > MOST_WHOLE_NUMBERS:
        return "regression", f"{known}; give {remedies[0]} if the numbers are names of classes"
    if not are_whole:
        raise DataError(
            f"{table.source}: {column!r} has a few different numbers, some with decimals "
            f"({_listed(sorted(spellings))}); give {remedies[1]} if they are amounts, or "
            f"{remedies[0]} if they are names of classes"
        )
    return "single_label", f"{known}: whole numbers"


def _form(value: Any) -> str:
    if isinstance(value, list):
        return "list"
    return "number" if math.isfinite(to_number(value)) else "word"


def class_names(values: Iterable[Any]) -> list[str]:
    """Returns the distinct labels as text: whole numbers in numeric order, anything else in alphabetical order.

    Missing and invalid labels are skipped; `class_ids` and `class_sets` raise an error for them.

    >>> class_names(["no", "yes", "no"]), class_names([10, 9]), class_names([["b"], ["a", "b"]])
    (['no', 'yes'], ['9', '10'], ['a', 'b'])
    >>> class_names([1.0, 0.0]), class_names(["1.0", "1.1"])
    (['0', '1'], ['1.0', '1.1'])
    """
    names = set(names_of_labels(values).values())
    if all(is_number(name) and to_number(name).is_integer() for name in names):
        return sorted(names, key=lambda name: (to_number(name), name))  # 1 and 01 are two names
    return sorted(names)


def names_of_labels(values: Iterable[Any]) -> dict[str, str]:
    """Returns the class name of each distinct label, both as text: the label itself, or ``1`` for ``1.0`` if all labels
    are whole numbers."""
    labels = dict.fromkeys(_labels(values))
    numbers = {label: _whole(label) for label in labels}
    if None in numbers.values():
        return {label: label for label in labels}
    return {label: str(number) if "." in label else label for label, number in numbers.items()}


def class_ids(table: Table, column: str, names: Sequence[str]) -> list[int]:
    """Returns the class of every row as an index into ``names``; ``1.0`` is the class ``1``, and the other way round.

    Raises:
        DataError: a label is missing or is not one of ``names``; the message lists the first ten such rows.
    """
    classes = _Classes(names)
    values = _values(table, column)
    raise_listed(
        [f"{table.place(row)}: {fault}" for row, value in enumerate(values) for fault in classes.faults(value, column)]
    )
    return [classes.id(value) for value in values]


def class_sets(table: Table, column: str, names: Sequence[str]) -> list[list[float]]:
    """Returns one multi-hot list per row: 1.0 for each of ``names`` that the row has, 0.0 for the others.

    Raises:
        DataError: a row does not have a list, or has a label that is not one of ``names``; the message lists the first
            ten faults.
    """
    classes = _Classes(names)
    values = _values(table, column)
    faults: list[str] = []
    for row, value in enumerate(values):
        if isinstance(value, list):
            faults += [f"{table.place(row)}: {fault}" for label in value for fault in classes.faults(label, column)]
        elif value is None:
            faults.append(f"{table.place(row)}: no value for {column!r}")
        else:
            faults.append(
                f"{table.place(row)}: expected a list of labels, got {shown(value)}; if a field contains several, give "
                "the separator with --label-separator"
            )
    raise_listed(faults)
    present = [{classes.id(label) for label in value} for value in values]
    return [[float(number in of_row) for number in range(len(names))] for of_row in present]


class _Classes:
    """Class names, among which labels are found by their text, or whole numbers by their value."""

    def __init__(self, names: Sequence[str]):
        self.names = names
        self._ids = {name: number for number, name in enumerate(names)}
        wholes = Counter(map(_whole, names))
        self._by_value = {_whole(name): number for name, number in self._ids.items() if wholes[_whole(name)] == 1}

    def find(self, label: str) -> int | None:
        """Returns the id of a label; ``None`` if it is no class."""
        if label in self._ids or (number := _whole(label)) is None:
            return self._ids.get(label)
        return self._ids.get(str(number), self._by_value.get(number))

    def id(self, label: Any) -> int:
        """Returns the id of a label without faults."""
        found = self.find(str(label))
        assert found is not None
        return found

    def faults(self, value: Any, column: str) -> list[str]:
        """Returns the faults of one label."""
        if is_missing(value):
            return [f"no value for {column!r}"]
        if not _is_label(value):
            return [f"{column} is {shown(value)}; expected one label"]
        label = str(value)
        if self.find(label) is not None:
            return []
        fault = f"label {shown(label)} is not one of {_listed(self.names)}"
        alike = self._by_appearance.get(appearance(label))
        return [fault if alike is None else f"{fault}; {label!a} and {alike!a} {likeness(label)}"]

    @cached_property
    def _by_appearance(self) -> dict[str, str]:
        return {appearance(name): name for name in self.names}


def other_spellings(values: Iterable[Any], names: Sequence[str]) -> str:
    """Returns a note on labels that are read as a class of another spelling, such as ``1.0`` as ``1``; else empty.

    >>> other_spellings([1.0, 0.0, 1], ["0", "1"])
    "'0.0', '1.0' are read as '0', '1'"
    """
    classes = _Classes(names)
    labels = sorted(label for label in {*_labels(values)} - {*names} if classes.find(label) is not None)
    if not labels:
        return ""
    read = _listed([names[classes.id(label)] for label in labels])
    return f"{_listed(labels)} {'is' if len(labels) == 1 else 'are'} read as {read}"


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
            f"{table.place(row)}: {column} is {value!r}; expected 0 to {len(names) - 1}, a class of {_listed(names)}"
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


def _remarks(rows: Mapping[str, int], counts: Mapping[str, int]) -> list[str]:
    """Returns what is unusual about the labels of a training set.

    Args:
        rows: number of rows of each label as it is written.
        counts: number of rows of each class.
    """
    remarks = [other_spellings(rows, list(counts))]
    if words := [name for name in counts if name.strip().casefold() in _LIKE_MISSING]:
        what = "is the name of a class" if len(words) == 1 else "are names of classes"
        remarks.append(f"{_listed(words)} {what}, as any other word; a missing label is an empty field")
    return [*filter(None, remarks), *warnings_of_look_alikes(rows, counts)]


def warnings_of_look_alikes(rows: Mapping[str, int], classes: Collection[str]) -> list[str]:
    """Returns warnings of labels that look alike.

    Args:
        rows: number of rows of each label.
        classes: labels that are classes; others of the same value are the same class.
    """
    remarks = []
    for group in look_alikes(sorted(rows)):
        named = " and ".join(f"{label!a} {rows[label]:,}" for label in group)
        are_one = sum(label in classes for label in group) < 2  # 1 and 1.0
        what = "are one class" if are_one else f"{likeness(group[0])}, and each is a class of its own"
        remarks.append(f"warning: {named} {what}")
    return remarks


def listed(counts: Mapping[str, int]) -> str:
    """Formats classes with their counts, at most 20 of them.

    >>> listed({"no": 12, "yes": 3000})
    "'no' 12, 'yes' 3,000"
    """
    first = [f"{shortened(repr(name), 60)} {count:,}" for name, count in list(counts.items())[:_MOST_LISTED]]
    return ", ".join(first) + (f" and {len(counts) - _MOST_LISTED} more" if len(counts) > _MOST_LISTED else "")


def _values(table: Table, column: str) -> list[Any]:
    """Returns the values of a column, including missing ones, so that one message can list all faults."""
    return table.columns[column] if column in table.columns else table.column(column)


def _labels(values: Iterable[Any]) -> Iterator[str]:
    """Yields the labels of rows as text, without those that are missing or invalid."""
    for value in values:
        for label in value if isinstance(value, list) else [value]:
            if _is_label(label):
                yield str(label)


def _is_label(value: Any) -> bool:
    return isinstance(value, str | int | float | Decimal | date) and not is_missing(value)


def _whole(text: str) -> int | None:
    """Returns the value of a whole number, written ``1`` or ``1.0``; ``None`` for other text."""
    return int(text.partition(".")[0]) if _WHOLE.fullmatch(text) else None


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(shown, names[:10])) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
