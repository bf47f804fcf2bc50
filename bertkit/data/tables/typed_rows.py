"""Rows of typed values: JSON lines, lists of JSON objects, and batches of Arrow, from Parquet files and data sets."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import sys
from array import array
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.data.reading.row_files import json_object, lone_surrogate, unique_keys
from bertkit.data.tables.encodings import as_utf8
from bertkit.data.tables.table import Table, repeated_names
from bertkit.runtime.errors import DataError, raise_listed, shown
from bertkit.runtime.json_text import dumps
from bertkit.runtime.reading.text import decode_text, iterating, read_blocks

if TYPE_CHECKING:
    import pyarrow as pa

JSON = ".json"
_SPACE = re.compile(r"[ \t\r\n]*+")
_A_LIST = "expected a list of objects, [{…}, {…}]; if it has one object per line, rename it to end in .jsonl"


def json_parts(
    lines: Iterable[str], source: str, size: int = sys.maxsize, *, may_be_empty: bool = False
) -> Iterator[Table]:
    """Yields a table in parts of ``size`` rows, from JSON objects, one per line; blank lines are skipped.

    The columns of a part are the keys of all objects up to its last, in order of first appearance. A missing key gives
    None, as does a null.

    Args:
        lines: from `bertkit.runtime.reading.text.decode_lines`.
        source: name of the file in messages.
        size: rows of a part.
        may_be_empty: text without rows gives no parts.

    Raises:
        DataError: a line is not a JSON object, a text contains half of a surrogate pair, which is not a character, or
            no object of the first part has a key; after the parts before the fault. The message lists the first ten
            faults of a part with their lines.

    >>> [table] = json_parts(['{"text": "a", "label": 1}', '{"text": "b"}'], "x.jsonl")
    >>> table.columns
    {'text': ['a', 'b'], 'label': [1, None]}
    """
    names: dict[str, None] = {}
    faults: list[str] = []
    with iterating(lines) as remaining:
        rows = _parse_rows(remaining, source, faults)
        is_empty = True
        while part := list(islice(rows, size)):
            is_empty = False
            if faults:
                break
            for _, row in part:
                names.update(dict.fromkeys(row))
            if not names:
                break
            columns = {name: [row.get(name) for _, row in part] for name in names}
            yield Table(columns, source, "", array("q", [number for number, _ in part]))
    if not names and not faults and not (is_empty and may_be_empty):
        found = "no rows" if is_empty else "objects without keys"
        faults.append(f'{source}: {found}; expected one JSON object per line, such as {{"text": …, "label": …}}')
    raise_listed(faults)


def _parse_rows(lines: Iterable[str], source: str, faults: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the objects with their line numbers; adds the faults of invalid lines to ``faults``."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json_object(line, "text")
            if half := lone_surrogate(row, line):
                raise DataError(f"it {half}")
        except DataError as fault:
            faults.append(f"{source}, line {number}: {fault}")
        else:
            yield number, row


# ---- lists ----------------------------------------------------------------------------------------------------------


def read_json_list(path: str | Path) -> Table:
    """Reads a list of JSON objects, as Label Studio exports; a row is an object, its place the line of its
    beginning, or its number if there are several in a line.

    The columns are the keys of all objects, in order of first appearance; a missing key gives None.

    Args:
        path: ``.json`` file, in UTF-8 or what `as_utf8` knows; ``~`` is the home folder.

    Raises:
        DataError: the file cannot be read, is not JSON, or is not a list of objects with at least one key; or a text
            has half of a surrogate pair. The message names at most ten such places.
    """
    path = Path(os.path.expanduser(path))
    data = b"".join(read_blocks(path, ""))
    text = decode_text(b"".join(as_utf8([data], str(path))), str(path))
    rows, lines, faults = [], array("q"), list[str]()
    for line, value, written in _parse_elements(text, str(path)):
        if not isinstance(value, dict):
            faults.append(f"{path}, line {line}: {shown(value)} is not an object; {_A_LIST}")
        elif half := lone_surrogate(value, written):
            faults.append(f"{path}, line {line}: it {half}")
        else:
            rows.append(value)
            lines.append(line)
    names = dict.fromkeys(name for row in rows for name in row)
    if not names and not faults:
        faults.append(f"{path}: no rows; {_A_LIST}")
    raise_listed(faults)
    columns = {name: [row.get(name) for row in rows] for name in names}
    are_places = len(set(lines)) == len(rows)  # else several rows are in a line
    fingerprint = f"sha256:{hashlib.sha256(data).hexdigest()[:16]}"
    return Table(columns, str(path), fingerprint, lines if are_places else None)


def _parse_elements(text: str, source: str) -> Iterator[tuple[int, Any, str]]:
    """Yields the elements of a JSON list: line, value, and the JSON text of the value."""
    decoder = json.JSONDecoder(object_pairs_hook=unique_keys)
    line, counted = 1, 0
    start, end = _next(text, 0)
    if start != "[":
        raise DataError(f"{source}: {_list_within(text) or _A_LIST}")
    following, at = _next(text, end + 1)
    while following != "]":
        line, counted = line + text.count("\n", counted, at), at
        try:
            value, end = decoder.raw_decode(text, at)
            yield line, value, text[at:end]
            following, at = _next(text, end)
            if following == ",":
                _, at = _next(text, at + 1)
            elif following != "]":
                raise json.JSONDecodeError("Expecting ',' or ']'", text, at)
        except json.JSONDecodeError as error:
            raise DataError(f"{source}, line {error.lineno}: not valid JSON ({error.msg}); {_A_LIST}") from error
        except DataError as fault:
            raise DataError(f"{source}, line {line}: {fault}") from fault
        except (ValueError, RecursionError) as error:  # a number of thousands of digits, or deep nesting
            raise DataError(f"{source}, line {line}: not valid JSON ({error}); {_A_LIST}") from error
    following, end = _next(text, at + 1)
    if following:
        line += text.count("\n", counted, end)
        raise DataError(f"{source}, line {line}: more than one list, or other text behind it; {_A_LIST}")


def _list_within(text: str) -> str:
    """Returns how to get at the list of objects that is a value of an object, as services export; empty without one."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    values = value.items() if isinstance(value, dict) else ()
    key = next((key for key, each in values if isinstance(each, list) and each and isinstance(each[0], dict)), None)
    if key is None:
        return ""
    chosen = shlex.quote(f".[{dumps(key, ensure_ascii=False)}]")
    return f"an object, whose {key!r} is a list of objects; save the list: jq {chosen} OLD > NEW"


def _next(text: str, at: int) -> tuple[str, int]:
    """Returns the next character that is not white space, empty at the end, and its position."""
    match = _SPACE.match(text, at)
    assert match is not None
    return text[match.end() : match.end() + 1], match.end()


# ---- Arrow -----------------------------------------------------------------------------------------------------------


def batches_parts(
    batches: Iterable[pa.RecordBatch | pa.Table], source: str, size: int, *, may_be_empty: bool = False
) -> Iterator[Table]:
    """Yields a table in parts of ``size`` rows, from batches of one schema.

    Args:
        batches, source: as for `read_batches`.
        size: rows of a part.
        may_be_empty: batches without rows give no parts.

    Raises:
        DataError: as `read_batches`, after the parts before the fault; the message lists the faults of one part.
    """
    pending: list[pa.RecordBatch | pa.Table] = []
    held = rows = 0
    with iterating(batches) as remaining:
        for batch in remaining:
            while held + batch.num_rows >= size:
                yield read_batches([*pending, batch.slice(0, size - held)], source, rows)
                batch = batch.slice(size - held)
                pending, held, rows = [], 0, rows + size
            pending.append(batch)
            held += batch.num_rows
    if held or not (rows or may_be_empty):
        yield read_batches(pending, source, rows)


def read_batches(batches: Iterable[pa.RecordBatch | pa.Table], source: str, first_row: int = 0) -> Table:
    """Builds a table from batches of one schema; lists and structs become Python lists and dicts.

    The class names are those that the ``datasets`` library stores in the schema.

    Args:
        batches: from `bertkit.data.reading.row_files.parquet_batches`, or of a data set.
        source: name of the source in messages.
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
                described = json.loads((batch.schema.metadata or {}).get(b"huggingface", b"{}"))
                class_names = _read_class_names((described.get("info") or {}).get("features") or {})
            for name, values in zip(columns, batch.columns, strict=True):
                try:
                    columns[name] += values.to_pylist()
                except (ValueError, OverflowError):
                    faults += _unreadable_values(values, name, source, first_row + rows)
            rows += batch.num_rows
    if not any(columns.values()) and not faults:
        faults.append(f"{source}: no rows")
    raise_listed(faults)
    return Table(columns, source, "", class_names=class_names, first_row=first_row)


def _unreadable_values(values: pa.Array | pa.ChunkedArray, name: str, source: str, before: int) -> Iterator[str]:
    """Yields the faults of the values of column ``name`` that Python cannot hold; ``before`` rows precede them."""
    for row, value in enumerate(values, before + 1):
        try:
            value.as_py()
        except (ValueError, OverflowError) as error:
            yield f"{source}, row {row}: {name!r} cannot be read ({error}); write this value again"


def _read_class_names(features: dict[str, Any], prefix: str = "") -> dict[str, list[str]]:
    """Returns column → class names for columns of classes and of lists of classes, by the description of ``datasets``.

    Those of a field of objects, or of lists of objects, are named ``column.field``.
    """
    class_names: dict[str, list[str]] = {}
    for name, feature in features.items():
        if isinstance(feature, list):  # so `datasets` described lists before its version 4, those of one feature
            feature = next(iter(feature), None)
        while isinstance(feature, dict) and feature.get("_type") in ("List", "LargeList", "Sequence"):
            feature = feature["feature"]
        if isinstance(feature, dict) and feature.get("_type") == "ClassLabel":
            class_names[prefix + name] = list(feature["names"])
        elif isinstance(feature, dict) and not isinstance(feature.get("_type"), str):
            class_names |= _read_class_names(feature, f"{prefix}{name}.")
    return class_names
