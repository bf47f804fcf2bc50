"""Reads a JSON file that holds a list of objects, as Label Studio exports, into a table with lines."""

from __future__ import annotations

import hashlib
import json
import os
import re
from array import array
from pathlib import Path
from typing import Any

from bertkit.errors import DataError, raise_listed, shown
from bertkit.reading.row_files import lone_surrogate
from bertkit.reading.utf8 import decode_text
from bertkit.tables import Table

JSON = ".json"
_SPACE = re.compile(r"[ \t\r\n]*")
_EXPECTED = "expected a list of objects, [{…}, {…}]; if it has one object per line, rename it to end in .jsonl"


def read_json_list(path: str | Path) -> Table:
    """Reads a list of JSON objects; a row is an object, and its place the line in which it begins.

    The columns are the keys of all objects, in order of first appearance; a missing key gives None.

    Args:
        path: UTF-8 ``.json`` file; ``~`` is the home folder.

    Raises:
        DataError: the file cannot be read, is not JSON, or is not a list of objects with at least one key; or a text
            has half of a surrogate pair. The message names at most ten such places.
    """
    path = Path(os.path.expanduser(path))
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    text = decode_text(content, str(path), path)
    rows, lines, faults = [], array("q"), list[str]()
    for line, value, written in _elements(text, str(path)):
        if not isinstance(value, dict):
            faults.append(f"{path}, line {line}: {shown(value)} is not an object; {_EXPECTED}")
        elif half := lone_surrogate(value, written):
            faults.append(f"{path}, line {line}: it {half}")
        else:
            rows.append(value)
            lines.append(line)
    names = dict.fromkeys(name for row in rows for name in row)
    if not names and not faults:
        faults.append(f"{path}: no rows; {_EXPECTED}")
    raise_listed(faults)
    columns: dict[str, list[Any]] = {name: [row.get(name) for row in rows] for name in names}
    return Table(columns, str(path), f"sha256:{hashlib.sha256(content).hexdigest()[:16]}", lines)


def _elements(text: str, source: str) -> list[tuple[int, Any, str]]:
    """Returns the elements of a JSON list: line, value, and the JSON text of the value."""
    decoder = json.JSONDecoder()
    found: list[tuple[int, Any, str]] = []
    line, counted = 1, 0
    at = _after_space(text, 0)
    if text[at : at + 1] != "[":
        raise DataError(f"{source}: {_EXPECTED}")
    at = _after_space(text, at + 1)
    while text[at : at + 1] != "]":
        line, counted = line + text.count("\n", counted, at), at
        try:
            value, end = decoder.raw_decode(text, at)
            found.append((line, value, text[at:end]))
            at = _after_space(text, end)
            if text[at : at + 1] == ",":
                at = _after_space(text, at + 1)
            elif text[at : at + 1] != "]":
                raise json.JSONDecodeError("Expecting ',' or ']'", text, at)
        except json.JSONDecodeError as error:
            raise DataError(f"{source}, line {error.lineno}: not valid JSON ({error.msg}); {_EXPECTED}") from error
        except (ValueError, RecursionError) as error:  # a number of thousands of digits, or deep nesting
            raise DataError(f"{source}, line {line}: not valid JSON ({error}); {_EXPECTED}") from error
    return found


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()
