"""JSON lines → tables: one object a line, a column for each key."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable
from typing import Any

from bertkit.corpus.row_files import json_object
from bertkit.errors import DataError, raise_listed
from bertkit.tables.table import Table


def read_json_lines(lines: Iterable[str], source: str, fingerprint: str) -> Table:
    """The table of JSON objects, one a line; blank lines are left out.

    The columns are the keys of all objects, in the order in which they first come. An object that lacks a key has None
    for it, as for a null.

    Args:
        lines: from `bertkit.corpus.documents.decode_lines`.
        source: what messages call the file.
        fingerprint: the table's.

    Raises:
        DataError: a line holds no JSON object, or a text in it holds half of a surrogate pair, which is no character;
            or there is no object with a key. All faults are named in one message, with their lines.

    >>> read_json_lines(['{"text": "a", "label": 1}', '{"text": "b"}'], "x.jsonl", "").columns
    {'text': ['a', 'b'], 'label': [1, None]}
    """
    rows: list[dict[str, Any]] = []
    numbers = array("q")
    names: dict[str, None] = {}
    faults = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            rows.append(_checked(line))
        except DataError as fault:
            faults.append(f"{source}, line {number}: {fault}")
            continue
        numbers.append(number)
        names.update(dict.fromkeys(rows[-1]))
    if not names and not faults:
        faults.append(f"{source}: no rows; expected one JSON object a line, such as {{'text': …, 'label': …}}")
    raise_listed(faults)
    return Table({name: [row.get(name) for row in rows] for name in names}, source, fingerprint, numbers)


def _checked(line: str) -> dict[str, Any]:
    row = json_object(line, "text")
    if "\\ud" in line or "\\uD" in line:  # only so can JSON write a surrogate
        try:
            json.dumps(row, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            code = ord(error.object[error.start])
            raise DataError(f"it holds \\u{code:04x} alone, which is no character; write the text anew") from error
    return row
