"""Selection of the text and label columns of a table, as requested or by their usual names."""

from __future__ import annotations

from collections.abc import Sequence

from bertkit.errors import DataError
from bertkit.reading.row_files import missing_column

# Pairs come first, since a data set of pairs may also have a column with the name of a single text.
_TEXTS = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("text_a", "text_b"),
    ("text1", "text2"),
    ("text",),
    ("sentence",),
    ("content",),
    ("review",),
    ("document",),
    ("comment",),
)
_LABELS = ("label", "labels", "class", "category", "target", "score")


def find_column(
    names: Sequence[str], requested: str | None, usual: Sequence[str], source: str, option: str, content: str
) -> str:
    """Returns the requested column, or the first usual name among the columns.

    Args:
        names: names of all columns.
        requested: the column; ``None`` looks for a usual name.
        usual: usual names in the order of preference.
        source: name of the table in messages.
        option: option that gives the column, such as ``--label-column``.
        content: what the column contains, such as ``labels``.

    Raises:
        DataError: the requested column does not exist, or no column has a usual name.
    """
    if requested is not None:
        return _existing(requested, names, source, option)
    column = next((name for name in usual if name in names), None)
    if column is None:
        raise DataError(
            f"{source}: none of its columns ({', '.join(names)}) is named {', '.join(usual)}; give the column of the "
            f"{content} with {option}"
        )
    return column


def label_column(names: Sequence[str], requested: str | None, source: str) -> str:
    """Returns the column of the labels; arguments and errors as of `find_column`."""
    return find_column(names, requested, _LABELS, source, "--label-column", "labels")


def text_columns(names: Sequence[str], requested: Sequence[str], label: str, source: str) -> list[str]:
    """Returns the column of the text, or the two columns of the pair.

    Args:
        names: names of all columns.
        requested: the columns; if empty, the usual names, or the only column besides the label.
        label: the label column.
        source: name of the table in messages.

    Raises:
        DataError: a column does not exist or is the label column, or the choice is ambiguous.
    """
    if requested:
        if label in requested:
            raise DataError(f"{source}: --text-column {label}: this column contains the labels; give another")
        return [_existing(name, names, source, "--text-column") for name in requested]
    for usual in _TEXTS:
        if set(usual) <= set(names) - {label}:
            return list(usual)
    others = [name for name in names if name != label]
    if len(others) == 1:
        return others
    raise DataError(
        f"{source}: cannot determine which of its columns ({', '.join(names)}) contain the text; give --text-column, "
        "twice for a pair"
    )


def _existing(column: str, names: Sequence[str], source: str, option: str) -> str:
    if column not in names:
        raise DataError(f"{source}: {option}: {missing_column(column, names)}")
    return column
