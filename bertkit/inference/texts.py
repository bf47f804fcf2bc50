"""Texts that are given from Python: one, or several in any iterable; tables are refused with the way to their texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bertkit.errors import DataError

_SHOWN = 60  # characters of a value in a message

# Library of a table -> how to give the texts of one column.
_COLUMN_OF = {
    "datasets": "list(dataset[{column!r}])",
    "pandas": "frame[{column!r}].tolist()",
    "polars": "frame[{column!r}].to_list()",
    "pyarrow": "table[{column!r}].to_pylist()",
}


def list_of_texts(texts: Any, name: str = "texts") -> list[str]:
    """Returns texts that are given from Python as a list: ``[text]`` for one text.

    Args:
        texts: a string, or an iterable of strings: a list, an array, a column of a table.
        name: name of the argument in messages.

    Raises:
        DataError: a table is given, whose iteration gives the names of its columns or its rows; or a value is no
            string, such as None or the NaN of an empty cell.

    >>> list_of_texts("a film"), list_of_texts(("a film", "a plot"))
    (['a film'], ['a film', 'a plot'])
    """
    if isinstance(texts, str):
        return [texts]
    columns = _column_names(texts)
    if columns is not None:
        kind, library = type(texts).__name__, type(texts).__module__.partition(".")[0]
        column = "text" if "text" in columns or not columns else columns[0]
        way = _COLUMN_OF.get(library, "table[{column!r}]").format(column=column)
        raise DataError(f"{name}: is a {kind}, with columns; expected texts: give those of one column, such as {way}")
    if not isinstance(texts, Iterable) or isinstance(texts, (bytes, bytearray)):
        raise DataError(f"{name}: is {_described(texts)}; expected a text or a list of texts")
    values = list(texts)
    wrong = [number for number, value in enumerate(values, 1) if not isinstance(value, str)]
    if wrong:
        first = values[wrong[0] - 1]
        more = f" (and {len(wrong) - 1} more are no texts)" if len(wrong) > 1 else ""
        raise DataError(f"{name}: number {wrong[0]} of {len(values)} is {_described(first)}{more}; {_remedy(first)}")
    return values


def _column_names(table: Any) -> Sequence[str] | None:
    """Returns the names of the columns of a mapping, a data frame, an Arrow table or a data set; None for others."""
    if isinstance(table, Mapping):
        return list(map(str, table))
    names = getattr(table, "column_names", getattr(table, "columns", None))
    return list(map(str, names)) if isinstance(names, Iterable) and hasattr(table, "__getitem__") else None


def _described(value: Any) -> str:
    shown = repr(value)
    shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
    return "None" if value is None else f"{shown} ({type(value).__name__})"


def _remedy(value: Any) -> str:
    if isinstance(value, Mapping):
        column = "text" if "text" in value else next(iter(value), "text")
        return f"expected texts: [row[{column!r}] for row in rows]"
    if hasattr(value, "as_py"):  # a value of Arrow
        return "expected texts: column.to_pylist()"
    if value is None or (isinstance(value, float) and value != value) or type(value).__name__ == "NAType":  # pandas.NA
        return "an empty cell is no text: give texts only, such as frame['text'].dropna().tolist()"
    return "expected texts, such as [str(value) for value in values]"
