"""Labels of a table: what they are (one class, several classes or a number per row), decided by `decide` alone; and
the texts of a table, of which none may be empty.

The decision is stated in one line before a training.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from bertkit.data.reading.row_files import half_of_pair
from bertkit.data.tables.classes import (
    Classes,
    class_names,
    is_missing,
    label_texts,
    likeness,
    look_alikes,
    other_spellings,
    values_of,
)
from bertkit.data.tables.table import Table, to_number
from bertkit.runtime.errors import DataError, quoted, raise_listed, shortened, shown
from bertkit.runtime.progress import counted, say

Problem = Literal["single_label", "multi_label", "regression"]

MOST_WHOLE_NUMBERS = 20
"""Different numbers up to which they are the names of classes, if they are whole."""

_PADDED = re.compile(r"[+-]?0[0-9]+")
_WITH_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
_LIKE_MISSING = {"na", "n/a", "nan", "none", "null"}
_INFERENCE = {"entailment", "neutral", "contradiction", "not_entailment"}
_MOST_LISTED = 10  # classes of which a line lists all; of more the first
_FIRST = 5


class Labels(NamedTuple):
    """Kind of problem and class names of the labels of a column.

    Attributes:
        problem: the kind of problem.
        names: the class names in the order of their ids; none for regression.
        counts: number of rows of each class; empty for regression.
        reason: why the problem was taken for this one, and what is unusual about the names of the classes.
        span: how many different numbers there are, and from where to where; empty for classes.
    """

    problem: Problem
    names: list[str]
    counts: Mapping[str, int]
    reason: str
    span: str = ""

    @property
    def line(self) -> str:
        """Sentence on the problem, the classes with their counts, and what is unusual about their names."""
        number = len(self.names)
        classes = f" with {number} {'class' if number == 1 else 'classes'} ({list_counts(self.counts)})"
        return f"problem: {self.problem}{self.span or classes}, {self.reason}"

    def line_of(self, labels: Iterable[Any]) -> str:
        """Returns the sentence with the counts of some of the rows.

        Args:
            labels: the class of each row as its id, or which classes it has, (C,) of 0 and 1; numbers have no counts.
        """
        if self.problem == "regression":
            return self.line
        rows = Counter[int]()
        for label in labels:
            rows.update([label] if self.problem == "single_label" else (c for c, has in enumerate(label) if has))
        return self._replace(counts={name: rows[c] for c, name in enumerate(self.names)}).line


def decide(table: Table, column: str, problem: Problem | None = None, names: Sequence[str] = ()) -> Labels:
    """Decides what the labels of a training set are.

    Args:
        table: the training set.
        column: column of the labels.
        problem: the kind of problem; ``None`` infers it as `infer_problem`.
        names: the class names, if they are known in advance.

    Raises:
        DataError: as `infer_problem`; or the labels are objects.
    """
    _refuse_objects(table, column, "labels")
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
        span = f" from {numbers[0]:.10g} to {numbers[-1]:.10g}" if numbers else ""
        return Labels(problem, [], {}, why, f" ({counted(len(numbers), 'different number', form=',')}{span})")
    names = list(names) or class_names(values)
    classes = Classes(names)
    rows = Counter(text for text in label_texts(values) if classes.find(text) is not None)
    counts = dict.fromkeys(names, 0)
    for text, count in rows.items():
        counts[names[classes.id(text)]] += count
    return Labels(problem, names, counts, "; ".join([why, *_collect_remarks(rows, counts)]))


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
            ones. Or there are few different numbers, and some have decimals: these can be both. Or more than 20 are
            different numbers with a comma, such as ``2,9``, which can be several labels too.

    >>> infer_problem(Table({"label": ["1.0", "0.0", ""]}, "x.csv", ""), "label")
    ('single_label', 'inferred from 2 labels: whole numbers')
    >>> infer_problem(Table({"version": ["3.1", "3.10", "4"]}, "x.csv", ""), "version")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    bertkit.runtime.errors.DataError: x.csv: 'version' has a few different numbers, some with decimals ('3.1', ...
    """
    values = table.columns[column]
    lists, words, numbers = _rows_of_forms(values)
    known = f"inferred from {counted(len(lists) + len(words) + len(numbers), 'label', form=',')}"
    if lists:
        are_single = all(len(values[row]) == 1 for row in lists)
        remedy = f", each of one label; give {remedies[0]} if no row can have several" if are_single else ""
        return "multi_label", f"{known}: lists{remedy}"
    raise_listed(list(faults_of_kinds(table, column, remedies[0]).values()))
    if _have_commas(values, words, numbers):
        raise DataError(
            f"{table.source}: {column!r} has numbers with commas, such as {shown(values[words[0]])}; write them with "
            f"decimal points, such as by pandas.read_csv(…, decimal=','); or give {remedies[0]} if they are names of "
            "classes, or --label-separator ',' if a row has several labels"
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
            f"({quoted(sorted(spellings))}); give {remedies[1]} if they are amounts, or "
            f"{remedies[0]} if they are names of classes"
        )
    return "single_label", f"{known}: whole numbers"


def faults_of_kinds(table: Table, column: str, remedy: str = "--problem single_label") -> dict[int, str]:
    """Returns the rows whose labels are words where most are numbers, or numbers where most are words, with what is
    wrong with each; none where a row has a list, nor where most have commas."""
    values = table.columns[column]
    lists, words, numbers = _rows_of_forms(values)
    if lists or not (words and numbers) or _have_commas(values, words, numbers):
        return {}
    fewer, others, what = (words, numbers, "") if len(words) <= len(numbers) else (numbers, words, "no ")
    rest = counted(len(others), f"other label is {what or 'a '}finite number", f"other labels are {what}finite numbers")
    return {
        row: f"{table.place(row)}: {column!r} is {shown(values[row])}, where {rest}, such as "
        f"{shown(values[others[0]])}; mend or remove the row, or give {remedy} if all are names of classes"
        for row in fewer
    }


def _have_commas(values: Sequence[Any], words: Sequence[int], numbers: Sequence[int]) -> bool:
    """Returns whether most labels are many different numbers with a comma, as ``2,9``."""
    different = {values[row] for row in words if isinstance(values[row], str)}
    if len(words) < len(numbers) or len(different) <= MOST_WHOLE_NUMBERS:
        return False
    return all(isinstance(values[row], str) and _WITH_COMMA.fullmatch(values[row].strip()) for row in words)


def _rows_of_forms(values: Sequence[Any]) -> tuple[list[int], list[int], list[int]]:
    """Returns the rows whose labels are lists, words and numbers, without those that are missing."""
    rows: dict[str, list[int]] = {"list": [], "word": [], "number": []}
    for row, value in enumerate(values):
        if isinstance(value, list):
            rows["list"].append(row)
        elif not is_missing(value):
            rows["number" if math.isfinite(to_number(value)) else "word"].append(row)
    return rows["list"], rows["word"], rows["number"]


def whole_numbers(values: Iterable[Any]) -> set[int]:
    """Returns the different numbers of a column, missing values aside, if all are whole; none for other columns.

    >>> whole_numbers(["1", 0.0, None]), whole_numbers(["1", "one"])
    ({0, 1}, set())
    """
    numbers = {to_number(value) for value in values if not is_missing(value)}
    return set(map(int, numbers)) if all(number.is_integer() for number in numbers) else set()


def named(table: Table, column: str, names: Sequence[str] = ()) -> Table:
    """Replaces class ids, or lists of class ids, by the class names of the source, or else by given ones.

    -1 becomes a missing value: Hub data sets use it for a missing label.

    Args:
        table: the rows.
        column: column of the ids.
        names: the class names, in the order of their ids, of a source that does not have them; for columns whose values
            are all whole numbers.

    Raises:
        DataError: an id is not that of a class.
    """
    values = table.columns[column]
    if column in table.class_names:
        names = table.class_names[column]
    elif names and whole_numbers(values):
        values = [None if is_missing(value) else int(to_number(value)) for value in values]
    else:
        return table
    raise_listed(
        [
            f"{table.place(row)}: {column} is {value!r}; expected 0 to {len(names) - 1}, a class of {quoted(names)}"
            for row, value in enumerate(values)
            for each in (value if isinstance(value, list) else [value])
            if each is not None and not -1 <= each < len(names)
        ]
    )
    by_id: dict[int | None, str | None] = {None: None, -1: None, **dict(enumerate(names))}
    written = [[by_id[each] for each in value] if isinstance(value, list) else by_id[value] for value in values]
    return replace(table, columns={**table.columns, column: written})


def labelled(table: Table, column: str, names: Sequence[str] = ()) -> Table:
    """Returns the rows whose annotators agreed on a label, with class names in the place of ids, as `named`.

    The other rows have the id -1, or "-" among the words of natural language inference. How many are left out is
    printed. A table without any label is returned whole.
    """
    found = named(table, column, names)
    are_ids, values = found is not table, table.columns[column]
    if are_ids:
        are_out = [to_number(value) == -1 for value in values]
    else:
        words = {value.casefold() for value in values if isinstance(value, str)} - {"-"}
        are_out = [bool(words) and words <= _INFERENCE and value == "-" for value in values]
    rows = [row for row, is_out in enumerate(are_out) if not is_out]
    if not rows or len(rows) == len(values):
        return found
    left_out = f"{len(values) - len(rows):,} of {len(values):,} rows"
    say(f"{table.source}: left out {left_out}, which have no label ({column} is {'-1' if are_ids else '-'})")
    return found.part(rows)


def texts(table: Table, column: str) -> Sequence[str]:
    """Returns the text of every row unchanged: "None", "NA" and "null" are words.

    Raises:
        DataError: a value is missing, empty, only white space, not a string, or has half of a surrogate pair; the
            message lists the first ten such rows.
    """
    values = values_of(table, column)
    _refuse_objects(table, column, "text")
    raise_listed(list(faults_of_texts(table, column).values()))
    return values


def _refuse_objects(table: Table, column: str, expected: str) -> None:
    if nested := next((value for value in values_of(table, column) if isinstance(value, Mapping) and value), None):
        names = [f"{column}.{name}" for name in nested]
        raise DataError(
            f"{table.source}: {column} has objects; expected {expected}: flatten the table, so that {quoted(names)} "
            f"{'are columns' if len(names) > 1 else 'is a column'}"
        )


def faults_of_texts(table: Table, column: str) -> dict[int, str]:
    """Returns the rows without a text, with what is wrong with each."""
    faults = {}
    for row, value in enumerate(values_of(table, column)):
        if value is None:
            faults[row] = f"{table.place(row)}: no value for {column!r}"
        elif not isinstance(value, str):
            faults[row] = f"{table.place(row)}: {column} is {shown(value)}; expected text"
        elif not value.strip():
            faults[row] = f"{table.place(row)}: {column} is empty; write a text, or remove the row"
        elif half := half_of_pair(value):
            faults[row] = f"{table.place(row)}: {column} {half}"
    return faults


def _collect_remarks(rows: Mapping[str, int], counts: Mapping[str, int]) -> list[str]:
    """Returns what is unusual about the labels of a training set, from the rows of each label and of each class."""
    remarks = [other_spellings(rows, list(counts))]
    if words := [name for name in counts if name.strip().casefold() in _LIKE_MISSING]:
        what = "is the name of a class" if len(words) == 1 else "are names of classes"
        remarks.append(f"{quoted(words)} {what}, as any other word; a missing label is an empty field")
    if {"-1", "0"} <= counts.keys():
        remarks.append("'-1' is a class of its own; remove its rows if they have no label, as in data sets of the Hub")
    for separator in "#,;|":
        joined = [
            name
            for name in counts
            if separator in name and not counts.keys().isdisjoint(map(str.strip, name.split(separator)))
        ]
        if joined:
            remarks.append(
                f"{quoted(joined, 3)} {'has' if len(joined) == 1 else 'have'} other labels as parts; give "
                f"--label-separator '{separator}' if these are several labels of a row"
            )
    return [*filter(None, remarks), *warnings_of_look_alikes(rows, counts)]


def warnings_of_look_alikes(rows: Mapping[str, int], classes: Collection[str]) -> list[str]:
    """Returns warnings of labels that look alike, with their rows; those that are no classes are spellings of one."""
    remarks = []
    for group in look_alikes(sorted(rows)):
        labels = " and ".join(f"{label!a} {rows[label]:,}" for label in group)
        are_one = sum(label in classes for label in group) < 2  # 1 and 1.0
        what = "are one class" if are_one else f"{likeness(group[0])}, and each is a class of its own"
        remarks.append(f"warning: {labels} {what}")
    return remarks


def list_counts(counts: Mapping[str, int]) -> str:
    """Formats classes with their counts: up to ten, or of more the first five and the range of the other counts.

    >>> list_counts({"no": 12, "yes": 3000})
    "'no' 12, 'yes' 3,000"
    >>> list_counts({f"c{number}": 9 + number for number in range(77)})
    "'c0' 9, 'c1' 10, 'c2' 11, 'c3' 12, 'c4' 13 and 72 more, each 14 to 85"
    """
    number = _FIRST if len(counts) > _MOST_LISTED else len(counts)
    first = ", ".join(f"{shortened(repr(name), 60)} {count:,}" for name, count in list(counts.items())[:number])
    others = sorted(list(counts.values())[number:])
    if not others:
        return first
    span = f"{others[0]:,}" if others[0] == others[-1] else f"{others[0]:,} to {others[-1]:,}"
    return f"{first} and {len(others)} more, each {span}"
