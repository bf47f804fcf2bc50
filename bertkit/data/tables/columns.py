"""The choice among the columns of a table: those of labels and texts, requested or of usual names; else a question that
shows what the columns look like, and how to answer it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from bertkit.data.tables.classes import is_missing
from bertkit.data.tables.table import LABELS, TEXTS, Table, existing_column, matching, to_number, usual_pair
from bertkit.runtime.errors import DataError, quoted
from bertkit.runtime.options import how_to_give

_ROWS = 1000  # that are looked at
_MOST_LISTED = 20  # columns of a question
_SHORTEST_TEXT = 15  # characters on average
_MOST_CLASSES, _MOST_NUMBERS = 100, 20  # different values that look like labels


class _Wanted(NamedTuple):
    """Use of a column, texts or labels, and the option and the argument that give it."""

    content: str
    flag: str
    argument: str


_LABEL_COLUMN = _Wanted("labels", "--label-column", "label_column")
_TEXT_COLUMNS = _Wanted("text", "--text-column", "text_columns")
_TEXT_COLUMN = _Wanted("text", "--text-column", "text_column")


def label_and_text_columns(table: Table, label: str | None, texts: Sequence[str]) -> tuple[str, list[str]]:
    """Returns the column of the labels and those of the text, one or a pair: requested, or of a usual name in any case;
    the text may also be in the only other column.

    Raises:
        DataError: a requested column does not exist or is requested for both; or it is unclear which columns are meant.
    """
    names = list(table.columns)
    if label is None and {"annotations", "data"} <= {*names}:
        raise DataError(
            f"{table.source}: has the tasks of Label Studio; export JSON-MIN or CSV, and give the "
            "column of the choices with --label-column"
        )
    if label is None and table.unit == "file" and {*names} == {"file", "text"}:
        raise DataError(
            f"{table.source}: its files have no labels; move them into a subfolder for each label, or write "
            "metadata.csv with the columns file_name and label"
        )
    if label is None:
        requested = _existing(table, texts, _TEXT_COLUMNS)
        of_label = _find_usual([name for name in names if name not in requested], LABELS)
    else:
        of_label = _existing(table, [label], _LABEL_COLUMN)
    known_label = of_label[0] if len(of_label) == 1 else ""
    of_text = _texts(table, texts, known_label)
    unclear = {} if known_label else {_LABEL_COLUMN: of_label}
    if not of_text.are_known and (known_label or len(names) > 2):  # of two columns, the one without labels has the text
        unclear = {_TEXT_COLUMNS: of_text.columns, **unclear}
    if unclear:
        raise _ask(table, unclear, {known_label, *(of_text.columns if of_text.are_known else ())})
    return known_label, of_text.columns


def text_columns(table: Table, requested: Sequence[str], label: str | None = None) -> list[str]:
    """Returns the column of the text, or the two of a pair, as `label_and_text_columns` for a known label or none.

    Raises:
        DataError: a requested column does not exist, has the labels or is given twice; or it is unclear which is meant.
    """
    found = _texts(table, requested, label or "")
    if not found.are_known:
        raise _ask(table, {_TEXT_COLUMNS: found.columns}, {label or ""})
    return found.columns


def the_text_column(table: Table, requested: str | None) -> str:
    """Returns the column of single texts, to compute vectors of: requested, else of a usual name, or the only one.

    Raises:
        DataError: as `text_columns`.
    """
    names = list(table.columns)
    if requested is not None:
        return _existing(table, [requested], _TEXT_COLUMN)[0]
    found = _find_usual(names, TEXTS) or (names if len(names) == 1 else [])
    if len(found) != 1:
        raise _ask(table, {_TEXT_COLUMN: found}, set())
    return found[0]


class _Found(NamedTuple):
    """Columns of texts, or several of which one is meant."""

    columns: list[str]
    are_known: bool


def _texts(table: Table, requested: Sequence[str], label: str) -> _Found:
    if requested:
        found = _existing(table, requested, _TEXT_COLUMNS)
        if label in found:
            raise DataError(f"{table.source}: --text-column {label}: this column contains the labels; give another")
        twice = max(found, key=found.count)
        if found.count(twice) > 1:
            raise DataError(f"{table.source}: --text-column {twice}: given twice; a pair has two columns")
        return _Found(found, True)
    others = [name for name in table.columns if name != label]
    if (pair := usual_pair(others)) is not None:
        return _Found(pair, True)
    found = _find_usual(others, TEXTS) or (others if len(others) == 1 else [])
    return _Found(found, len(found) == 1)


def _existing(table: Table, requested: Sequence[str], wanted: _Wanted) -> list[str]:
    return [existing_column(name, list(table.columns), table.source, wanted.flag) for name in requested]


def _find_usual(names: Sequence[str], usual: Sequence[Sequence[str]]) -> list[str]:
    """Returns the columns of the first row of usual names of which one occurs: several of a row are equally likely."""
    rows = ([column for name in row if (column := matching(name, names)) is not None] for row in usual)
    return next(filter(None, rows), [])


# ---- the question ----------------------------------------------------------------------------------------------------


class _Look(NamedTuple):
    """Description of the values of a column.

    Attributes:
        description: its values in a few words.
        characters: their average length if they may be texts, else 0.
        classes: how many different ones there are if they may be labels, else 0.
        are_numbers: all of them are numbers.
    """

    description: str
    characters: float = 0.0
    classes: int = 0
    are_numbers: bool = False


def _ask(table: Table, unclear: dict[_Wanted, list[str]], known: set[str]) -> DataError:
    """Returns the error that asks for columns.

    Args:
        table: the table.
        unclear: what is looked for, and the columns that may have it by their names; none if their names say nothing.
        known: columns that are known to be something else.
    """
    looks = {name: _look(table, name) for name in table.columns}
    others = [name for name in looks if name not in known]
    likely: dict[_Wanted, list[str]] = {}
    for wanted, named in unclear.items():
        taken = [columns[0] for columns in likely.values() if columns]
        among = [name for name in named or others if name in others and name not in taken]
        if wanted is _LABEL_COLUMN:
            found = [name for name in among if looks[name].classes]
            found.sort(key=lambda name: (looks[name].are_numbers, looks[name].classes))
        else:
            found = [name for name in among if looks[name].characters]
            found = sorted(found, key=lambda name: -looks[name].characters)[:1]
        likely[wanted] = found or (among if named or len(among) == 1 else [])
    contents = " and ".join(f"the {wanted.content}" for wanted in unclear)
    lines = [f"{table.source}: cannot tell which of its columns {'have' if len(unclear) > 1 else 'has'} {contents}:"]
    for name, look in list(looks.items())[:_MOST_LISTED]:
        like = [wanted.content for wanted, columns in likely.items() if name in columns]
        lines.append(f"  {name!r}: {look.description}" + "".join(f"; may be the {content}" for content in like))
    if len(looks) > _MOST_LISTED:
        lines.append(f"  … and {len(looks) - _MOST_LISTED} more")
    given = [(wanted.flag, wanted.argument, (likely[wanted] or ["COLUMN"])[0]) for wanted in unclear]
    note = " (--text-column twice for a pair)" if _TEXT_COLUMNS in unclear else ""
    return DataError("\n".join([*lines, how_to_give(given, note)]))


def _look(table: Table, name: str) -> _Look:
    """Looks at the first rows of a column."""
    values = [value for value in table.columns[name][:_ROWS] if not is_missing(value)]
    if not values:
        return _Look("empty")
    texts = list(map(str, values))
    different = len(set(texts))
    repeat = 2 <= different <= len(texts) / 2
    if different == 1 < len(texts):
        return _Look(f"always {quoted(texts[:1])}")
    numbers = [to_number(value) for value in values]
    if all(map(math.isfinite, numbers)):
        are_classes = repeat and different <= _MOST_NUMBERS and all(number.is_integer() for number in numbers)
        return _Look(f"numbers, {different:,} different", 0, different * are_classes, True)
    characters = fmean(map(len, texts))
    characters = characters if characters >= _SHORTEST_TEXT else 0
    if repeat and different <= _MOST_CLASSES:
        return _Look(f"{different} different values: {quoted(dict.fromkeys(texts), 3)}", characters, different)
    described = f"texts of about {characters:.0f} characters" if characters else f"values such as {quoted(texts[:1])}"
    return _Look(described, characters)
