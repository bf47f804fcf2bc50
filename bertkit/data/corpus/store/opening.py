"""Stores that are given as a corpus: in a folder, or at a URL of fsspec such as ``s3://bucket/store``.

Of a URL the manifest and the tokenizer are copied to a cache folder, once for each content; the parts by
`bertkit.data.corpus.store.copies`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

from bertkit.data.corpus.store.copies import ORIGIN_FILE, copy_file, pieces_of
from bertkit.data.corpus.store.manifest import METADATA_FILE, read_metadata, write_metadata
from bertkit.data.corpus.store.token_store import TOKENIZER_FOLDER, TokenStore
from bertkit.runtime.errors import DataError
from bertkit.runtime.files import new_folder
from bertkit.runtime.reading.paths import filesystem, is_url

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


def names_store(corpus: Sequence[str]) -> bool:
    """Returns whether a corpus is one token store: a folder with its metadata, or a URL.

    Raises:
        DataError: a store is given together with other stores or texts.
    """
    stores = [given for given in corpus if is_url(given) or os.path.isfile(Path(given, METADATA_FILE))]
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
        OutputError: the copies of a manifest and a tokenizer cannot be written to ``cache_dir``.
    """
    if not is_url(given):
        return TokenStore.open(given)
    from fsspec.implementations.local import LocalFileSystem

    files, root = filesystem(given, given)
    root = root.rstrip("/")
    if isinstance(files, LocalFileSystem):
        return TokenStore.open(root)
    try:
        metadata = json.loads(b"".join(pieces_of(given, files, root, METADATA_FILE)))
        fingerprint, checksum = metadata["fingerprint"], metadata["checksum"]
        # Both become the name of a folder.
        if not _FINGERPRINT.fullmatch(fingerprint) or type(checksum) is not int or checksum < 0:
            raise ValueError("no fingerprint, or no checksum")
    except (ValueError, RecursionError, LookupError, TypeError) as error:
        raise DataError(f"{given}: {METADATA_FILE} is damaged") from error
    place = cache_dir / f"store-{fingerprint[:16]}-{checksum:08x}"
    origin = place / ORIGIN_FILE
    if not origin.is_file():
        with new_folder(place, is_there=origin.is_file) as draft:
            (draft / TOKENIZER_FOLDER).mkdir()
            for name in (*(f"{TOKENIZER_FOLDER}/{name}" for name in _TOKENIZER_FILES), METADATA_FILE):
                copy_file(given, files, root, name, draft / name)
            try:  # a damaged manifest is refused before it is in the cache
                TokenStore(draft)
            except DataError as error:
                raise DataError(str(error).replace(str(draft), given.rstrip("/"))) from error
            write_metadata(draft / ORIGIN_FILE, {"url": given})
    elif read_metadata(origin)["url"] != given:  # the store has moved, or there are two
        write_metadata(origin, {"url": given})
    return TokenStore(place)
