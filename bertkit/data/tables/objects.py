"""Objects as input: tables of pandas, polars, Arrow, ``datasets`` and lists of rows, as `Table` and back; and texts.

A library is imported only for objects of it, and pyarrow also to store a table or to make a column of maps.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.data.reading.row_files import half_of_pair
from bertkit.data.tables.table import Table
from bertkit.data.tables.typed_rows import read_batches
from bertkit.runtime.errors import DataError, quoted, raise_listed, shown
from bertkit.runtime.files import output_error, write_whole
from bertkit.runtime.progress import counted, say

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = "list of dictionaries"
"""Kind of a list of rows, see `kind_of_table`."""

# Library of a table -> how to give the texts of one column.
_COLUMN_OF = {
    "datasets": "list(dataset[{column!r}])",
    "pandas": "frame[{column!r}].tolist()",
    "polars": "frame[{column!r}].to_list()",
    "pyarrow": "table[{column!r}].to_pylist()",
}


def kind_of_table(value: Any) -> str | None:
    """Returns the name of the kind of a table; None for other values, such as a list of texts.

    >>> kind_of_table([{"text": "a"}]), kind_of_table(["a"]), kind_of_table([])
    ('list of dictionaries', None, None)
    """
    for module, names in (
        ("pandas", ("DataFrame",)),
        ("polars", ("DataFrame",)),
        ("pyarrow", ("Table", "RecordBatch")),
        ("datasets", ("Dataset",)),
    ):
        loaded = sys.modules.get(module)
        for name in names if loaded is not None else ():
            if isinstance(value, getattr(loaded, name)):
                return f"{module}.{name}"
    is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    return ROWS if is_list and len(value) and all(isinstance(row, Mapping) for row in value) else None


def refuse_unfinished(value: Any, name: str) -> None:
    """Raises a DataError for what gives a table by one more call: a LazyFrame, and several tables by their names.

    Args:
        name: name of the argument.
    """
    if type(value).__name__ == "LazyFrame":
        raise DataError(f"{name}: is a LazyFrame, whose rows are not computed yet; give frame.collect()")
    if isinstance(value, Mapping) and any(kind_of_table(each) is not None for each in value.values()):
        raise DataError(
            f"{name}: is a {type(value).__name__} of {quoted(map(str, value))}; give one of them: "
            f"tables[{str(next(iter(value)))!r}]"
        )


@dataclass(frozen=True, eq=False)
class FrameTable(Table):
    """Table of a DataFrame of pandas.

    Attributes:
        index: its index, whose labels stand beside the numbers of rows.
    """

    index: Any = None

    def place(self, row: int) -> str:
        at = int(self.numbers_of_rows[row]) - 1
        return f"{super().place(row)} (index {shown(self.index[at : at + 1].tolist()[0])})"


def table_of(value: Any) -> Table:
    """Returns the rows of a table object; what pandas takes for a missing value (NaN, NA, NaT) is None.

    Raises:
        DataError: it has no rows, or no columns, two of one name, or values that cannot be read.
    """
    kind = str(kind_of_table(value))
    if kind == ROWS:
        rows = [{str(name): each for name, each in row.items()} for row in value]
        columns = {name: [row.get(name) for row in rows] for name in dict.fromkeys(chain.from_iterable(rows))}
    elif kind == "pandas.DataFrame":
        if len(set(map(str, value.columns))) < len(value.columns):
            raise DataError(f"the {kind} has several columns of one name: {shown(list(map(str, value.columns)))}")
        columns = {
            str(name): [
                None if lacks else each.tolist() if isinstance(each, np.ndarray) else each  # a list of a Parquet file
                for each, lacks in zip(part.tolist(), part.isna(), strict=True)
            ]
            for name, part in value.items()
        }
    elif kind == "polars.DataFrame":
        columns = value.to_dict(as_series=False)
    else:
        return read_batches([_to_arrow(value)], f"the {kind}")
    if not columns or not len(next(iter(columns.values()))):
        raise DataError(f"the {kind}: no {'rows' if columns or not len(value) else 'columns'}")
    if kind == "pandas.DataFrame":
        return FrameTable(columns, f"the {kind}", "", index=value.index)
    return Table(columns, f"the {kind}", "")


def with_columns(value: Any, columns: Mapping[str, Sequence[Any]]) -> Any:
    """Returns a table object of the kind of another one, with its columns, its index, and more columns.

    Args:
        value: a table object.
        columns: new columns, of as many rows; those of a name that the table has take its place. A column of
            dictionaries, whose keys may differ, is a map in Arrow and polars, and a list of ``key`` and ``value`` in
            ``datasets``, which have no dictionaries.
    """
    kind = kind_of_table(value)
    if kind == ROWS:
        rows = zip(value, zip(*columns.values(), strict=True), strict=True)
        return [{**row, **dict(zip(columns, new, strict=True))} for row, new in rows]
    if kind == "pandas.DataFrame":
        series = sys.modules["pandas"].Series
        return value.assign(**{name: series(list(each), index=value.index) for name, each in columns.items()})
    if kind == "polars.DataFrame":
        series = sys.modules["polars"].Series
        return value.with_columns(
            [
                series(name, _map_column(each) if _are_maps(each) else list(each), strict=False)
                for name, each in columns.items()
            ]
        )
    if kind == "datasets.Dataset":
        value = value.remove_columns([name for name in columns if name in value.column_names])
        for name, each in columns.items():
            if _are_maps(each):
                each = [[{"key": key, "value": of_key} for key, of_key in row.items()] for row in each]
            value = value.add_column(name, list(each))
        return value
    for name, each in columns.items():
        new = _map_column(each) if _are_maps(each) else sys.modules["pyarrow"].array(list(each))
        at = value.schema.get_field_index(name)
        value = value.append_column(name, new) if at < 0 else value.set_column(at, name, new)
    return value


def _are_maps(values: Sequence[Any]) -> bool:
    return len(values) > 0 and all(isinstance(value, Mapping) for value in values)


def _map_column(values: Sequence[Mapping[str, float]]) -> pa.MapArray:
    import pyarrow as pa

    return pa.array([list(value.items()) for value in values], pa.map_(pa.string(), pa.float64()))


def some_rows(value: Any, numbers: Sequence[int]) -> Any:
    """Returns some rows of a table object, given by their numbers from 0, as a table object of its kind."""
    kind = kind_of_table(value)
    if kind == ROWS:
        return [value[number] for number in numbers]
    if kind == "pandas.DataFrame":
        return value.iloc[numbers]
    if kind == "polars.DataFrame":
        return value[list(numbers)]
    return value.select(numbers) if kind == "datasets.Dataset" else value.take(numbers)


def rename_columns(value: Any, names: Mapping[str, str]) -> Any:
    """Returns a table object whose columns have other names.

    Args:
        value: a table object.
        names: name → new name, for all of its columns.
    """
    changed = {name: new for name, new in names.items() if new != name}
    kind = kind_of_table(value)
    if not changed:
        return value
    if kind == ROWS:
        return [{changed.get(name, name): each for name, each in row.items()} for row in value]
    if kind == "pandas.DataFrame":
        return value.rename(columns=changed)
    if kind == "polars.DataFrame":
        return value.rename(changed)
    if kind == "datasets.Dataset":
        return value.rename_columns(changed)
    return value.rename_columns([changed.get(name, name) for name in value.schema.names])


def store_table(value: Any, folder: Path, name: str) -> str:
    """Writes a table object as a Parquet file, whose name has a digest of its content, and returns the path.

    So a run in a recipe, other processes and a later evaluation read the table as any other.

    Raises:
        DataError: Parquet cannot hold it, as a column with values of several types; or it has no rows.
        OutputError: the file cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    kind = kind_of_table(value)
    try:
        if kind == ROWS:
            rows = pa.table(dict(table_of(value).columns))
        elif kind == "pandas.DataFrame":
            rows = pa.Table.from_pandas(value, preserve_index=False)
        else:
            rows = value.to_arrow() if kind == "polars.DataFrame" else _to_arrow(value)
        written = io.BytesIO()
        pq.write_table(rows, written)
    except (pa.ArrowException, ValueError, OverflowError) as error:  # ValueError: names, and half a surrogate pair
        raise DataError(
            f"{name}: the {kind} cannot be stored: each column needs a name of its own, and values of one type that "
            f"Parquet has ({': '.join(map(str, reversed(error.args)))})"
        ) from error
    if not rows.num_rows:
        raise DataError(f"{name}: the {kind} has no rows")
    content = written.getvalue()
    path = folder / f"{name}-{hashlib.sha256(content).hexdigest()[:16]}.parquet"
    if not path.exists():
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise output_error(folder, error) from error
        write_whole(path, content)
    first = " (row 1 is iloc[0])" if kind == "pandas.DataFrame" else ""
    say(f"{name}: {counted(rows.num_rows, 'row')} of the {kind}{first}, kept as {path}")
    return str(path)


def _to_arrow(value: Any) -> pa.Table:
    """Returns an Arrow table of a data set, with the names of its classes, or of a record batch."""
    import pyarrow as pa

    if kind_of_table(value) == "datasets.Dataset":
        value = value.with_format("arrow")[:]
    return pa.Table.from_batches([value]) if isinstance(value, pa.RecordBatch) else value


# ---- texts that are given from Python ----------------------------------------------------------------------------


def list_of_texts(texts: Any, name: str = "texts") -> list[str]:
    """Returns texts that are given from Python as a list: ``[text]`` for one text.

    Args:
        texts: a string, or an iterable of strings: a list, an array, a column of a table.
        name: name of the argument in messages.

    Raises:
        DataError: a table is given, whose iteration gives the names of its columns or its rows; or a value is no
            string, such as None or the NaN of an empty cell; or it holds half of a surrogate pair.

    >>> list_of_texts("a film"), list_of_texts(("a film", "a plot"))
    (['a film'], ['a film', 'a plot'])
    """
    if isinstance(texts, str):
        texts = [texts]
    refuse_unfinished(texts, name)
    names = texts if isinstance(texts, Mapping) else getattr(texts, "column_names", getattr(texts, "columns", None))
    if isinstance(names, Iterable) and hasattr(texts, "__getitem__"):
        columns = list(map(str, names))
        kind, library = type(texts).__name__, type(texts).__module__.partition(".")[0]
        column = "text" if "text" in columns or not columns else columns[0]
        way = _COLUMN_OF.get(library, "table[{column!r}]").format(column=column)
        raise DataError(f"{name}: is a {kind}, with columns; expected texts: give those of one column, such as {way}")
    if not isinstance(texts, Iterable) or isinstance(texts, (bytes, bytearray)):
        raise DataError(f"{name}: is {_describe(texts)}; expected a text or a list of texts")
    values = list(texts)
    wrong = [number for number, value in enumerate(values, 1) if not isinstance(value, str)]
    if wrong:
        first = values[wrong[0] - 1]
        more = f" (and {len(wrong) - 1} more are no texts)" if len(wrong) > 1 else ""
        raise DataError(f"{name}: number {wrong[0]} of {len(values)} is {_describe(first)}{more}; {_suggest(first)}")
    for number, value in enumerate(values, 1):
        if half := half_of_pair(value):
            raise DataError(f"{name}: number {number} of {len(values)} {half}")
    if len(values) == 1 and os.path.splitext(values[0])[1] and os.path.isfile(values[0]):
        remedy = f"to read the file, give --input {values[0]}"
        say(f"note: {values[0]} is a file, and its name is read as the text; {remedy}")
    return values


def with_words(texts: Sequence[str], what: str = "text", before: int = 0) -> Sequence[str]:
    r"""Returns texts as they are; DataError if some are empty, or have half of a surrogate pair.

    A model would give an empty text, or one of white space, a label or a vector as any other. This is the rule for all
    texts that are given one by one; the lines of a file may be empty, so that results keep their lines.

    Args:
        texts: the texts.
        what: name of one of them in messages.
        before: number of texts before them, which count too.

    >>> with_words(["a film"])
    ['a film']
    >>> with_words([" ", "\ud83d"])
    Traceback (most recent call last):
    bertkit.runtime.errors.DataError: 2 faults:
      - text 1: empty; give at least one word
      - text 2: contains an unpaired surrogate, \ud83d, which is not a character; write the text again
    """
    faults = [
        f"{what} {number}: {half or 'empty; give at least one word'}"
        for number, text in enumerate(texts, before + 1)
        if (half := half_of_pair(text)) or not text.strip()
    ]
    raise_listed(faults)
    return texts


def _describe(value: Any) -> str:
    return "None" if value is None else f"{shown(value)} ({type(value).__name__})"


def _suggest(value: Any) -> str:
    if isinstance(value, Mapping):
        column = "text" if "text" in value else next(iter(value), "text")
        return f"expected texts: [row[{column!r}] for row in rows]"
    if hasattr(value, "as_py"):  # a value of Arrow
        return "expected texts: column.to_pylist()"
    if value is None or (isinstance(value, float) and value != value) or type(value).__name__ == "NAType":  # pandas.NA
        return "an empty cell is no text: give texts only, such as frame['text'].dropna().tolist()"
    return "expected texts, such as [str(value) for value in values]"
