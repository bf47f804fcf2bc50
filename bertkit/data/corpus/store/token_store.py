"""Memory-mapped tokens of a corpus; pairs and batches are ranges of them.

A store is a folder: the manifest ``store.json``, with the metadata, and files of consecutive documents, the parts. A
part is one record batch in Arrow's stream format, the format of the ``datasets`` library (``Dataset.from_file`` reads
it). Its only column is ``sentences``, ``large_list<large_list<id>>``: a row is a document, a list of sentences, each a
list of token ids.

`parts.py` writes parts; this module reads them. A part is mapped when something in it is read, and its checksum,
CRC-32, is compared then: it detects damaged disks and interrupted copies, at about the speed of reading memory.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertkit.data.corpus.store.copies import fetch
from bertkit.data.corpus.store.manifest import METADATA_FILE, read_metadata
from bertkit.runtime.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

FORMAT = 4
COLUMN = "sentences"
TOKENIZER_FOLDER = "tokenizer"
"""Folder in a store with the tokenizer of its tokens, as ``save_pretrained`` writes it."""

_MOST_COUNTED = 20_000_000  # tokens, counted in a few seconds; more change their shares very little
_DOCUMENTS_AT_ONCE, _TOKENS_AT_ONCE = 1 << 14, 1 << 20  # that are counted
_READ_AT_START = 64 << 20  # bytes, read in a few hundredths of a second
_PIECE = 4 << 20  # bytes


class Part:
    """File of consecutive documents of a store, mapped at the first access to `arrays`.

    Args:
        folder: folder of the store.
        facts: its entry in the manifest: ``name``, ``documents``, ``sentences``, ``tokens``, ``bytes``, ``crc32``.
    """

    def __init__(self, folder: Path, facts: dict[str, Any]):
        name = facts["name"]
        if Path(name).name != name:
            raise DataError(f"{folder / METADATA_FILE}: {name!r} is not the name of a file in this folder")
        self.file = folder / name
        self.facts = facts
        self.siblings: Sequence[Part] = ()  # all parts of the store
        self._is_verified = False
        self._arrays: dict[str, NDArray[Any]] | None = None

    def check_size(self) -> None:
        """Checks that the file is there, copying it from the URL of the store if it has one, and has the size of the
        manifest.

        Raises:
            DataError: it is not so.
            OutputError: the copy cannot be written.
        """
        fetch(self)
        if not self.file.exists():
            raise _damaged(self.file, "is missing")
        self.compare(self.file, self.file.stat().st_size)

    def verify(self) -> None:
        """Reads the file and compares its checksum; DataError if it is damaged, and errors as of `check_size`."""
        self.check_size()
        actual, buffer = 0, bytearray(_PIECE)
        try:  # without mapping the file, so that no page of it becomes resident
            with self.file.open("rb", buffering=0) as stream:
                while size := stream.readinto(buffer):
                    actual = zlib.crc32(memoryview(buffer)[:size], actual)
        except OSError as error:
            raise _damaged(self.file, error.strerror or str(error)) from error
        self.compare(self.file, self.facts["bytes"], actual)
        self._is_verified = True

    def compare(self, place: Path | str, size: int, checksum: int | None = None) -> None:
        """Compares the size of a file, in bytes, and its CRC-32 with those of the manifest; ``place`` is in messages.

        Raises:
            DataError: one differs.
        """
        if size != self.facts["bytes"]:
            raise _damaged(place, f"{size} bytes, expected {self.facts['bytes']}")
        if checksum not in (None, self.facts["crc32"]):
            raise _damaged(place, f"its checksum is {checksum:08x}, expected {self.facts['crc32']:08x}")

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of the file by their names in `TokenStore`; offsets begin at 0 in each part.

        Errors as of `verify`.
        """
        if self._arrays is None:
            if not self._is_verified:
                self.verify()
            import pyarrow as pa

            try:  # only the metadata of the record batch are read
                # Closing the map here frees its file descriptor; the arrays keep the mapping alive.
                with pa.memory_map(str(self.file)) as mapped:
                    batch = pa.ipc.open_stream(mapped).read_next_batch()
                batch.validate()
                documents: pa.LargeListArray = batch.column(COLUMN)
            except (pa.ArrowException, OSError, KeyError, StopIteration) as error:
                raise _damaged(self.file, str(error)) from error
            sentences = documents.values
            self._arrays = {
                "tokens": sentences.values.to_numpy(),
                "sentence_offsets": sentences.offsets.to_numpy(),
                "document_offsets": documents.offsets.to_numpy(),
            }
        return self._arrays

    def close(self) -> None:
        """Releases the mapping; the next access maps the file again."""
        self._arrays, self._is_verified = None, False


class Joined:
    """Array of a store of several parts, read where it is indexed; a part is mapped at its first access.

    Args:
        parts: the parts.
        name: name of the array.
        starts: ``(num_parts + 1,)`` int64, index of the first element of each part, and the end.
        bases: ``(num_parts,)`` int64, what is added to the elements of each part.
    """

    def __init__(self, parts: Sequence[Part], name: str, starts: NDArray[np.int64], bases: NDArray[np.int64]):
        self._parts = parts
        self._name = name
        self._starts = starts
        self._bases = bases

    def __getitem__(self, index: Any) -> Any:
        """Returns an element, a copy of a slice with a start and an end, or the elements of an array of indices; all
        count from 0, and none from the end."""
        if isinstance(index, slice):
            return self[np.arange(index.start, index.stop)]
        indices = np.asarray(index)
        places = indices.reshape(-1)
        parts = (np.searchsorted(self._starts, places, side="right") - 1).clip(0, len(self._parts) - 1)
        dtype = self._of(int(parts[0])).dtype if len(parts) else np.dtype(np.int64)
        values = np.empty(len(places), dtype)
        for part in np.unique(parts).tolist():
            chosen = parts == part
            values[chosen] = self._of(part)[places[chosen] - self._starts[part]]
            if self._bases[part]:
                values[chosen] += self._bases[part]
        return values.reshape(indices.shape)[()]

    def take(self, indices: NDArray[np.int64], mode: str = "clip") -> NDArray[Any]:
        """Returns the tokens at indices, which are clipped to their range; `numpy.take` with its mode ``clip``."""
        return self[np.clip(indices, 0, self._starts[-1] - 1)]

    def searchsorted(self, values: ArrayLike, side: str = "left") -> Any:
        """Returns where values are to be inserted into ascending elements, as `numpy.searchsorted`."""
        places = np.asarray(values)
        parts = (np.searchsorted(self._bases, places, side="right") - 1).clip(0)
        found = np.empty(places.shape, np.int64)
        for part in np.unique(parts).tolist():
            chosen = parts == part
            within = np.searchsorted(self._of(part), places[chosen] - self._bases[part], side=side)  # type: ignore[call-overload]
            found[chosen] = self._starts[part] + within
        return found[()]

    def _of(self, part: int) -> NDArray[Any]:
        return self._parts[part].arrays[self._name]


class TokenStore:
    """Tokenized documents and sentences, without special tokens; no sentence and no document is empty.

    The arrays are read-only views of the memory-mapped file, or `Joined` if there are several parts. A store is pickled
    as the path of its folder and mapped again when it is unpickled, so that data loader workers share the pages.

    Attributes:
        folder: folder of the store.
        parts: its files.
        fingerprint: SHA-256 (hexadecimal) of the arrays of all parts, with the ids as int32: stores with equal
            fingerprints hold the same corpus.
        metadata: content of ``store.json``: the counts, the sources and how they were read.
        document_starts, sentence_starts, token_starts: ``(num_parts + 1,)`` int64, number of the first document,
            sentence and token of each part, and the end.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        file = self.folder / METADATA_FILE
        try:
            self.metadata = read_metadata(file)
        except OSError as error:
            raise DataError(f"{folder}: no token store in this folder ({METADATA_FILE}: {error.strerror})") from error
        if (version := self.metadata.get("format")) != FORMAT:
            raise DataError(
                f"{file}: format {version!r}, this version of bertkit reads {FORMAT}; build the store again"
            )
        self.fingerprint: str = self.metadata["fingerprint"]
        self.parts = [Part(self.folder, facts) for facts in self.metadata["parts"]]
        for part in self.parts:
            part.siblings = self.parts
        self.document_starts, self.sentence_starts, self.token_starts = (
            np.cumsum([0, *(part.facts[name] for part in self.parts)], dtype=np.int64)
            for name in ("documents", "sentences", "tokens")
        )

    @classmethod
    def open(cls, folder: str | Path) -> TokenStore:
        """Opens the store in ``folder`` and checks that all parts have their sizes; a small store is read once.

        Raises:
            DataError: there is no store, it has another format version, or one of its files is missing or damaged.
        """
        store = cls(folder)
        for part in store.parts:
            part.check_size()
        if store.bytes <= _READ_AT_START:
            store.verify()
        return store

    def verify(self) -> None:
        """Reads all parts once and compares their checksums.

        Raises:
            DataError: a part is missing or damaged; the message names it.
        """
        for part in self.parts:
            part.verify()

    @cached_property
    def tokens(self) -> NDArray[Any] | Joined:
        """``(num_tokens,)`` ids, all sentences of all documents concatenated; uint16 if all ids of the vocabulary fit,
        else int32."""
        return self._array("tokens", self.token_starts, np.zeros(len(self.parts), np.int64))

    @cached_property
    def sentence_offsets(self) -> NDArray[np.int64] | Joined:
        """``(num_sentences + 1,)`` int64: sentence s is ``tokens[sentence_offsets[s]:sentence_offsets[s + 1]]``."""
        return self._array("sentence_offsets", self.sentence_starts, self.token_starts[:-1])

    @cached_property
    def document_offsets(self) -> NDArray[np.int64] | Joined:
        """``(num_documents + 1,)`` int64: document d holds sentences ``document_offsets[d]`` up to, not including,
        ``document_offsets[d + 1]``."""
        return self._array("document_offsets", self.document_starts, self.sentence_starts[:-1])

    def _array(self, name: str, starts: NDArray[np.int64], bases: NDArray[np.int64]) -> Any:
        if len(self.parts) == 1:
            return self.parts[0].arrays[name]
        return Joined(self.parts, name, starts, bases)

    @property
    def bytes(self) -> int:
        """Returns the size of all parts."""
        return sum(part.facts["bytes"] for part in self.parts)

    @property
    def num_documents(self) -> int:
        return int(self.document_starts[-1])

    @property
    def num_sentences(self) -> int:
        return int(self.sentence_starts[-1])

    @property
    def num_tokens(self) -> int:
        return int(self.token_starts[-1])

    def token_bounds(self, documents: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the first token of documents, and the token after their last, both ``(D,)`` int64."""
        firsts, ends = self.document_offsets[documents], self.document_offsets[documents + 1]
        return self.sentence_offsets[firsts], self.sentence_offsets[ends]

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
        if not self.is_ascending and len(np.unique(self.documents)) != len(self.documents):
            raise ValueError("a document is given twice")

    def of_epoch(self, epoch: int) -> StoreView:
        """Returns the documents of an epoch: all documents, in every epoch."""
        return self

    @property
    def num_documents(self) -> int:
        return len(self.documents)

    @cached_property
    def is_ascending(self) -> bool:
        return bool((np.diff(self.documents) > 0).all())

    @property
    def num_sentences(self) -> int:
        return int(self.sentences_of_documents().sum())

    @property
    def num_tokens(self) -> int:
        starts, ends = self.store.token_bounds(self.documents)
        return int((ends - starts).sum())

    def sentences_of_documents(self) -> NDArray[np.int64]:
        """Returns the number of sentences of each document, ``(D,)`` int64."""
        offsets = self.store.document_offsets
        counts: NDArray[np.int64] = offsets[self.documents + 1] - offsets[self.documents]
        return counts

    def token_counts(self, vocab_size: int) -> NDArray[np.int64]:
        """Counts each id, ``(vocab_size,)`` int64, in the first documents, until these have 20 million tokens."""
        counts, counted = np.zeros(vocab_size, np.int64), 0
        for first in range(0, len(self.documents), _DOCUMENTS_AT_ONCE):
            starts, ends = self.store.token_bounds(self.documents[first : first + _DOCUMENTS_AT_ONCE])
            reached = counted + np.cumsum(ends - starts)
            number = int(np.searchsorted(reached[:-1], _MOST_COUNTED)) + 1
            # Documents that follow each other are read together: one by one, short ones would take a minute.
            apart = starts[1:number] != ends[: number - 1]
            for start, end in zip(starts[:number][[True, *apart]], ends[:number][[*apart, True]], strict=True):
                for begin in range(start, end, _TOKENS_AT_ONCE):
                    tokens = self.store.tokens[begin : min(begin + _TOKENS_AT_ONCE, end)]
                    counts += np.bincount(tokens, minlength=vocab_size)
            counted = int(reached[number - 1])
            if counted >= _MOST_COUNTED:
                break
        return counts


def _damaged(file: Path | str, fault: str) -> DataError:
    return DataError(f"{file}: {fault}: this token store is damaged")


def intact_store(folder: Path) -> TokenStore | None:
    """Opens a store; returns ``None``, after a warning, if it is damaged and has to be built again."""
    try:
        return TokenStore.open(folder)
    except DataError as error:
        logger.warning("tokenizing the text again: %s", error)
        return None
