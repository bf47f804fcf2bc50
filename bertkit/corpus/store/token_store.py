"""All tokens of a corpus on disk, memory-mapped: what pairs and batches are cut from.

A store is a folder with two files: ``store.json`` says what it is, ``documents.arrow`` is one record batch in Arrow's
stream format, as the ``datasets`` library keeps its own (``Dataset.from_file`` reads it). Its one column is
``sentences``, ``large_list<large_list<id>>``: a row is a document, a list of sentences, each a list of token ids.

`store_writer.py` builds stores and `store_draft.py` writes their files; this file reads them. The form of the files is
known to the last two alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertkit.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 2
METADATA_FILE = "store.json"
DOCUMENTS_FILE = "documents.arrow"
COLUMN = "sentences"


class TokenStore:
    """Documents of sentences of tokens, without special tokens; no sentence and no document is empty.

    The arrays are views into the memory-mapped file, and read-only. A store is pickled as its folder's name and mapped
    anew where it is unpickled, so that data workers share the pages.

    Attributes:
        folder: where it lies.
        tokens: ``(num_tokens,)`` ids, all sentences of all documents end to end; uint16 where the vocabulary has no id
            beyond, else int32.
        sentence_offsets: ``(num_sentences + 1,)`` int64: sentence s is ``tokens[sentence_offsets[s]:sentence_offsets[s
            + 1]]``.
        document_offsets: ``(num_documents + 1,)`` int64: document d holds sentences ``document_offsets[d]`` up to,
            not including, ``document_offsets[d + 1]``.
        fingerprint: a SHA-256 (hexadecimal) of the three arrays, the ids as int32: stores of equal fingerprint hold the
            same corpus.
        metadata: what the builder wrote down: the counts, the sources and how they were read.
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
        """Opens the store in ``folder``.

        Raises:
            DataError: there is none, it is of another version, or its file is missing or damaged.
        """
        return cls(folder)

    def _map(self) -> pa.LargeListArray:
        """The column of the file: nothing of it is read yet but where its parts lie."""
        import pyarrow as pa

        file = self.folder / DOCUMENTS_FILE
        expected = self.metadata["bytes"]
        actual = file.stat().st_size if file.exists() else 0
        fault = f"{actual} bytes, expected {expected}"
        if actual == expected:
            try:
                # Closing the map here frees its descriptor; the arrays keep the memory.
                with pa.memory_map(str(file)) as mapped:
                    batch = pa.ipc.open_stream(mapped).read_next_batch()
                batch.validate()
                return batch.column(COLUMN)
            except (pa.ArrowException, OSError, KeyError, StopIteration) as error:
                fault = str(error)
        raise DataError(f"{file}: {fault}: this store of tokens is damaged; delete {self.folder} and start again")

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
        """All documents, in order."""
        return StoreView(self, np.arange(self.num_documents))

    def subset(self, documents: Sequence[int] | NDArray[np.integer[Any]]) -> StoreView:
        """Some documents, by their numbers in this store, without a copy of their tokens.

        Raises:
            ValueError: a number names no document, or comes twice.
        """
        return StoreView(self, np.asarray(documents, dtype=np.int64))

    def __reduce__(self) -> tuple[type[TokenStore], tuple[Path]]:
        return TokenStore, (self.folder,)


@dataclass(frozen=True, eq=False)
class StoreView:
    """Some documents of a store: its training part, or the part held out for evaluation.

    Attributes:
        store: whose documents they are.
        documents: ``(D,)`` int64, their numbers in the store, each once.
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
            raise ValueError("a document is named twice")

    def of_epoch(self, epoch: int) -> StoreView:
        """The documents that an epoch goes through: all of them, every time."""
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


def _read_metadata(folder: Path) -> dict[str, Any]:
    file = folder / METADATA_FILE
    try:
        metadata: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{folder}: no store of tokens here ({METADATA_FILE}: {error.strerror})") from error
    except ValueError as error:
        raise DataError(f"{file}: damaged ({error}); delete {folder} and start again") from error
    if metadata.get("format") != FORMAT:
        raise DataError(
            f"{file}: format {metadata.get('format')!r}, this version of bertkit reads {FORMAT}; delete {folder} "
            f"and start again"
        )
    return metadata
