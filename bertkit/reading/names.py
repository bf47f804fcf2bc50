"""Names that come from a manifest, a listing or a URL: each must be that of a file below its folder."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Any


def is_below(name: Any) -> bool:
    """Returns whether a name, joined to a folder, is a path below the folder; links are not followed.

    >>> [is_below(name) for name in ("a/x.csv", "..x", "../x", "a/../../x", "/x", "a\\0", ".", "", None)]
    [True, True, False, False, False, False, False, False, False]
    """
    if not isinstance(name, str) or "\0" in name:
        return False
    path = PurePath(name)
    return bool(path.parts) and not path.anchor and ".." not in path.parts


def leads_out(path: Path, folder: Path) -> bool:
    """Returns whether links on the way to a path, which need not exist, lead out of a folder."""
    return not path.resolve().is_relative_to(folder.resolve())
