"""Text files → a `TokenStore` on disk, built once for the same text, tokenizer and rules."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import itertools
import json
import logging
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertkit.corpus.documents import DocumentForm, read_documents
from bertkit.corpus.sentences import RULES_VERSION, split_sentences
from bertkit.corpus.token_store import ARRAYS, FORMAT, METADATA_FILE, TokenStore, array_file
from bertkit.errors import DataError

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

logger = logging.getLogger(__name__)

Splitter = Callable[[str], list[str]]
Progress = Callable[[int, int], None]

_BATCH_SENTENCES = 4096


def build_token_store(
    files: Sequence[Path],
    form: DocumentForm,
    tokenizer: PreTrainedTokenizerFast,
    splitter: Splitter = split_sentences,
    *,
    cache_dir: str | Path,
    splitter_version: str | None = None,
    progress: Progress | None = None,
) -> TokenStore:
    """The store of the tokens of ``files``: the one in ``cache_dir`` if it was built before, else a new one.

    A store is found again by the bytes of the files in their order, the tokenizer, ``form`` and the splitter; names
    and dates of files do not count. It is written beside its place and moved there when whole, so a build that is
    killed leaves nothing that could be taken for a store; a store found damaged is built anew. Memory grows with the
    largest file, not with the corpus.

    Text stays text: no special tokens are added, and a "[MASK]" that is written in a file is tokenized as its
    characters.

    Args:
        files: from `find_text_files`.
        form: how their lines make documents.
        tokenizer: a fast one; its truncation and padding settings are not used and not changed.
        splitter: paragraph → sentences; not asked where the form has a sentence a line.
        cache_dir: folder of the stores; made if need be.
        splitter_version: says when the results of ``splitter`` change. By default the version of bertkit's own rules,
            or a digest of the source of another function.
        progress: called as ``progress(done_bytes, total_bytes)`` while the text is tokenized; the last call has both
            equal. Not called when the store is found.

    Raises:
        DataError: as `read_text`; or there is no text in any of the files.
        ValueError: the source of ``splitter`` is not to be had, and no ``splitter_version`` is given.
    """
    splitter_id = "" if form.sentence_per_line else _splitter_id(splitter, splitter_version)
    encoder = _plain_encoder(tokenizer)
    origin = {
        "format": FORMAT,
        "files": [_sha256(file) for file in files],
        "form": asdict(form),
        "splitter": splitter_id,
        "tokenizer": hashlib.sha256(encoder.to_str().encode()).hexdigest(),
    }
    key = hashlib.sha256(json.dumps(origin, sort_keys=True).encode()).hexdigest()[:32]
    place = Path(cache_dir) / key
    if place.exists():
        try:
            return TokenStore.open(place)
        except DataError as error:
            logger.warning("built anew: %s", error)
    Path(cache_dir).mkdir(parents=True, exist_ok=True)
    draft = place.with_name(f".unfinished-{key[:8]}-{uuid.uuid4().hex}")
    draft.mkdir()
    try:
        with contextlib.ExitStack() as opened:
            writer = _Writer(draft, encoder, opened)
            for sentences in _documents(files, form, splitter, writer, progress):
                writer.add_document(sentences)
            writer.finish({**origin, "names": [str(file) for file in files]})
        _move_into_place(draft, place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return TokenStore.open(place)


def _documents(
    files: Sequence[Path], form: DocumentForm, splitter: Splitter, writer: _Writer, progress: Progress | None
) -> Iterator[Iterator[str]]:
    """The sentences of each document, and word of the progress after each batch and each file."""
    sizes = [file.stat().st_size for file in files]
    done, total = 0, sum(sizes)
    for file, size in zip(files, sizes, strict=True):
        if progress:
            writer.after_batch = _progress_within_file(progress, done, total, writer)
        for paragraphs in read_documents(file, form):
            yield (
                iter(paragraphs)
                if form.sentence_per_line
                else itertools.chain.from_iterable(splitter(paragraph) for paragraph in paragraphs)
            )
        writer.flush()
        done += size
        if progress:
            progress(done, total)


def _progress_within_file(progress: Progress, done: int, total: int, writer: _Writer) -> Callable[[], None]:
    start = writer.num_characters
    # Characters stand in for bytes here: they are fewer, so this is never ahead.
    return lambda: progress(done + writer.num_characters - start, total)


class _Writer:
    """Appends documents to the three arrays of a store; holds one batch of sentences."""

    def __init__(self, folder: Path, encoder: Tokenizer, opened: contextlib.ExitStack):
        self.num_characters = 0
        self.after_batch: Callable[[], None] = lambda: None
        self._folder = folder
        self._encoder = encoder
        self._files = {name: opened.enter_context(array_file(folder, name).open("wb")) for name in ARRAYS}
        self._digests = {name: hashlib.sha256() for name in ARRAYS}
        self._lengths = dict.fromkeys(ARRAYS, 0)
        self._sentences: list[str] = []
        self._documents: list[int] = []
        self._num_documents = 0
        self._last_written_document = -1

    def add_document(self, sentences: Iterator[str]) -> None:
        for sentence in sentences:
            self._sentences.append(sentence)
            self._documents.append(self._num_documents)
            if len(self._sentences) == _BATCH_SENTENCES:
                self.flush()
        self._num_documents += 1

    def flush(self) -> None:
        if not self._sentences:
            return
        encodings = self._encoder.encode_batch_fast(self._sentences, add_special_tokens=False)
        ids = [encoding.ids for encoding in encodings]
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        kept = lengths > 0  # a sentence of control characters alone has no tokens
        lengths = lengths[kept]
        documents = np.array(self._documents, np.int64)[kept]
        starts = np.flatnonzero(documents != np.concatenate([[self._last_written_document], documents[:-1]]))
        self._append("document_offsets", self._lengths["sentence_offsets"] + starts)
        self._append("sentence_offsets", self._lengths["tokens"] + np.cumsum(lengths) - lengths)
        self._append("tokens", np.fromiter(itertools.chain.from_iterable(ids), np.int32, int(lengths.sum())))
        if len(documents):
            self._last_written_document = int(documents[-1])
        self.num_characters += sum(map(len, self._sentences))
        self._sentences, self._documents = [], []
        self.after_batch()

    def finish(self, origin: dict[str, Any]) -> None:
        self.flush()
        if not self._lengths["tokens"]:
            raise DataError(f"no text in any of the {len(origin['files'])} files: {', '.join(origin['names'][:5])}")
        self._append("document_offsets", np.array([self._lengths["sentence_offsets"]]))
        self._append("sentence_offsets", np.array([self._lengths["tokens"]]))
        digests = "".join(digest.hexdigest() for digest in self._digests.values())
        metadata = {
            **origin,
            "lengths": self._lengths,
            "fingerprint": hashlib.sha256(digests.encode()).hexdigest(),
        }
        (self._folder / METADATA_FILE).write_text(json.dumps(metadata, indent=2) + "\n", encoding="utf-8")

    def _append(self, name: str, values: NDArray[Any]) -> None:
        data = values.astype(ARRAYS[name]).tobytes()
        self._files[name].write(data)
        self._digests[name].update(data)
        self._lengths[name] += len(values)


def _move_into_place(draft: Path, place: Path) -> None:
    """Moves a finished store to its place, unless another process has put the same store there meanwhile."""
    for attempt in range(2):
        try:
            os.rename(draft, place)
            return
        except OSError:
            if attempt:
                raise
        try:
            TokenStore.open(place)
            return
        except DataError:
            shutil.rmtree(place, ignore_errors=True)


def _plain_encoder(tokenizer: PreTrainedTokenizerFast) -> Tokenizer:
    """A copy of the tokenizer that neither cuts, nor pads, nor reads special tokens out of the text."""
    from tokenizers import Tokenizer

    encoder = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    encoder.no_truncation()
    encoder.no_padding()
    encoder.encode_special_tokens = True
    return encoder


def _splitter_id(splitter: Splitter, version: str | None) -> str:
    name = f"{getattr(splitter, '__module__', '')}.{getattr(splitter, '__qualname__', type(splitter).__qualname__)}"
    if version is None and splitter is split_sentences:
        version = RULES_VERSION
    if version is None:
        try:
            version = hashlib.sha256(inspect.getsource(splitter).encode()).hexdigest()
        except (OSError, TypeError) as error:
            raise ValueError(f"splitter_version: needed, since the source of {name} cannot be read") from error
    return f"{name}:{version}"


def _sha256(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {error.strerror}") from error
