"""Copies of the parts of a store at a URL: each is made when the part is read first.

The copies have a limit, beyond which those that were copied first are removed.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Protocol

from bertkit.data.corpus.store.manifest import read_metadata
from bertkit.runtime.errors import DataError
from bertkit.runtime.files import into_folder
from bertkit.runtime.reading.paths import filesystem

COPIED_BYTES = 64 << 30
"""Most bytes of copied parts of a store; at least the part that is being read stays."""

ORIGIN_FILE = "origin.json"
"""File of a copied store that has its URL."""

_PIECE = 4 << 20  # bytes


class PartOfStore(Protocol):
    """Part of a store that is copied, see `bertkit.data.corpus.store.token_store.Part`."""

    file: Path
    facts: dict[str, Any]
    siblings: Sequence[Any]

    def verify(self) -> None: ...

    def compare(self, name: Any, size: int, checksum: int | None = None) -> None: ...


def fetch(part: PartOfStore) -> None:
    """Copies a part of a store at a URL to the folder of the store, if it is not there; its checksum is compared.

    Does nothing for stores in folders.

    Raises:
        DataError: the URL cannot be read, or the copy is damaged.
        OutputError: the copy cannot be written.
    """
    if part.file.is_file() or (url := _read_origin(part)) is None:
        return
    with into_folder(part.file.parent, part.facts["bytes"]) as draft:
        _copy_part(url, part, draft / part.file.name)
    # The parts that were copied first make room, until the others fit into `COPIED_BYTES`; this one stays.
    with suppress(OSError):  # another process may be removing them too
        copies = [path for path in part.file.parent.glob("*.arrow") if path != part.file]
        copies.sort(key=lambda path: path.stat().st_mtime)
        size = part.file.stat().st_size + sum(path.stat().st_size for path in copies)
        while copies and size > COPIED_BYTES:
            size -= copies[0].stat().st_size
            copies.pop(0).unlink()
    for other in part.siblings:  # the disk space of a removed file is free when nothing maps it
        if not other.file.exists():
            other.close()


def verify_part(part: PartOfStore) -> None:
    """Reads a part where its store is, in a folder or at a URL, and compares its checksum.

    Raises:
        DataError: it is missing, cannot be read or is damaged.
    """
    url = _read_origin(part)
    if url is None:
        part.verify()
    else:
        _copy_part(url, part, Path(os.devnull))


def _read_origin(part: PartOfStore) -> str | None:
    """Returns the URL of the store of a part; None for a store in a folder."""
    record = part.file.parent / ORIGIN_FILE
    return read_metadata(record)["url"] if record.is_file() else None


def _copy_part(url: str, part: PartOfStore, target: Path) -> None:
    """Copies a part from the URL of its store, and compares size and checksum of what was read."""
    files, root = filesystem(url, url)
    size, checksum = copy_file(url, files, root.rstrip("/"), part.file.name, target)
    part.compare(f"{url.rstrip('/')}/{part.file.name}", size, checksum)


def copy_file(given: str, files: Any, root: str, name: str, target: Path) -> tuple[int, int]:
    """Copies a file of a store at a URL to ``target``; returns its size in bytes and its CRC-32.

    Arguments and errors are those of `pieces_of`.
    """
    size = checksum = 0
    with target.open("wb") as stream:
        for piece in pieces_of(given, files, root, name):
            stream.write(piece)
            size, checksum = size + len(piece), zlib.crc32(piece, checksum)
    return size, checksum


def pieces_of(given: str, files: Any, root: str, name: str) -> Iterator[bytes]:
    """Yields the bytes of a file of a store at a URL.

    Args:
        given: the URL, in messages.
        files, root: its file system of fsspec, and the path of the store there.
        name: path of the file in the store.

    Raises:
        DataError: the file is not there, or cannot be read.
    """
    source: IO[bytes]
    try:
        with files.open(f"{root}/{name}", "rb") as source:
            yield from iter(lambda: source.read(_PIECE), b"")
    except FileNotFoundError as error:
        cause = error.__cause__  # fsspec raises this class for every fault of HTTP
        if isinstance(cause, OSError) or getattr(cause, "status", 404) != 404:
            raise DataError(f"{given}: {name} cannot be read: {cause}") from error
        raise DataError(f"{given}: no complete token store at this URL: {name} is missing") from error
    except Exception as error:  # the libraries of the protocols raise many types
        raise DataError(f"{given}: {name} cannot be read: {str(error) or type(error).__name__}") from error
