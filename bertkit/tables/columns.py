"""Selection of the text and label columns of a table, as given or by their usual names."""

from __future__ import annotations

from collections.abc import Sequence

from bertkit.errors import DataError, did_you_mean

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


def label_column(names: Sequence[str], given: str | None, source: str) -> str:
    """Returns the column of the labels.

    Args:
        names: names of all columns.
        given: the requested column, or None for the first usual name among ``names``.
        source: name of the table in messages.

    Raises:
        DataError: the requested column does not exist, or no column has a usual name.
    """
    if given is not None:
        _check([given], names, source, "--label-column")
        return given
    for usual in _LABELS:
        if usual in names:
            return usual
    raise DataError(
        f"{source}: none of its columns ({', '.join(names)}) is named {', '.join(_LABELS)}; give the label "
        "column with --label-column"
    )


def text_columns(names: Sequence[str], given: Sequence[str], label: str, source: str) -> list[str]:
    """Returns the column of the text, or the two columns of the pair.

    Args:
        names: names of all columns.
        given: the requested columns; if empty, the usual names, or the only column besides the label.
        label: the label column.
        source: name of the table in messages.

    Raises:
        DataError: a column does not exist or is the label column, or the choice is ambiguous.
    """
    if given:
        _check(given, names, source, "--text-column")
        if label in given:
            raise DataError(f"{source}: --text-column {label}: this column contains the labels; give another")
        return list(given)
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


def _check(given: Sequence[str], names: Sequence[str], source: str, flag: str) -> None:
    for name in given:
        if name not in names:
            raise DataError(
                f"{source}: {flag} {name}: no such column among {', '.join(names)}{did_you_mean(name, names)}"
            )
