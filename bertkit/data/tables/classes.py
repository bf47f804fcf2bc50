"""Classes: the names of labels, and the labels of a table as ids or sets of classes.

Class names are those of the data, so that predictions are readable without the table; only whole numbers as pandas
writes them beside missing values, ``1.0``, get the name ``1``.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import cached_property
from itertools import chain
from typing import Any

from bertkit.data.tables.table import Table, to_number
from bertkit.model.labels_bert import IGNORE_INDEX
from bertkit.runtime.errors import quoted, raise_listed, shown
from bertkit.runtime.progress import inflected

_MOST_LISTED = 10  # classes in a line
_LARGEST_EXACT = 2**53  # whole numbers beyond it share a float: long ids that differ in the last digit
_WHOLE = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,300})(?:\.0*)?")  # not 007 and 1e5, which are names as they are


def is_missing(value: Any) -> bool:
    r"""Returns whether a label is missing: null, NaN, an empty field, or only white space and characters that cannot be
    seen. Words like "None" are labels.

    >>> is_missing(None), is_missing(" \u200b"), is_missing("None"), is_missing(0)
    (True, True, False, False)
    """
    if isinstance(value, str):
        return all(each.isspace() or is_invisible(each) for each in value)
    return value is None or value != value


def _is_label(value: Any) -> bool:
    return isinstance(value, str | int | float | Decimal | date) and not is_missing(value)


def label_texts(values: Iterable[Any]) -> Iterator[str]:
    """Yields the labels of rows as text, without those that are missing or invalid."""
    for value in values:
        for label in value if isinstance(value, list) else [value]:
            if _is_label(label):
                yield str(label)


def _whole(text: str) -> int | None:
    """Returns the value of a whole number, written ``1`` or ``1.0``; ``None`` for other text."""
    return int(text.partition(".")[0]) if _WHOLE.fullmatch(text) else None


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
    labels = dict.fromkeys(label_texts(values))
    numbers = {label: _whole(label) for label in labels}
    if None in numbers.values():
        return {label: label for label in labels}
    return {label: str(number) if "." in label else label for label, number in numbers.items()}


class Classes:
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
        number = self.find(str(label))
        assert number is not None
        return number

    def faults(self, value: Any, column: str) -> list[str]:
        """Returns the faults of one label."""
        if is_missing(value):
            return [f"no value for {column!r}"]
        if not _is_label(value):
            return [f"{column} is {shown(value)}; expected one label"]
        label = str(value)
        if self.find(label) is not None:
            return []
        fault = f"label {shown(label)} is not one of {quoted(self.names, 10)}"
        alike = self.by_appearance.get(appearance(label))
        return [fault if alike is None else f"{fault}; {label!a} and {alike!a} {likeness(label)}"]

    @cached_property
    def by_appearance(self) -> dict[str, str]:
        """Class names by `appearance`."""
        return {appearance(name): name for name in self.names}


def other_spellings(values: Iterable[Any], names: Sequence[str]) -> str:
    """Returns a note on labels that are read as a class of another spelling, such as ``1.0`` as ``1``; else empty.

    >>> other_spellings([1.0, 0.0, 1], ["0", "1"])
    "'0.0', '1.0' are read as '0', '1'"
    """
    classes = Classes(names)
    labels = sorted(label for label in {*label_texts(values)} - {*names} if classes.find(label) is not None)
    if not labels:
        return ""
    read = quoted([names[classes.id(label)] for label in labels])
    return f"{quoted(labels)} {'is' if len(labels) == 1 else 'are'} read as {read}"


def class_ids(table: Table, column: str, names: Sequence[str], others: Collection[int] = ()) -> list[int]:
    """Returns the class of every row as an index into ``names``; ``1.0`` is the class ``1``, and the other way round.

    Args:
        table, column: the labels.
        names: the classes.
        others: rows of other classes, see `rows_of_other_classes`, which get `IGNORE_INDEX`.

    Raises:
        DataError: a label is missing or is not one of ``names``; the message lists the first ten such rows.
    """
    classes = Classes(names)
    values = values_of(table, column)
    raise_listed(
        [
            f"{table.place(row)}: {fault}"
            for row, value in enumerate(values)
            if row not in others
            for fault in classes.faults(value, column)
        ]
    )
    return [IGNORE_INDEX if row in others else classes.id(value) for row, value in enumerate(values)]


def rows_of_other_classes(table: Table, column: str, names: Sequence[str]) -> dict[int, list[str]]:
    """Returns the rows with a label that is none of ``names``, with the different ones that are none."""
    classes = Classes(names)
    found = (
        [label for label in dict.fromkeys(label_texts([value])) if classes.find(label) is None]
        for value in values_of(table, column)
    )
    return {row: labels for row, labels in enumerate(found) if labels}


def has_class(table: Table, column: str, names: Sequence[str]) -> bool:
    """Returns whether a row has one of ``names``."""
    classes = Classes(names)
    return any(classes.find(label) is not None for label in label_texts(values_of(table, column)))


def other_classes_in_words(table: Table, rows: Mapping[int, Sequence[str]], names: Sequence[str]) -> str:
    """Returns the line on the rows of `rows_of_other_classes`: each class, its number of rows and the first of them."""
    first: dict[str, int] = {}
    for row, label in ((row, label) for row, labels in rows.items() for label in labels):
        first.setdefault(label, row)
    counts, alike = Counter(chain.from_iterable(rows.values())), Classes(names).by_appearance
    listed = [
        f"{shown(label)} {counts[label]:,}, first in {table.unit} {table.numbers_of_rows[row]}"
        + (f", and {label!a} and {alike[like]!a} {likeness(label)}" if (like := appearance(label)) in alike else "")
        for label, row in list(first.items())[:_MOST_LISTED]
    ]
    more = f"; and {len(first) - _MOST_LISTED} more" if len(first) > _MOST_LISTED else ""
    have = inflected(len(rows), "has", "have")
    return f"{len(rows):,} of {len(table):,} rows {have} a class that is not in training: {'; '.join(listed)}{more}"


def class_sets(table: Table, column: str, names: Sequence[str], others: Collection[int] = ()) -> list[list[float]]:
    """Returns one multi-hot list per row: 1.0 for each of ``names`` that the row has, 0.0 for the others.

    Args:
        table, column: the lists of labels.
        names: the classes.
        others: rows with labels of other classes too, see `rows_of_other_classes`; these labels are left out.

    Raises:
        DataError: a row does not have a list, or has a label that is not one of ``names``; the message lists the first
            ten faults.
    """
    classes = Classes(names)
    values = [
        [label for label in value if not _is_label(label) or classes.find(str(label)) is not None]
        if row in others and isinstance(value, list)
        else value
        for row, value in enumerate(values_of(table, column))
    ]
    faults: list[str] = []
    for row, value in enumerate(values):
        if isinstance(value, list):
            faults += [f"{table.place(row)}: {fault}" for label in value for fault in classes.faults(label, column)]
        elif is_missing(value):
            faults.append(f"{table.place(row)}: no value for {column!r}")
        else:
            faults.append(
                f"{table.place(row)}: expected a list of labels, got {shown(value)}; if a field contains several, give "
                "the separator with --label-separator"
            )
    raise_listed(faults)
    present = [{classes.id(label) for label in value} for value in values]
    return [[float(number in of_row) for number in range(len(names))] for of_row in present]


def values_of(table: Table, column: str) -> Sequence[Any]:
    """Returns the values of a column, including missing ones, so that one message can list all faults."""
    return table.columns[column] if column in table.columns else table.column(column)


# ---- names that look alike -------------------------------------------------------------------------------------------


def look_alikes(names: Iterable[str]) -> list[list[str]]:
    r"""Returns the groups of names that differ only in case, white space, Unicode form or characters that cannot be
    seen, and of numbers of the same value; names keep their order.

    >>> look_alikes(["pos", "neg", "Pos\u200b ", "caf\u00e9", "cafe\u0301"]) == [
    ...     ["pos", "Pos\u200b "], ["caf\u00e9", "cafe\u0301"]]
    True
    >>> look_alikes(["3.1", "3.10", "3.2"])
    [['3.1', '3.10']]
    """
    groups: dict[str, list[str]] = defaultdict(list)
    for name in names:
        groups[appearance(name)].append(name)
    return [group for group in groups.values() if len(group) > 1]


def appearance(name: str) -> str:
    """Returns the same text for names that look alike."""
    visible = "".join(each for each in unicodedata.normalize("NFKC", name) if not is_invisible(each))
    text = unicodedata.normalize("NFKC", " ".join(visible.casefold().split()))
    if not is_number(text):
        return text
    number, whole = to_number(text), _whole(text)
    return repr(number) if whole is None or abs(whole) <= _LARGEST_EXACT else str(whole)


def likeness(name: str) -> str:
    """Returns how a name and those that look like it differ, as the end of a sentence about them."""
    return "are the same number" if is_number(name) else "differ only in case, white space or Unicode form"


def is_number(text: str) -> bool:
    """Returns whether text is a finite number."""
    return math.isfinite(to_number(text))


def is_invisible(character: str) -> bool:
    """Returns whether a character other than white space is not seen: a format character, such as a zero-width space, a
    control character, or one that selects a variant of the character before it."""
    is_control = unicodedata.category(character) in ("Cf", "Cc") and not character.isspace()
    return is_control or "\ufe00" <= character <= "\ufe0f"
