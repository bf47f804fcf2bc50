"""Computed rows → the bytes of a JSON lines or Parquet file.

Equal rows give equal bytes: nothing here depends on time, place or process.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from bertkit.json_text import dumps

Form = Literal["jsonl", "parquet"]


def file_bytes(form: Form, rows: Sequence[Mapping[str, Any]], vectors: str | None = None) -> bytes:
    """Returns a file with one row for each mapping, in order.

    In Parquet, a mapping of numbers (probabilities by label) is a map, and other nested values that were computed are
    JSON text: the type of a column must not depend on the rows that are in the file. Numbers of a vector in JSON have
    nine digits, which distinguish every float32 from its neighbours.

    Args:
        form: ``jsonl`` or ``parquet``.
        rows: at least one; a key that a row lacks is null in Parquet.
        vectors: name of a column of float32 arrays (D); None if there is none.
    """
    if form == "jsonl":
        return "".join(dumps(row, ensure_ascii=False, default=_plain) + "\n" for row in rows).encode()
    return _parquet(rows, vectors)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [float(f"{number:.9g}") for number in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)  # dates, times and decimals of Parquet


def _parquet(rows: Sequence[Mapping[str, Any]], vectors: str | None) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = list(dict.fromkeys(name for row in rows for name in row))
    arrays = {}
    for name in names:
        values = [row.get(name) for row in rows]
        if name == vectors:
            joined = np.stack(values).astype(np.float32)  # type: ignore[arg-type]
            ends = np.arange(len(joined) + 1, dtype=np.int32) * joined.shape[1]
            arrays[name] = pa.ListArray.from_arrays(pa.array(ends), pa.array(joined.ravel()))
        else:
            arrays[name] = _array(values)
    written = io.BytesIO()
    pq.write_table(pa.table(arrays), written)
    return written.getvalue()


def _array(values: list[Any]) -> Any:
    import pyarrow as pa

    given = [value for value in values if value is not None]
    if not given:
        return pa.array(values, pa.string())
    if all(isinstance(value, Mapping) and _are_numbers(value) for value in given):
        maps = [None if value is None else [(key, float(each)) for key, each in value.items()] for value in values]
        return pa.array(maps, pa.map_(pa.string(), pa.float64()))
    if not any(isinstance(value, (list, Mapping)) for value in given):
        try:
            return pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # several types in one column of JSON lines
            pass
    return pa.array([None if value is None else dumps(value, ensure_ascii=False, default=_plain) for value in values])


def _are_numbers(value: Mapping[str, Any]) -> bool:
    return bool(value) and all(isinstance(each, float) for each in value.values())
