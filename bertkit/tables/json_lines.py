"""Reading of JSON lines: one object per line, one column per key."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from bertkit.errors import DataError, raise_listed
from bertkit.reading.row_files import json_object, lone_surrogate
from bertkit.reading.text_files import iterating
from bertkit.tables.table import Table


def read_json_lines(lines: Iterable[str], source: str, fingerprint: str) -> Table:
    """Reads a table from JSON objects, one per line; blank lines are skipped.

    The columns are the keys of all objects, in order of first appearance. A missing key gives None, as does a null.

    Args:
        lines: from `bertkit.reading.utf8.decode_lines`.
        source: name of the file in messages.
        fingerprint: fingerprint of the table.

    Raises:
        DataError: a line is not a JSON object, a text contains half of a surrogate pair, which is not a character, or
            no object has a key. The message lists the first ten faults with their lines.

    >>> read_json_lines(['{"text": "a", "label": 1}', '{"text": "b"}'], "x.jsonl", "").columns
    {'text': ['a', 'b'], 'label': [1, None]}
    """
    (table,) = json_line_blocks(lines, source, fingerprint, sys.maxsize)
    return table


def json_line_blocks(
    lines: Iterable[str], source: str, fingerprint: str, size: int, *, may_be_empty: bool = False
) -> Iterator[Table]:
    """Yields the table of `read_json_lines` in parts of ``size`` rows; each has the keys of all rows up to its last.

    With ``may_be_empty``, text without rows gives no parts.

    Raises:
        DataError: as `read_json_lines`, after the parts before the fault; the message lists the faults of one part.
    """
    names: dict[str, None] = {}
    faults: list[str] = []
    with iterating(lines) as remaining:
        rows = _rows(remaining, source, faults)
        is_empty = True
        while part := list(islice(rows, size)):
            is_empty = False
            if faults:
                break
            for _, row in part:
                names.update(dict.fromkeys(row))
            if names:
                columns = {name: [row.get(name) for _, row in part] for name in names}
                yield Table(columns, source, fingerprint, array("q", [number for number, _ in part]))
    if not names and not faults and not (is_empty and may_be_empty):
        faults.append(f"{source}: no rows; expected one JSON object per line, such as {{'text': …, 'label': …}}")
    raise_listed(faults)


def _rows(lines: Iterable[str], source: str, faults: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the objects with their line numbers; adds the faults of invalid lines to ``faults``."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield number, _checked(line)
        except DataError as fault:
            faults.append(f"{source}, line {number}: {fault}")


def _checked(line: str) -> dict[str, Any]:
    row = json_object(line, "text")
    if half := lone_surrogate(row, line):
        raise DataError(f"it {half}")
    return row
