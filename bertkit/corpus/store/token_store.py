"""Memory-mapped tokens of a corpus; pairs and batches are ranges of them.

A store is a folder with two files: ``store.json`` has the metadata, ``documents.arrow`` is one record batch in Arrow's
stream format, the format of the ``datasets`` library (``Dataset.from_file`` reads it). Its only column is
``sentences``, ``large_list<large_list<id>>``: a row is a document, a list of sentences, each a list of token ids.

`writer.py` writes stores; this module reads them from folders, which are mapped, and from URLs of fsspec such as
``s3://bucket/store`` or ``https://…/store``, which are copied to a cache folder as a whole, once for each content. The
checksums of both files are CRC-32: they detect damaged disks and interrupted copies, at about the speed of reading
memory.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertkit.errors import DataError
from bertkit.files import new_folder, write_whole
from bertkit.json_text import dumps
from bertkit.progress import Bar
from bertkit.reading.paths import filesystem, is_url

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

FORMAT = 3
METADATA_FILE = "store.json"
DOCUMENTS_FILE = "documents.arrow"
COLUMN = "sentences"
TOKENIZER_FOLDER = "tokenizer"
"""Folder in a store with the tokenizer of its tokens, as ``save_pretrained`` writes it."""

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_MOST_COUNTED = 20_000_000  # tokens, counted in a part of a second; more change their shares very little
_CHECKSUM = "checksum"
_PIECE = 4 << 20  # bytes


class TokenStore:
    """Tokenized documents and sentences, without special tokens; no sentence and no document is empty.

    The arrays are read-only views of the memory-mapped file. A store is pickled as the path of its folder and mapped
    again when it is unpickled, so that data loader workers share the pages. `open` also verifies the checksum of the
    file; the constructor, which unpickling calls, does not.

    Attributes:
        folder: folder of the store.
        tokens: ``(num_tokens,)`` ids, all sentences of all documents concatenated; uint16 if all ids of the vocabulary
            fit, else int32.
        sentence_offsets: ``(num_sentences + 1,)`` int64: sentence s is ``tokens[sentence_offsets[s]:sentence_offsets[s
            + 1]]``.
        document_offsets: ``(num_documents + 1,)`` int64: document d holds sentences ``document_offsets[d]`` up to,
            not including, ``document_offsets[d + 1]``.
        fingerprint: SHA-256 (hexadecimal) of the three arrays, with the ids as int32: stores with equal fingerprints
            hold the same corpus.
        metadata: content of ``store.json``: the counts, the sources and how they were read.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.metadata = _read_metadata(self.folder)
        self.fingerprint: str = self.metadata["fingerprint"]
        documents = self._map()
        sentences = documents.values
        self.tokens: NDArray[np.uint16] | NDArray[np.int32] = sentences.values.to_numpy()
        self.sentence_offsets: NDArray[np.int64] = sentences.offsets.to_numpy()
        self.document_offsets: NDArray[np.int64] = documents.offsets.to_numpy()

    @classmethod
    def open(cls, folder: str | Path) -> TokenStore:
        """Opens the store in ``folder`` and reads all of it once to verify its checksum.

        Raises:
            DataError: there is no store, it has another format version, or one of its files is missing or damaged.
        """
        file = Path(folder) / DOCUMENTS_FILE
        expected = _read_metadata(Path(folder))["crc32"]
        try:
            actual = file_checksum(file)
        except OSError as error:
            raise _damaged(file, error.strerror or str(error)) from error
        if actual != expected:
            raise _damaged(file, f"its checksum is {actual:08x}, expected {expected:08x}")
        return cls(folder)

    def _map(self) -> pa.LargeListArray:
        """Maps the file and returns its column; only the record batch metadata is read."""
        import pyarrow as pa

        file = self.folder / DOCUMENTS_FILE
        expected = self.metadata["bytes"]
        actual = file.stat().st_size if file.exists() else 0
        fault = f"{actual} bytes, expected {expected}"
        if actual == expected:
            try:
                # Closing the map here frees its file descriptor; the arrays keep the mapping alive.
                with pa.memory_map(str(file)) as mapped:
                    batch = pa.ipc.open_stream(mapped).read_next_batch()
                batch.validate()
                return batch.column(COLUMN)
            except (pa.ArrowException, OSError, KeyError, StopIteration) as error:
                fault = str(error)
        raise _damaged(file, fault)

    @property
    def num_documents(self) -> int:
        return len(self.document_offsets) - 1

    @property
    def num_sentences(self) -> int:
        return len(self.sentence_offsets) - 1

    @property
    def num_tokens(self) -> int:
        return len(self.tokens)

    def whole(self) -> StoreView:
        """Returns a view of all documents, in order."""
        return StoreView(self, np.arange(self.num_documents))

    def subset(self, documents: Sequence[int] | NDArray[np.integer[Any]]) -> StoreView:
        """Returns a view of some documents, given by their numbers in this store; tokens are not copied.

        Raises:
            ValueError: a number is out of range or occurs twice.
        """
        return StoreView(self, np.asarray(documents, dtype=np.int64))

    def __reduce__(self) -> tuple[type[TokenStore], tuple[Path]]:
        return TokenStore, (self.folder,)


@dataclass(frozen=True, eq=False)
class StoreView:
    """Subset of the documents of a store, such as the training part or the part held out for evaluation.

    Attributes:
        store: store of the documents.
        documents: ``(D,)`` int64, distinct numbers of the documents in the store.
    """

    store: TokenStore
    documents: NDArray[np.int64]

    def __post_init__(self) -> None:
        known = (self.documents >= 0) & (self.documents < self.store.num_documents)
        if not known.all():
            raise ValueError(
                f"document {self.documents[~known][0]}: this store holds documents 0 to {self.store.num_documents - 1}"
            )
        if len(np.unique(self.documents)) != len(self.documents):
            raise ValueError("a document is given twice")

    def of_epoch(self, epoch: int) -> StoreView:
        """Returns the documents of an epoch: all documents, in every epoch."""
        return self

    @property
    def num_documents(self) -> int:
        return len(self.documents)

    @property
    def num_sentences(self) -> int:
        offsets = self.store.document_offsets
        return int((offsets[self.documents + 1] - offsets[self.documents]).sum())

    @property
    def num_tokens(self) -> int:
        starts = self.store.sentence_offsets[self.store.document_offsets]
        return int((starts[self.documents + 1] - starts[self.documents]).sum())

    def token_counts(self, vocab_size: int, most: int = _MOST_COUNTED) -> NDArray[np.int64]:
        """Counts each id in the first documents, (vocab_size,) int64; documents are added until they have ``most``
        tokens."""
        starts = self.store.sentence_offsets[self.store.document_offsets]
        counts, counted = np.zeros(vocab_size, np.int64), 0
        for document in self.documents.tolist():
            start, end = starts[document], starts[document + 1]
            counts += np.bincount(self.store.tokens[start:end], minlength=vocab_size)
            counted += end - start
            if counted >= most:
                break
        return counts


def _read_metadata(folder: Path) -> dict[str, Any]:
    file = folder / METADATA_FILE
    try:
        metadata = read_metadata(file)
    except OSError as error:
        raise DataError(f"{folder}: no token store in this folder ({METADATA_FILE}: {error.strerror})") from error
    if metadata.get("format") != FORMAT:
        raise DataError(f"{file}: format {metadata.get('format')!r}, this version of bertkit reads {FORMAT}")
    return metadata


def _damaged(file: Path, fault: str) -> DataError:
    return DataError(f"{file}: {fault}: this token store is damaged")


def write_metadata(file: Path, content: Mapping[str, Any]) -> None:
    """Writes a JSON object with its checksum, atomically."""
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


def file_checksum(file: Path) -> int:
    """Computes the CRC-32 of a file; reads it without mapping it, so that no page of it becomes resident.

    Raises:
        OSError: the file cannot be read.
    """
    checksum = 0
    buffer = bytearray(_PIECE)
    with file.open("rb", buffering=0) as stream:
        while size := stream.readinto(buffer):
            checksum = zlib.crc32(memoryview(buffer)[:size], checksum)
    return checksum


def _checksum(content: Mapping[str, Any]) -> int:
    return zlib.crc32(dumps(content, sort_keys=True).encode())


def intact_store(folder: Path) -> TokenStore | None:
    """Opens a store; returns ``None``, after a warning, if it is damaged and has to be built again."""
    try:
        return TokenStore.open(folder)
    except DataError as error:
        logger.warning("tokenizing the text again: %s", error)
        return None


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
