"""Files of JSON with their checksum: the manifest of a token store, the records of builds, copies and streams."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertkit.runtime.errors import DataError
from bertkit.runtime.files import write_whole
from bertkit.runtime.json_text import dumps

METADATA_FILE = "store.json"
_CHECKSUM = "checksum"


def write_metadata(file: Path, content: Mapping[str, Any]) -> None:
    """Writes a JSON object with its checksum, atomically; OutputError if the write fails."""
    write_whole(file, dumps({**content, _CHECKSUM: _checksum(content)}, indent=2) + "\n")


def read_metadata(file: Path) -> dict[str, Any]:
    """Reads what `write_metadata` wrote, without the checksum.

    Raises:
        DataError: the content is not what was written.
        OSError: the file cannot be read.
    """
    try:
        content: dict[str, Any] = json.loads(file.read_bytes())
        if content.pop(_CHECKSUM) == _checksum(content):
            return content
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):  # not JSON, or no such object
        pass
    raise DataError(f"{file}: damaged: not the content that was written")


def _checksum(content: Mapping[str, Any]) -> int:
    return zlib.crc32(dumps(content, sort_keys=True).encode())
