"""Which columns of a table hold its texts and its labels: as told, or by the names that such columns usually have."""

from __future__ import annotations

from collections.abc import Sequence

from bertkit.errors import DataError, did_you_mean

# Pairs before single texts, since a set of pairs may also have a column named like a text.
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
    """The column of the labels.

    Args:
        names: of all columns.
        given: the one that was asked for, or None for the first usual name that there is.
        source: what messages call the table.

    Raises:
        DataError: there is no such column, or none of a usual name.
    """
    if given is not None:
        _check([given], names, source, "--label-column")
        return given
    for usual in _LABELS:
        if usual in names:
            return usual
    raise DataError(
        f"{source}: none of its columns ({', '.join(names)}) is named {', '.join(_LABELS)}; say with --label-column "
        "which one holds the labels"
    )


def text_columns(names: Sequence[str], given: Sequence[str], label: str, source: str) -> list[str]:
    """The column of the text, or the two columns of the pair.

    Args:
        names: of all columns.
        given: those that were asked for; none for the usual names, or for the only column beside the label.
        label: the column of the labels.
        source: what messages call the table.

    Raises:
        DataError: there is no such column, it is that of the labels, or it cannot be told which are meant.
    """
    if given:
        _check(given, names, source, "--text-column")
        if label in given:
            raise DataError(f"{source}: --text-column {label}: this column holds the labels; name another")
        return list(given)
    for usual in _TEXTS:
        if set(usual) <= set(names) - {label}:
            return list(usual)
    others = [name for name in names if name != label]
    if len(others) == 1:
        return others
    raise DataError(
        f"{source}: which of its columns ({', '.join(names)}) hold the text? Say so with --text-column, given twice "
        "for a pair"
    )


def _check(given: Sequence[str], names: Sequence[str], source: str, flag: str) -> None:
    for name in given:
        if name not in names:
            raise DataError(
                f"{source}: {flag} {name}: no such column among {', '.join(names)}{did_you_mean(name, names)}"
            )
