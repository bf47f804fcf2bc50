"""Sources of text → a `TokenStore` on disk, built once for each combination of text, tokenizer and rules."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import itertools
import mmap
import shutil
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertkit.corpus.sentences import RULES_VERSION, split_sentences
from bertkit.corpus.store.encoding import EncodedBatch, SentenceEncoder, Splitter, batched, encode_batches, selected
from bertkit.corpus.store.manifest import METADATA_FILE, write_metadata
from bertkit.corpus.store.token_store import COLUMN, FORMAT, TokenStore, intact_store
from bertkit.errors import DataError
from bertkit.files import new_folder, remove_unfinished
from bertkit.json_text import dumps

if TYPE_CHECKING:
    import pyarrow as pa
    from transformers import PreTrainedTokenizerFast

    from bertkit.corpus.documents import DocumentForm, Paragraph
    from bertkit.corpus.sources import Source

Progress = Callable[[int, int], None]

PART_TOKENS = 1 << 24
"""Tokens with which a part ends; the document that reaches them is its last."""

_SLICE = 8 << 20  # bytes
_SMALL_CORPUS = 4 << 20  # bytes; a smaller corpus is done about as soon as worker processes have started


def build_token_store(
    sources: Sequence[Source],
    form: DocumentForm,
    tokenizer: PreTrainedTokenizerFast,
    splitter: Splitter = split_sentences,
    *,
    cache_dir: str | Path,
    splitter_version: str | None = None,
    num_workers: int = 1,
    progress: Progress | None = None,
) -> TokenStore:
    """Returns the token store of ``sources``; builds it unless ``cache_dir`` already has it.

    The key of a store is the content of the sources in their order, the tokenizer, ``form`` and the splitter; file
    names, dates and ``num_workers`` do not matter. A store is written to a temporary folder and renamed when complete,
    so a killed build never leaves a partial store; its temporary folder is removed by the next build. A damaged store
    is built again. Memory does not grow with the corpus; during the build the folder needs about twice the disk space
    of the store.

    Special tokens are neither added nor recognized: "[MASK]" in a file is tokenized as plain text.

    Args:
        sources: from `find_sources`.
        form: rules that split their text into documents.
        tokenizer: a fast tokenizer; its truncation and padding settings are neither used nor changed.
        splitter: paragraph → sentences; not used with ``form.sentence_per_line``.
        cache_dir: folder of the stores; created if missing.
        splitter_version: version of the results of ``splitter``; by default that of `splitter_id`.
        num_workers: number of processes that split and tokenize; 1 for the current process only, which also processes
            every corpus below 4 MiB.
        progress: called as ``progress(done_bytes, total_bytes)`` during tokenization; in the last call both are equal.
            Not called if the store exists or the size of a source is unknown.

    Raises:
        DataError: as raised by the sources; or none of them has text.
        PlacementError: as `encode_batches`.
        ValueError: as `splitter_id`.
    """
    encode = SentenceEncoder(tokenizer, None if form.sentence_per_line else splitter)
    origin = store_origin(sources, form, encode, splitter, splitter_version)
    key = origin_key(origin)
    place = Path(cache_dir) / key
    if place.exists() and (store := intact_store(place)) is not None:
        return store
    remove_unfinished(Path(cache_dir))
    reading = Reading(sources, form, progress)
    if reading.total is not None and reading.total < _SMALL_CORPUS:
        num_workers = 1
    origin["names"] = [source.name for source in sources]
    with new_folder(place, is_there=lambda: _is_store(place)) as draft:
        encoded = encode_batches(batched(reading, reading.position), encode, num_workers)
        write_store(encoded, encode.token_type, draft, origin, reading.report)
        if place.exists() and not _is_store(place):
            shutil.rmtree(place, ignore_errors=True)
    return TokenStore.open(place)


def write_token_store(
    paragraphs: Iterable[Paragraph],
    form: DocumentForm,
    tokenizer: PreTrainedTokenizerFast,
    splitter: Splitter = split_sentences,
    *,
    folder: str | Path,
    num_workers: int = 1,
) -> TokenStore:
    """Writes the token store of ``paragraphs`` to the new ``folder``, which is removed on failure.

    See `build_token_store` for the content of a store and the other arguments.

    Raises:
        DataError: the paragraphs are empty.
        FileExistsError: ``folder`` exists.
        PlacementError: as `encode_batches`.
        Exception: any exception of ``paragraphs``.
    """
    encode = SentenceEncoder(tokenizer, None if form.sentence_per_line else splitter)
    origin = {"format": FORMAT, "form": asdict(form), "tokenizer": encode.tokenizer_digest}
    if Path(folder).exists():
        raise FileExistsError(f"{folder}: already exists")
    with new_folder(Path(folder)) as draft:
        write_store(encode_batches(batched(paragraphs), encode, num_workers), encode.token_type, draft, origin)
    return TokenStore.open(folder)


class Reading:
    """Iterable over the paragraphs of all sources that tracks the position in bytes."""

    def __init__(self, sources: Sequence[Source], form: DocumentForm, progress: Progress | None):
        self._sources = sources
        self._form = form
        self._progress = progress
        self._ends = list(itertools.accumulate(source.size or 0 for source in sources))
        self._number = 0
        self.total = None if any(source.size is None for source in sources) else self._ends[-1]

    def __iter__(self) -> Iterator[Paragraph]:
        for number, source in enumerate(self._sources):
            self._number = number
            yield from source.paragraphs(self._form)

    def position(self) -> int:
        source, end = self._sources[self._number], self._ends[self._number]
        size = source.size or 0
        return end - size + min(source.position, size)

    def report(self, position: int | None) -> None:
        """Reports that the text up to byte ``position`` is written; None for all of it."""
        if self._progress and self.total is not None and position != self.total:
            self._progress(self.total if position is None else position, self.total)


def write_store(
    encoded: Generator[EncodedBatch],
    token_type: type[np.generic],
    folder: Path,
    origin: dict[str, Any],
    report: Callable[[int | None], None] = lambda position: None,
) -> None:
    """Writes the files of a store from the batches of the whole corpus, in order, and closes the generator.

    Args:
        encoded: the batches.
        token_type: dtype of the ids.
        folder: an empty folder.
        origin: metadata, such as those of `store_origin`.
        report: called with the position of every batch written, and with None at the end.

    Raises:
        DataError: there is no token.
        Exception: any exception of ``encoded``.
    """
    write_manifest(folder, origin, write_parts(encoded, token_type, folder, report=report))
    report(None)


def write_parts(
    encoded: Generator[EncodedBatch],
    token_type: type[np.generic],
    folder: Path,
    unit: int = 0,
    report: Callable[[int | None], None] = lambda position: None,
) -> list[dict[str, Any]]:
    """Writes the parts of a unit of a corpus from its batches, in order, and closes the generator.

    Args:
        encoded, token_type, report: as for `write_store`.
        folder: folder of the parts.
        unit: number of the unit, which is in the names of its parts.

    Returns:
        The entries of the parts in the manifest; none if there is no token.
    """
    with contextlib.closing(encoded), contextlib.closing(StoreDraft(folder, token_type, unit)) as draft:
        for batch in encoded:
            draft.append(batch)
            report(batch.position)
        return draft.finish()


def write_manifest(folder: Path, origin: dict[str, Any], parts: Sequence[dict[str, Any]]) -> None:
    """Writes ``store.json``, the last file of a store: a folder without it is no store.

    Raises:
        DataError: there is no part.
    """
    if not parts:
        names = origin.get("names", ["the paragraphs given"])
        if filters := origin.get("filters"):
            rules = ", ".join(f"{name}: {value}" for name, value in filters.items())
            raise DataError(f"no document is left by the filters ({rules})")
        raise DataError(f"no text in any of the {len(names)} sources: {', '.join(names[:5])}")
    digests = "".join(part["digest"] for part in parts)
    fingerprint = hashlib.sha256(digests.encode()).hexdigest()
    write_metadata(folder / METADATA_FILE, {**origin, "parts": parts, "fingerprint": fingerprint})


def store_origin(
    sources: Sequence[Source],
    form: DocumentForm,
    encode: SentenceEncoder,
    splitter: Splitter,
    splitter_version: str | None = None,
) -> dict[str, Any]:
    """Returns what determines the tokens of a store: text, form, splitter and tokenizer.

    Raises:
        DataError: a source cannot be read.
        ValueError: as `splitter_id`.
    """
    return {
        "format": FORMAT,
        "sources": [source.fingerprint() for source in sources],
        "form": asdict(form),
        "splitter": "" if form.sentence_per_line else splitter_id(splitter, splitter_version),
        "tokenizer": encode.tokenizer_digest,
    }


def origin_key(origin: Mapping[str, Any]) -> str:
    """Returns 32 hexadecimal digits that identify an origin."""
    return hashlib.sha256(dumps(origin, sort_keys=True).encode()).hexdigest()[:32]


def _is_store(folder: Path) -> bool:
    try:
        TokenStore.open(folder)
    except DataError:
        return False
    return True


def splitter_id(splitter: Splitter, version: str | None = None) -> str:
    """Returns an identifier of a splitter and its results: its name and version.

    Args:
        splitter: paragraph → sentences.
        version: by default `RULES_VERSION` for bertkit's rules; for other splitters their ``version`` attribute, or a
            digest of their source code.

    Raises:
        ValueError: ``version`` is None and the source code of the splitter is not available.
    """
    name = f"{getattr(splitter, '__module__', '')}.{getattr(splitter, '__qualname__', type(splitter).__qualname__)}"
    if version is None and splitter is split_sentences:
        version = RULES_VERSION
    if version is None:
        version = getattr(splitter, "version", None)
    if version is None:
        try:
            version = hashlib.sha256(inspect.getsource(splitter).encode()).hexdigest()
        except (OSError, TypeError) as error:
            raise ValueError(f"splitter_version: required, since the source code of {name} is not available") from error
    return f"{name}:{version}"


class StoreDraft:
    """Parts of a store that are being written.

    A part ends with a document, as soon as it has `PART_TOKENS` tokens. An Arrow file cannot be appended to: it stores
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
            self._append_to_part(selected(batch, batch.documents == 0))
            self._end_part()
            self._begin()
            batch = selected(batch, batch.documents > 0)
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
