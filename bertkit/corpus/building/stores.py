"""Token stores given as a corpus: folders, and URLs of fsspec such as ``s3://bucket/store`` or ``https://…/store``.

A store is mapped into memory, which needs a file of this machine or of a shared file system; then only the pages that
are used are read. A store at any other URL is copied to a cache folder as a whole, once for each content.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from bertkit.corpus.store.token_store import DOCUMENTS_FILE, METADATA_FILE, TokenStore
from bertkit.corpus.store.writer import intact_store
from bertkit.errors import DataError
from bertkit.files import new_folder
from bertkit.progress import Bar
from bertkit.reading.paths import filesystem, is_url

TOKENIZER_FOLDER = "tokenizer"
"""Folder in a store with the tokenizer of its tokens, as ``save_pretrained`` writes it."""

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
_PIECE = 8 << 20  # bytes
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


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
    """Opens the token store in a folder or at a URL, which is copied to ``cache_dir`` first unless it is a local file.

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
    return _copied(given, files, root, cache_dir)


def _copied(given: str, files: Any, root: str, cache_dir: Path) -> TokenStore:
    """Copies a store to the folder of its fingerprint, unless an intact copy is there."""
    metadata = _metadata(given, files, root)
    # `_metadata` has checked both, as they become the name of a folder that is removed if it is damaged.
    place = cache_dir / f"store-{metadata['fingerprint'][:16]}-{metadata['checksum']:08x}"
    if place.is_dir():
        if (store := intact_store(place)) is not None:
            return store
        shutil.rmtree(place, ignore_errors=True)
    with new_folder(place, is_there=(place / METADATA_FILE).is_file) as draft:
        (draft / TOKENIZER_FOLDER).mkdir()
        for name in (f"{TOKENIZER_FOLDER}/{name}" for name in _TOKENIZER_FILES):
            _copy(given, files, root, name, draft)
        with Bar("copying the token store", "B") as progress:
            _copy(given, files, root, DOCUMENTS_FILE, draft, lambda done: progress(done, metadata["bytes"]))
        _copy(given, files, root, METADATA_FILE, draft)
        TokenStore.open(draft)  # an interrupted or changed copy is refused before it is in the cache
    return TokenStore.open(place)


def _metadata(given: str, files: Any, root: str) -> dict[str, Any]:
    """Reads the metadata of a store; its fingerprint has 64 hexadecimal digits, and its numbers are whole and not
    negative."""
    try:
        content = json.loads(files.cat_file(f"{root}/{METADATA_FILE}"))
        if not all(type(content[name]) is int and content[name] >= 0 for name in ("bytes", "checksum")):
            raise ValueError("no number of bytes or no checksum")
        if not _FINGERPRINT.fullmatch(content["fingerprint"]):
            raise ValueError("no fingerprint")
    except FileNotFoundError as error:
        raise DataError(f"{given}: no token store at this URL ({METADATA_FILE} is missing)") from error
    except (ValueError, RecursionError, LookupError, TypeError) as error:
        raise DataError(f"{given}: {METADATA_FILE} is damaged") from error
    except Exception as error:  # the libraries of the protocols raise many types
        raise _unreadable(given, METADATA_FILE, error) from error
    return content


def _copy(given: str, files: Any, root: str, name: str, draft: Path, report: Any = lambda done: None) -> None:
    done = 0
    with (draft / name).open("wb") as target:
        source: IO[bytes]
        try:
            with files.open(f"{root}/{name}", "rb") as source:
                while piece := source.read(_PIECE):
                    target.write(piece)
                    done += len(piece)
                    report(done)
        except OSError as error:
            if error.errno is not None and error.filename is None:
                raise  # the disk is full: the caller says so
            raise _unreadable(given, name, error) from error
        except Exception as error:
            raise _unreadable(given, name, error) from error


def _unreadable(given: str, name: str, error: Exception) -> DataError:
    return DataError(f"{given}: {name} cannot be read: {str(error) or type(error).__name__}")
