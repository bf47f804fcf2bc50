"""Streamed corpora: read during training, with a few blocks of documents on disk instead of the whole corpus.

A block of a stream takes the place of an epoch: `PretrainingExamples` pairs, shuffles and masks within it. At the end
of the text the stream starts again.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.data.corpus.documents import DocumentForm, Paragraph
from bertkit.data.corpus.settings import EPOCHS_OF_A_PHASE
from bertkit.data.corpus.sources import Source
from bertkit.data.corpus.store.encoding import SentenceEncoder, Splitter
from bertkit.data.corpus.store.manifest import read_metadata, write_metadata
from bertkit.data.corpus.store.token_store import StoreView, TokenStore, intact_store
from bertkit.data.corpus.store.writer import store_origin, write_token_store
from bertkit.runtime.errors import DataError, quoted
from bertkit.runtime.files import UNFINISHED, output_error
from bertkit.runtime.json_text import dumps
from bertkit.runtime.reading.text import iterating

if TYPE_CHECKING:
    import numpy as np
    from transformers import PreTrainedTokenizerFast

BLOCK_CHARACTERS = 64 << 20
"""Minimum number of characters of a block, exceeded slightly: a block ends with a document and has at least two."""

_LEAST_DOCUMENTS = 2  # per block: next-sentence prediction takes its random segments from other documents
_PASS_FILE = "pass.json"
_BLOCKS_KEPT = 4  # from the current block on, to each side: data loader workers can be at different blocks


class StreamedBlocks:
    """Blocks of a stream, built on demand and removed when they are some blocks behind.

    The documents of a block depend only on the text, `BLOCK_CHARACTERS` and the documents left out, so a resumed run
    has the same blocks. It reads and tokenizes the text up to its block again, since the number of examples of a block
    is known only then.
    Processes of one machine share the blocks: one builds, the others wait.

    Args:
        sources: sources to read, repeatedly.
        form: rules that split their text into documents.
        tokenizer: a fast tokenizer.
        splitter: paragraph → sentences.
        cache_dir: parent of the folder of the blocks.
        held_out: number of documents in the first block → numbers of those for evaluation, int64, ascending; they are
            not in any block.
        max_documents: maximum number of documents, without those held out; ``None`` for all.
        num_workers: number of processes that tokenize.

    Attributes:
        fingerprint: SHA-256 (hexadecimal) of the text and of how it is read.

    Raises:
        DataError: the text cannot be read.
        OutputError: the folder of the blocks cannot be created.
        RecipeError: as `splitter_id`.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        form: DocumentForm,
        tokenizer: PreTrainedTokenizerFast,
        splitter: Splitter,
        *,
        cache_dir: Path,
        held_out: Callable[[int], np.ndarray],
        max_documents: int | None = None,
        num_workers: int = 1,
    ):
        self.sources = sources
        self.form = form
        self.tokenizer = tokenizer
        self.splitter = splitter
        self.max_documents = max_documents
        self.num_workers = num_workers
        self._reading: Iterator[tuple[int, Iterator[tuple[int, Paragraph]]]] = iter(())
        self._next_block = -1  # reading has not started
        self._reader = 0
        self._opened: dict[int, StoreView] = {}
        self._skipped: frozenset[int] = frozenset()
        with iterating(self._numbered_paragraphs()) as paragraphs:
            first_block = itertools.takewhile(lambda numbered: numbered[0] == 0, paragraphs)
            documents = sum(paragraph.starts_document for _, paragraph in first_block)
        self._skipped = frozenset(held_out(documents).tolist())
        origin = {
            **store_origin(sources, form, SentenceEncoder(tokenizer, None), splitter),
            "held_out": sorted(self._skipped),
            "max_documents": max_documents,
            "block_characters": BLOCK_CHARACTERS,
        }
        self.fingerprint = hashlib.sha256(dumps(origin, sort_keys=True).encode()).hexdigest()
        self.folder = Path(cache_dir) / f"stream-{self.fingerprint[:32]}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise output_error(self.folder, error) from error

    def held_out(self) -> StoreView | None:
        """Returns the documents for evaluation, or ``None`` if there are none; raises as `of_epoch`."""
        if not self._skipped:
            return None
        last = max(self._skipped)
        with self._lock(), iterating(self._paragraphs()) as numbered:
            first = itertools.takewhile(lambda each: each[0] <= last, numbered)
            paragraphs = (paragraph for number, paragraph in first if number in self._skipped)
            return (self._intact("held-out") or self._write("held-out", paragraphs)).whole()

    def of_epoch(self, epoch: int) -> StoreView:
        """Returns the block of an epoch; every phase of a run starts with the first block.

        Raises:
            DataError: the text cannot be read, or none of it is in the documents.
            OutputError: the block cannot be written.
            PlacementError: as `encode_batches`.
        """
        number = epoch % EPOCHS_OF_A_PHASE
        if number not in self._opened:
            with self._lock():
                block = self._block(number)
            while len(self._opened) >= _BLOCKS_KEPT:
                self._opened.pop(next(iter(self._opened)))
            self._opened[number] = block
        return self._opened[number]

    def _lock(self) -> contextlib.AbstractContextManager[Any]:
        from huggingface_hub.utils import WeakFileLock

        return WeakFileLock(self.folder / "lock")

    def _block(self, number: int) -> StoreView:
        total: int | None = None  # not known yet, or its record is damaged: the end of the text is found again
        with contextlib.suppress(OSError, DataError):
            total = int(read_metadata(self.folder / _PASS_FILE)["blocks"])
        block = number if total is None else number % total
        name = f"block-{block:06}"
        store = self._intact(name)
        if store is None:
            paragraphs = self._paragraphs_of_block(block)
            if paragraphs is None:  # the text has fewer blocks; their number is now known
                return self._block(number)
            store = self._write(name, paragraphs)
            if block and store.num_documents < _LEAST_DOCUMENTS:  # incomplete block at the end of the text
                write_metadata(self.folder / _PASS_FILE, {"blocks": block})
                shutil.rmtree(store.folder)
                return self._block(number)
        # Blocks far behind or ahead go, and unfinished folders of killed builds.
        near = range(1 - _BLOCKS_KEPT, _BLOCKS_KEPT)
        kept = {f"block-{(block + distance) % (total or EPOCHS_OF_A_PHASE):06}" for distance in near}
        for folder in (*self.folder.glob("block-*"), *self.folder.glob(f"{UNFINISHED}*")):
            if folder.name not in kept:
                shutil.rmtree(folder, ignore_errors=True)
        return store.whole()

    def _paragraphs_of_block(self, block: int) -> Iterator[Paragraph] | None:
        """Returns the paragraphs of a block, or ``None`` past the end; continues the current reading if it can."""
        # A forked process must not continue the reading of its parent: they would share the file position.
        if self._reader != os.getpid() or not 0 <= self._next_block <= block:
            self._reader = os.getpid()
            self._reading = itertools.groupby(self._numbered_paragraphs(), key=lambda numbered: numbered[0])
            self._next_block = 0
        for number, group in self._reading:
            self._next_block = number + 1
            if number == block:
                return (paragraph for _, paragraph in group)
        if not self._next_block:
            raise DataError(f"no text in {quoted(source.name for source in self.sources)}")
        write_metadata(self.folder / _PASS_FILE, {"blocks": self._next_block})
        self._next_block = -1
        return None

    def _numbered_paragraphs(self) -> Iterator[tuple[int, Paragraph]]:
        """Yields the paragraphs of one pass over the text, each with the number of its block."""
        block = documents = characters = 0
        with iterating(self._paragraphs()) as paragraphs:
            for number, paragraph in paragraphs:
                if number in self._skipped:
                    continue
                if paragraph.starts_document:
                    if self.max_documents is not None and number >= self.max_documents + len(self._skipped):
                        return
                    if characters >= BLOCK_CHARACTERS and documents >= _LEAST_DOCUMENTS:
                        block, documents, characters = block + 1, 0, 0
                    documents += 1
                characters += len(paragraph.text)
                yield block, paragraph

    def _paragraphs(self) -> Iterator[tuple[int, Paragraph]]:
        """Yields all paragraphs, each with the number of its document."""
        number = -1
        for source in self.sources:
            with iterating(source.paragraphs(self.form)) as paragraphs:
                for paragraph in paragraphs:
                    number += paragraph.starts_document
                    yield number, paragraph

    def _write(self, name: str, paragraphs: Iterator[Paragraph]) -> TokenStore:
        """Builds the store ``name``, which does not exist."""
        return write_token_store(
            paragraphs,
            self.form,
            self.tokenizer,
            self.splitter,
            folder=self.folder / name,
            # Data loader workers are daemonic and must not start processes.
            num_workers=1 if multiprocessing.current_process().daemon else self.num_workers,
        )

    def _intact(self, name: str) -> TokenStore | None:
        """Opens the store ``name``; removes it if it is damaged. Returns ``None`` if there is none then."""
        place = self.folder / name
        store = intact_store(place) if place.is_dir() else None
        if store is None:
            shutil.rmtree(place, ignore_errors=True)
        return store

    def __getstate__(self) -> dict[str, Any]:
        # An open reading cannot be pickled; each process starts its own.
        return {**self.__dict__, "_reading": iter(()), "_next_block": -1, "_opened": {}}
