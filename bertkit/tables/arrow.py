"""Arrow batches → tables: Parquet files and rows of Hub data sets."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from bertkit.errors import raise_listed
from bertkit.reading.text_files import iterating
from bertkit.tables.table import Table, repeated_names

if TYPE_CHECKING:
    import pyarrow as pa


def read_batches(
    batches: Iterable[pa.RecordBatch | pa.Table], source: str, fingerprint: str, first_row: int = 0
) -> Table:
    """Builds a table from batches of one schema; lists and structs become Python lists and dicts.

    The class names are those that the ``datasets`` library stores in the schema.

    Args:
        batches: from `bertkit.reading.row_files.parquet_batches`, or of a data set.
        source: name of the source in messages.
        fingerprint: fingerprint of the table.
        first_row: number of rows of the source before the batches.

    Raises:
        DataError: there are no rows, columns share a name, or a value cannot be read, such as text that is not UTF-8.
            The message lists the first ten faults with their rows.
    """
    columns: dict[str, list[Any]] = {}
    class_names: dict[str, list[str]] = {}
    faults: list[str] = []
    rows = 0
    with iterating(batches) as remaining:
        for batch in remaining:
            if not rows:
                raise_listed(repeated_names(batch.schema.names, source))
                columns = {name: [] for name in batch.schema.names}
                class_names = _class_names(batch.schema)
            for name, values in zip(columns, batch.columns, strict=True):
                try:
                    columns[name] += values.to_pylist()
                except (ValueError, OverflowError):
                    faults += _unreadable(values, name, source, first_row + rows)
            rows += batch.num_rows
    if not any(columns.values()) and not faults:
        faults.append(f"{source}: no rows")
    raise_listed(faults)
    return Table(columns, source, fingerprint, class_names=class_names, first_row=first_row)


def _unreadable(values: pa.Array | pa.ChunkedArray, name: str, source: str, first: int) -> list[str]:
    faults = []
    for row, value in enumerate(values, first + 1):
        try:
            value.as_py()
        except (ValueError, OverflowError) as error:
            faults.append(f"{source}, row {row}: {name!r} cannot be read ({error}); write this value again")
    return faults


def _class_names(schema: pa.Schema) -> dict[str, list[str]]:
    """Returns column → class names for columns of classes and of lists of classes.

    Those of a field of objects, or of lists of objects, are named ``column.field``.
    """
    described = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
    return _names_in((described.get("info") or {}).get("features") or {})


def _names_in(features: dict[str, Any], prefix: str = "") -> dict[str, list[str]]:
    class_names: dict[str, list[str]] = {}
    for name, feature in features.items():
        while isinstance(feature, dict) and feature.get("_type") in ("List", "LargeList", "Sequence"):
            feature = feature["feature"]
        if isinstance(feature, dict) and feature.get("_type") == "ClassLabel":
            class_names[prefix + name] = list(feature["names"])
        elif isinstance(feature, dict) and not isinstance(feature.get("_type"), str):
            class_names |= _names_in(feature, f"{prefix}{name}.")
    return class_names
