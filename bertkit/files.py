"""Writing files so that nothing of a user's is overwritten and nothing is left half-written."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bertkit.errors import OutputError


def check_new_file(path: Path, name: str) -> None:
    """Refuses a file that exists, or whose folder does not; touches nothing.

    Args:
        path: the file to be written.
        name: what messages call it, such as ``--output FILE``.

    Raises:
        OutputError: as above.
    """
    if path.exists():
        raise OutputError(f"{name}: exists; give another name")
    if not path.parent.is_dir():
        raise OutputError(f"{name}: there is no folder {path.parent}")


def write_whole(path: Path, content: str | bytes) -> None:
    """Writes bytes, or text as UTF-8, so that the file is either as it was before or whole."""
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(content.encode() if isinstance(content, str) else content)
    os.replace(partial, path)


def write_json_lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes one JSON object a line; the file appears only when it is whole."""
    write_whole(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
