"""Parts of a token store on disk, and the manifest that lists them."""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import zlib
from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertkit.data.corpus.store.encoding import EncodedBatch, select_sentences
from bertkit.data.corpus.store.manifest import METADATA_FILE, write_metadata
from bertkit.data.corpus.store.token_store import COLUMN
from bertkit.runtime.errors import DataError, quoted

if TYPE_CHECKING:
    import pyarrow as pa

PART_TOKENS = 1 << 24
"""Tokens with which a part ends: the last document that starts in the batch that reaches them is its last."""

_SLICE = 8 << 20  # bytes


def write_parts(
    encoded: Generator[EncodedBatch],
    token_type: type[np.generic],
    folder: Path,
    unit: int = 0,
    report: Callable[[int | None], None] = lambda position: None,
) -> list[dict[str, Any]]:
    """Writes the parts of a unit of a corpus from its batches, in order; returns their entries in the manifest.

    Args:
        encoded: the batches; the generator is closed at the end, and its exceptions are passed on.
        token_type: dtype of the ids, uint16 or int32.
        folder: folder of the parts.
        unit: number of the unit, which is in the names of its parts.
        report: called with the position of every batch written.
    """
    with contextlib.closing(encoded), contextlib.closing(StoreDraft(folder, token_type, unit)) as draft:
        for batch in encoded:
            draft.append(batch)
            report(batch.position)
        return draft.finish()


def write_manifest(folder: Path, origin: dict[str, Any], parts: Sequence[dict[str, Any]]) -> None:
    """Writes ``store.json``, the last file of a store: a folder without it is none; DataError if there is no part."""
    if not parts:
        if filters := origin.get("filters"):
            rules = ", ".join(f"{name}: {value}" for name, value in filters.items())
            raise DataError(f"no document is left by the filters ({rules})")
        raise DataError(f"no text in {quoted(origin['names'], 5) if 'names' in origin else 'the paragraphs given'}")
    digests = "".join(part["digest"] for part in parts)
    fingerprint = hashlib.sha256(digests.encode()).hexdigest()
    write_metadata(folder / METADATA_FILE, {**origin, "parts": parts, "fingerprint": fingerprint})


class StoreDraft:
    """Parts of a store that are being written.

    A part ends with a document, soon after it has `PART_TOKENS` tokens. An Arrow file cannot be appended to: it stores
    the lengths first, then the offsets, then the tokens. So each array has a file of its own until its part ends.

    Args:
        folder: folder of the parts.
        token_type: dtype of the ids, uint16 or int32.
        unit: number of the unit, which is in the names of its parts.
    """

    def __init__(self, folder: Path, token_type: type[np.generic], unit: int = 0):
        self._folder = folder
        self._unit = unit
        self._types: dict[str, type[np.generic]] = {
            "tokens": token_type,
            "sentence_offsets": np.int64,
            "document_offsets": np.int64,
        }
        self._parts: list[dict[str, Any]] = []
        self._begin()

    def _begin(self) -> None:
        self._opened = contextlib.ExitStack()
        self._files: dict[str, IO[bytes]] = {
            name: self._opened.enter_context((self._folder / name).open("wb")) for name in self._types
        }
        self._digests = {name: hashlib.sha256() for name in self._types}
        self._lengths = dict.fromkeys(self._types, 0)
        self._num_documents = 0
        self._last_written_document = -1

    def append(self, batch: EncodedBatch) -> None:
        """Appends the sentences of the next batch; documents without sentences are dropped."""
        if self._lengths["tokens"] >= PART_TOKENS and batch.num_documents:
            self._append_to_part(select_sentences(batch, batch.documents == 0))
            self._end_part()
            self._begin()
            batch = select_sentences(batch, batch.documents > 0)
        self._append_to_part(batch)

    def finish(self) -> list[dict[str, Any]]:
        """Ends the last part; returns the entries of all parts in the manifest."""
        if self._lengths["tokens"]:
            self._end_part()
        else:
            self.close()
            self._remove_arrays()
        return self._parts

    def close(self) -> None:
        """Closes the files of the arrays; a draft that is not finished leaves them in the folder."""
        self._opened.close()

    def _append_to_part(self, batch: EncodedBatch) -> None:
        documents = self._num_documents + batch.documents
        starts = np.flatnonzero(np.diff(documents, prepend=self._last_written_document))
        self._append("document_offsets", self._lengths["sentence_offsets"] + starts)
        self._append("sentence_offsets", self._lengths["tokens"] + np.cumsum(batch.lengths) - batch.lengths)
        self._append("tokens", batch.tokens)
        self._num_documents += batch.num_documents
        if len(documents):
            self._last_written_document = int(documents[-1])

    def _end_part(self) -> None:
        """Turns the arrays into a part; they have at least one token."""
        documents, sentences = self._lengths["document_offsets"], self._lengths["sentence_offsets"]
        self._append("document_offsets", np.array([sentences]))
        self._append("sentence_offsets", np.array([self._lengths["tokens"]]))
        self.close()
        file = self._folder / f"part-{self._unit:06}-{len(self._parts):03}.arrow"
        checksum = self._write_arrow(file)
        self._remove_arrays()
        digests = "".join(digest.hexdigest() for digest in self._digests.values())
        part = {"name": file.name, "documents": documents, "sentences": sentences, "tokens": self._lengths["tokens"]}
        part |= {"bytes": file.stat().st_size, "crc32": checksum}
        self._parts.append({**part, "digest": hashlib.sha256(digests.encode()).hexdigest()})

    def _remove_arrays(self) -> None:
        for name in self._types:
            (self._folder / name).unlink()

    def _append(self, name: str, values: NDArray[Any]) -> None:
        self._files[name].write(values.astype(self._types[name]).tobytes())
        digested = np.int32 if name == "tokens" else np.int64  # independent of the stored dtype
        self._digests[name].update(values.astype(digested).tobytes())
        self._lengths[name] += len(values)

    def _write_arrow(self, file: Path) -> int:
        """Writes the Arrow file; returns its CRC-32."""
        import pyarrow as pa

        maps = {}
        for name in self._types:
            with (self._folder / name).open("rb") as stream:
                maps[name] = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        tokens, sentence_offsets, document_offsets = (
            pa.Array.from_buffers(pa.from_numpy_dtype(kind), self._lengths[name], [None, pa.py_buffer(maps[name])])
            for name, kind in self._types.items()
        )
        sentences = pa.LargeListArray.from_arrays(sentence_offsets, tokens)
        documents = pa.LargeListArray.from_arrays(document_offsets, sentences)
        batch = pa.record_batch([documents], names=[COLUMN])
        with file.open("wb") as written:
            sink = _FlatSink(written, maps.values())
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
        return sink.checksum


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
