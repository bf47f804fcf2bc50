"""Tables: rows of named columns with the place of each row in the source, and usual names of columns."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import chain, islice
from typing import Any, Self

import numpy as np

from bertkit.data.reading.row_files import missing_column
from bertkit.runtime.errors import DataError, raise_listed, shown
from bertkit.runtime.progress import inflected, say

ROWS_AT_ONCE = 100_000
"""Rows of a file that are read at once; a table of no more rows stays in memory."""

Row = tuple[int, list[str]]
"""Number of a row or line, from 1, and its values."""

_MOST_TITLES = 5  # rows above the names of the columns

# Usual names of columns, found in any case. Pairs come first, since a data set of pairs may also have a column with the
# name of a single text. Of names in one row at most one may occur: it would be a guess which of them is meant.
PAIRS = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("text_a", "text_b"),
    ("text1", "text2"),
    ("sentence_A", "sentence_B"),
    ("text", "text_b"),
    ("text", "text_pair"),
)
TEXTS = (("text",), ("sentence",), ("body", "message", "content", "review", "document", "comment", "tweet"))
LABELS = (
    ("label",),
    ("labels",),
    ("class", "category", "target", "sentiment", "topic", "intent"),
    ("score", "rating", "stars"),
    ("accept",),
)


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of named columns, at least one of each, with the place of each row in the source.

    Attributes:
        columns: column name → values, one per row. CSV and TSV give strings, other formats typed values. None is a
            missing value: a null, or a key that a JSON object lacks; values inside of lists and objects are not
            checked.
        source: the path as given, or the Hub data set with configuration and split; for messages and the model card.
        fingerprint: ``sha256:`` and 16 hexadecimal digits, the same for the same content of the source, also in a
            `part`; empty for table objects, and for rows of a file that is not read as a whole.
        lines: line in which each row starts, or row of a sheet, from 1; None if places are row numbers instead.
        class_names: column → class names in the order of their ids, if the source has them.
        skipped: number of rows skipped because their number of fields differs from that of the header; of a folder,
            number of files left out.
        first_row: number of rows of the source before this part; 0 for a whole table.
        unit: what ``lines`` and the numbers of rows count: ``line``, ``row``, or ``file``, whose path is in ``file``.
    """

    columns: Mapping[str, Sequence[Any]]
    source: str
    fingerprint: str
    lines: Sequence[int] | None = None
    class_names: Mapping[str, list[str]] = field(default_factory=dict)
    skipped: int = 0
    first_row: int = 0
    unit: str = ""

    def __post_init__(self) -> None:
        if not self.unit:
            object.__setattr__(self, "unit", "row" if self.lines is None else "line")

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
        if self.unit == "file":
            return f"{self.source}/{self.numbers_of_rows[row]}"
        return f"{self.source}, {self.unit} {self.numbers_of_rows[row]}"

    @property
    def numbers_of_rows(self) -> Sequence[int] | Sequence[str]:
        """Returns the number of each row in the source, as in `place`; of files their paths below the folder."""
        if self.unit == "file":
            return self.columns["file"]
        return range(self.first_row + 1, self.first_row + len(self) + 1) if self.lines is None else self.lines

    def part(self, rows: Sequence[int]) -> Self:
        """Returns some rows, which keep their places.

        >>> Table({"text": ["a", "b"]}, "x.csv", "", lines=[2, 5]).part([1]).place(0)
        'x.csv, line 5'
        """
        numbers: list[Any] | None = None
        if self.unit != "file":  # whose place is a column
            numbers = [self.numbers_of_rows[row] for row in rows]
        columns = {name: [values[row] for row in rows] for name, values in self.columns.items()}
        return replace(self, columns=columns, lines=numbers)

    def with_names(self, names: Iterable[str]) -> Table:
        """Returns the table with its columns under these names, where they differ in case or white space only.

        >>> list(Table({"Text": ["a"], "ID": [1]}, "x.csv", "").with_names(["text"]).columns)
        ['text', 'ID']
        """
        given = {found: name for name in names if (found := matching(name, self.columns)) not in (None, name)}
        if not given:
            return self
        return replace(
            self,
            columns={given.get(name, name): values for name, values in self.columns.items()},
            class_names={given.get(name, name): classes for name, classes in self.class_names.items()},
        )

    def column(self, name: str) -> Sequence[Any]:
        """Returns the values of one column.

        Raises:
            DataError: the column does not exist or has a missing value, as `select`.
        """
        return self.select(name)[name]

    def select(self, *names: str) -> dict[str, Sequence[Any]]:
        """Returns column name → values for some columns.

        Raises:
            DataError: a column does not exist or has a missing value. The message lists these columns and places, at
                most ten.
        """
        faults = []
        for name in names:
            if name not in self.columns:
                faults.append(f"{self.source}: {missing_column(name, self.columns)}")
                continue
            missing = [row for row, value in enumerate(self.columns[name]) if value is None]
            faults += [f"{self.place(row)}: no value for {name!r}" for row in missing]
        raise_listed(faults)
        return {name: self.columns[name] for name in names}

    def numbers(self, name: str) -> list[float]:
        """Returns the values of a numeric column, such as similarity scores; text is parsed.

        Raises:
            DataError: as `column`; or a value is not a finite number: the message lists at most ten such places.
        """
        values = self.column(name)
        numbers = list(map(to_number, values))
        wrong = [row for row, number in enumerate(numbers) if not math.isfinite(number)]
        raise_listed([f"{self.place(row)}: {name!r} is {shown(values[row])}; expected a number" for row in wrong])
        return numbers


def to_number(value: Any) -> float:
    """Converts a number, or text that contains a number, to float; returns NaN for other values, including bools.

    >>> to_number("1e3"), to_number(2), to_number(True), to_number("one"), to_number("1_2")
    (1000.0, 2.0, nan, nan, nan)
    """
    if isinstance(value, bool) or (isinstance(value, str) and "_" in value):  # float() accepts 1_2 as 12
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


def with_names_first(rows: Iterator[Row], place: str, width: int = 1) -> Iterator[Row]:
    """Returns the rows of a spreadsheet from the one with the names of the columns on, without titles above it.

    That is the first row, unless it has one value, as have the rows down to the names, at most five, or none; the value
    is no usual name of a column and stands not right of the first name; and the names are two or more different words.
    What is left out is printed.

    Args:
        rows: the number and the values of each row; a blank one may have none.
        place: what numbers of rows are shown after, such as ``x.csv, line``.
        width: cells of the row of a title, at least, with empty ones.

    >>> list(with_names_first(iter([(1, ["", "Text"]), (2, ["a", "good"])]), "x.csv, line"))
    [(1, ['', 'Text']), (2, ['a', 'good'])]
    """
    leading = list(islice(rows, 1))
    if not leading or len(_select_filled(leading[0][1])) != 1 or len(leading[0][1]) < width:
        return chain(leading, rows)
    titles: dict[str, int] = {}
    names: dict[int, str] = {}
    for row in islice(rows, _MOST_TITLES):
        titles |= {value: column for column, value in _select_filled(leading[-1][1]).items()}
        leading.append(row)
        names = _select_filled(row[1])
        if len(names) > 1:
            break
    if (
        len(set(names.values())) == len(names) > 1
        and not any(math.isfinite(to_number(name)) for name in names.values())
        and max(titles.values()) <= min(names)
        and not any(matching(title, {*chain(*PAIRS, *TEXTS, *LABELS)}) for title in titles)
    ):
        leading = leading[-1:]
        title = next(iter(titles))
        say(f"{place} {leading[0][0]}: read as the names of the columns, below the title {title!r}")
    return chain(leading, rows)


def _select_filled(row: Sequence[str]) -> dict[int, str]:
    return {column: value for column, value in enumerate(row) if value.strip()}


# ---- columns by their names -------------------------------------------------------------------------------------


def matching(name: str, names: Iterable[str]) -> str | None:
    """Returns the column of a name: this name, or the only one that differs from it in case or white space around it.

    >>> matching("Text", ["id", "TEXT "]), matching("text", ["Text", "TEXT"]), matching("text", ["body"])
    ('TEXT ', None, None)
    """
    names = list(names)
    if name in names:
        return name
    alike = [each for each in names if each.strip().casefold() == name.strip().casefold()]
    return alike[0] if len(alike) == 1 else None


def usual_column(names: Sequence[str], usual: Sequence[str]) -> str | None:
    """Returns the column of the first usual name that occurs, in any case; None without any."""
    return next((column for name in usual if (column := matching(name, names)) is not None), None)


def usual_pair(names: Sequence[str], usual: Sequence[tuple[str, str]] = PAIRS) -> list[str] | None:
    """Returns the two columns of the first usual pair of names that occurs, in any case; None without any.

    >>> usual_pair(["ID", "Premise", "Hypothesis"]), usual_pair(["premise", "text"])
    (['Premise', 'Hypothesis'], None)
    """
    found = ([matching(name, names) for name in pair] for pair in usual)
    return next(([str(column) for column in pair] for pair in found if None not in pair), None)


def find_column(
    names: Sequence[str], requested: str | None, usual: Sequence[str], source: str, option: str, content: str
) -> str:
    """Returns the requested column, or else the first of the usual names among the columns, in any case.

    Messages name the ``source``, the ``option`` that gives the column, such as ``--label-column``, and its ``content``,
    such as ``labels``.

    Raises:
        DataError: the requested column does not exist, or no column has a usual name.
    """
    if requested is not None:
        return existing_column(requested, names, source, option)
    column = usual_column(names, usual)
    if column is None:
        raise DataError(
            f"{source}: none of its columns ({', '.join(names)}) is named {', '.join(usual)}; give the column of the "
            f"{content} with {option}"
        )
    return column


def existing_column(column: str, names: Sequence[str], source: str, option: str) -> str:
    """Returns the column of a requested name, as `matching`; DataError without it."""
    found = matching(column, names)
    if found is None:
        raise DataError(f"{source}: {option}: {missing_column(column, names)}")
    return found


# ---- rows with the same text ----------------------------------------------------------------------------------------


def text_key(texts: Iterable[str]) -> tuple[str, ...]:
    """Returns what is equal for rows with the same text, or of a pair with the same two: the texts without white space
    at their ends. This decides what a copy is, in folds, held-out rows and the check of duplicates."""
    return tuple(text.strip() for text in texts)


def same_texts(rows: Iterable[Iterable[str]]) -> np.ndarray:
    """Returns the number of the text of each row, (N,) int64, the same for rows with the same `text_key`.

    Args:
        rows: the texts of each row: one, or two of a pair.

    >>> same_texts([("good", "a"), ("bad", "a"), ("good ", "a")]).tolist()
    [0, 1, 0]
    """
    # A digest in place of the texts, which may be gigabytes.
    keys = (repr(text_key(texts)).encode() for texts in rows)
    return numbered(blake2b(key, digest_size=16).digest() for key in keys)


def numbered(values: Iterable[Hashable]) -> np.ndarray:
    """Returns the number of each value, (N,) int64: different values are counted from 0 as they come.

    >>> numbered(["b", "a", "b"]).tolist()
    [0, 1, 0]
    """
    numbers: dict[Hashable, int] = {}
    return np.fromiter((numbers.setdefault(value, len(numbers)) for value in values), dtype=np.int64)


def copies_in_words(texts: np.ndarray, unit: str, what: str) -> str:
    """Returns the sentence on rows that have the text of an earlier one, and on what is done with them; empty without
    any. ``texts`` are those of `same_texts`.

    >>> copies_in_words(np.array([0, 0, 1]), "row", "copies stay in one fold")
    '1 of 3 rows has the text of an earlier row; copies stay in one fold'
    """
    number = len(texts) - len(np.unique(texts))
    has = inflected(number, "has", "have")
    return f"{number:,} of {len(texts):,} {unit}s {has} the text of an earlier {unit}; {what}" if number else ""
