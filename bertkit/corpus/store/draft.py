"""Writing of a token store in constant memory: three growing arrays, then one Arrow file."""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertkit.corpus.store.encoding import EncodedBatch
from bertkit.corpus.store.token_store import COLUMN, DOCUMENTS_FILE, METADATA_FILE, write_metadata

if TYPE_CHECKING:
    import pyarrow as pa

_SLICE = 8 << 20  # bytes


class StoreDraft:
    """Arrays of a `TokenStore`, each in its own file until `finish` combines them.

    An Arrow file cannot be appended to: it stores the lengths first, then the offsets, then the tokens.

    Args:
        folder: an empty folder.
        token_type: dtype of the ids, uint16 or int32.
    """

    def __init__(self, folder: Path, token_type: type[np.generic]):
        self._folder = folder
        self._types: dict[str, type[np.generic]] = {
            "tokens": token_type,
            "sentence_offsets": np.int64,
            "document_offsets": np.int64,
        }
        self._opened = contextlib.ExitStack()
        self._files: dict[str, IO[bytes]] = {
            name: self._opened.enter_context((folder / name).open("wb")) for name in self._types
        }
        self._digests = {name: hashlib.sha256() for name in self._types}
        self._lengths = dict.fromkeys(self._types, 0)
        self._num_documents = 0
        self._last_written_document = -1

    @property
    def num_tokens(self) -> int:
        return self._lengths["tokens"]

    def append(self, batch: EncodedBatch) -> None:
        """Appends the sentences of the next batch; documents without sentences are dropped."""
        documents = self._num_documents + batch.documents
        starts = np.flatnonzero(np.diff(documents, prepend=self._last_written_document))
        self._append("document_offsets", self._lengths["sentence_offsets"] + starts)
        self._append("sentence_offsets", self._lengths["tokens"] + np.cumsum(batch.lengths) - batch.lengths)
        self._append("tokens", batch.tokens)
        self._num_documents += batch.num_documents
        if len(documents):
            self._last_written_document = int(documents[-1])

    def finish(self, origin: dict[str, Any]) -> None:
        """Turns the folder into a store with ``origin`` in its metadata; requires at least one token."""
        self._append("document_offsets", np.array([self._lengths["sentence_offsets"]]))
        self._append("sentence_offsets", np.array([self._lengths["tokens"]]))
        self.close()
        checksum = self._write_arrow(self._folder / DOCUMENTS_FILE)
        for name in self._types:
            (self._folder / name).unlink()
        digests = "".join(digest.hexdigest() for digest in self._digests.values())
        metadata = {
            **origin,
            "lengths": self._lengths,
            "bytes": (self._folder / DOCUMENTS_FILE).stat().st_size,
            "crc32": checksum,
            "fingerprint": hashlib.sha256(digests.encode()).hexdigest(),
        }
        # Written last: a folder without this file is not a store.
        write_metadata(self._folder / METADATA_FILE, metadata)

    def close(self) -> None:
        self._opened.close()

    def _append(self, name: str, values: NDArray[Any]) -> None:
        self._files[name].write(values.astype(self._types[name]).tobytes())
        digested = np.int32 if name == "tokens" else np.int64  # independent of the stored dtype
        self._digests[name].update(values.astype(digested).tobytes())
        self._lengths[name] += len(values)

    def _write_arrow(self, file: Path) -> int:
        """Writes the Arrow file; returns its CRC-32."""
        import pyarrow as pa

        maps = {name: self._map(name) for name in self._types}
        tokens, sentence_offsets, document_offsets = (
            pa.Array.from_buffers(pa.from_numpy_dtype(kind), self._lengths[name], [None, pa.py_buffer(maps[name])])
            for name, kind in self._types.items()
        )
        sentences = pa.LargeListArray.from_arrays(sentence_offsets, tokens)
        documents = pa.LargeListArray.from_arrays(document_offsets, sentences)
        batch = pa.record_batch([documents], names=[COLUMN])
        with file.open("wb") as stream:
            sink = _FlatSink(stream, maps.values())
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
        return sink.checksum

    def _map(self, name: str) -> mmap.mmap:
        with (self._folder / name).open("rb") as stream:
            return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)


class _FlatSink:
    """File object for Arrow that writes in slices and releases the resident pages of the mapped drafts after each.

    Attributes:
        checksum: CRC-32 of the bytes written so far.
    """

    closed = False

    def __init__(self, stream: IO[bytes], maps: Iterable[mmap.mmap]):
        self._stream = stream
        self._maps = list(maps)
        self.checksum = 0

    def write(self, data: pa.Buffer | bytes) -> int:
        view = memoryview(data)  # Arrow passes the memory of a mapped draft without a copy
        for start in range(0, len(view), _SLICE):
            part = view[start : start + _SLICE]
            self._stream.write(part)
            self.checksum = zlib.crc32(part, self.checksum)
            if hasattr(mmap, "MADV_DONTNEED"):
                for mapped in self._maps:
                    mapped.madvise(mmap.MADV_DONTNEED)
        return len(view)

    def flush(self) -> None:
        self._stream.flush()
