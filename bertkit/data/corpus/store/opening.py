"""Stores that are given as a corpus: in a folder, or at a URL of fsspec such as ``s3://bucket/store``.

Of a URL the manifest and the tokenizer are copied to a cache folder, once for each content, and a part when it is read
first. The copies of parts have a limit, beyond which those that were copied first are removed.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from bertkit.data.corpus.store.manifest import METADATA_FILE, read_metadata, write_metadata
from bertkit.data.corpus.store.token_store import TOKENIZER_FOLDER, Part, TokenStore
from bertkit.runtime.errors import DataError
from bertkit.runtime.files import into_folder, new_folder
from bertkit.runtime.reading.paths import filesystem, is_url

COPIED_BYTES = 64 << 30
"""Most bytes of copied parts of a store; at least the part that is being read stays."""

ORIGIN_FILE = "origin.json"
"""File of a copied store that has its URL."""

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_PIECE = 4 << 20  # bytes


def names_store(corpus: Sequence[str]) -> bool:
    """Returns whether a corpus is one token store: a folder with its metadata, or a URL.

    Raises:
        DataError: a store is given together with other stores or texts.
    """
    stores = [given for given in corpus if is_url(given) or (Path(given) / METADATA_FILE).is_file()]
    if stores and len(corpus) > 1:
        raise DataError(
            f"{stores[0]}: a token store is a whole corpus, and {len(corpus) - 1} more were given; give it alone, or "
            "build one store of all texts with `bertkit corpus build`"
        )
    return bool(stores)


def open_store(given: str, cache_dir: Path) -> TokenStore:
    """Opens the token store in a folder or at a URL, whose parts are copied to ``cache_dir`` when they are read.

    Raises:
        DataError: there is no store, it is damaged, or the URL cannot be read.
    """
    if not is_url(given):
        return TokenStore.open(given)
    from fsspec.implementations.local import LocalFileSystem

    files, root = filesystem(given, given)
    root = root.rstrip("/")
    if isinstance(files, LocalFileSystem):
        return TokenStore.open(root)
    metadata = _metadata(given, files, root)
    # `_metadata` has checked both, as they become the name of a folder.
    place = cache_dir / f"store-{metadata['fingerprint'][:16]}-{metadata['checksum']:08x}"
    if not (place / ORIGIN_FILE).is_file():
        with new_folder(place, is_there=(place / ORIGIN_FILE).is_file) as draft:
            (draft / TOKENIZER_FOLDER).mkdir()
            for name in (*(f"{TOKENIZER_FOLDER}/{name}" for name in _TOKENIZER_FILES), METADATA_FILE):
                _copy(given, files, root, name, draft / name)
            TokenStore(draft)  # a damaged manifest is refused before it is in the cache
            write_metadata(draft / ORIGIN_FILE, {"url": given})
    return TokenStore(place)


def fetch(part: Part) -> None:
    """Copies a part of a store at a URL to the folder of the store, if it is not there; its checksum is compared.

    Does nothing for stores in folders.

    Raises:
        DataError: the URL cannot be read, or the copy is damaged.
    """
    if part.file.is_file() or (url := _origin(part)) is None:
        return
    with into_folder(part.file.parent, part.facts["bytes"]) as draft:
        _copy_part(url, part, draft / part.file.name)
    _make_room(part.file)
    for other in part.siblings:  # the disk space of a removed file is free when nothing maps it
        if not other.file.exists():
            other.close()


def verify_part(part: Part) -> None:
    """Reads a part where its store is, in a folder or at a URL, and compares its checksum.

    Raises:
        DataError: it is missing, cannot be read or is damaged.
    """
    url = _origin(part)
    if url is None:
        part.verify()
    else:
        _copy_part(url, part, Path(os.devnull))


def _origin(part: Part) -> str | None:
    """Returns the URL of the store of a part; None for a store in a folder."""
    record = part.file.parent / ORIGIN_FILE
    return read_metadata(record)["url"] if record.is_file() else None


def _copy_part(url: str, part: Part, target: Path) -> None:
    """Copies a part from the URL of its store, and compares size and checksum of what was read."""
    files, root = filesystem(url, url)
    size, checksum = _copy(url, files, root.rstrip("/"), part.file.name, target)
    part.compare(f"{url.rstrip('/')}/{part.file.name}", size, checksum)


def _make_room(kept: Path) -> None:
    """Removes the parts that were copied first until the others fit into `COPIED_BYTES`; ``kept`` stays."""
    with suppress(OSError):  # another process may be removing them too
        parts = sorted(
            (path for path in kept.parent.glob("*.arrow") if path != kept), key=lambda path: path.stat().st_mtime
        )
        size = kept.stat().st_size + sum(path.stat().st_size for path in parts)
        for path in parts:
            if size <= COPIED_BYTES:
                return
            size -= path.stat().st_size
            path.unlink()


def _metadata(given: str, files: Any, root: str) -> dict[str, Any]:
    """Reads the manifest of a store; its fingerprint has 64 hexadecimal digits, and its checksum is a whole number."""
    try:
        content = json.loads(b"".join(_pieces(given, files, root, METADATA_FILE)))
        if type(content["checksum"]) is not int or content["checksum"] < 0:
            raise ValueError("no checksum")
        if not _FINGERPRINT.fullmatch(content["fingerprint"]):
            raise ValueError("no fingerprint")
    except (ValueError, RecursionError, LookupError, TypeError) as error:
        raise DataError(f"{given}: {METADATA_FILE} is damaged") from error
    return content


def _copy(given: str, files: Any, root: str, name: str, target: Path) -> tuple[int, int]:
    """Copies a file of a store; returns its size and its CRC-32."""
    size = checksum = 0
    with target.open("wb") as stream:
        for piece in _pieces(given, files, root, name):
            stream.write(piece)
            size, checksum = size + len(piece), zlib.crc32(piece, checksum)
    return size, checksum


def _pieces(given: str, files: Any, root: str, name: str) -> Iterator[bytes]:
    """Yields the bytes of a file of a store."""
    source: IO[bytes]
    try:
        with files.open(f"{root}/{name}", "rb") as source:
            yield from iter(lambda: source.read(_PIECE), b"")
    except FileNotFoundError as error:
        raise DataError(f"{given}: no complete token store at this URL: {name} is missing") from error
    except Exception as error:  # the libraries of the protocols raise many types
        raise DataError(f"{given}: {name} cannot be read: {str(error) or type(error).__name__}") from error
