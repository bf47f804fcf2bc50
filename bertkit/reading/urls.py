"""Paths and URLs of `fsspec`, such as ``s3://bucket/reviews``: which is which, and the file system of each."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from bertkit.errors import DataError

# Protocols may be chained, as in simplecache::s3://bucket/store; without :// the name is that of a file. A protocol of
# one letter is a drive of Windows.
_URL = re.compile(r"(?:[a-z][a-z0-9+.-]+::)*[a-z][a-z0-9+.-]+://", re.IGNORECASE)


def is_url(path: str) -> bool:
    """Returns whether a name is a URL of `fsspec`, with its protocol, and not the path of an existing file.

    >>> is_url("s3://bucket/a.csv"), is_url("simplecache::s3://bucket/store"), is_url("zip://a.csv::b.zip")
    (True, True, True)
    >>> is_url("reviews/a.csv"), is_url("wikimedia/wikipedia"), is_url("o::p"), is_url("a/b://c")
    (False, False, False, False)
    """
    return _URL.match(path) is not None and not Path(path).exists()


def filesystem(path: str, name: str) -> tuple[Any, str]:
    """Returns the file system of `fsspec` that a path or URL belongs to, and the path within it.

    Args:
        path: path or URL; a leading ``~`` of a path is the home folder.
        name: name of the path in messages.

    Raises:
        DataError: the protocol is unknown, or its package is not installed.
    """
    from fsspec.core import url_to_fs
    from fsspec.implementations.local import LocalFileSystem

    if not is_url(path):  # url_to_fs would take o::p for a chain of protocols, and return the path o
        return LocalFileSystem(), os.path.abspath(os.path.expanduser(path))
    try:
        files: tuple[Any, str] = url_to_fs(path)
    except (ImportError, ValueError, OSError) as error:
        raise DataError(f"{name}: {error}; install the package of this protocol, or copy the files") from error
    return files
