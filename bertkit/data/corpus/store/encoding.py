"""Paragraphs → sentences → token ids, batch by batch, in the current process or in several.

Results are returned in the order of the batches, so the result does not depend on the batch size or the number of
processes. Only a few batches are in flight at any time, so memory does not grow with the text.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertkit.runtime.errors import PlacementError
from bertkit.runtime.reading.text import iterating

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    from bertkit.data.corpus.documents import Paragraph

Splitter = Callable[[str], list[str]]

_BATCH_CHARACTERS = 1 << 18
_SENTENCES_AT_ONCE = 1024  # an Encoding takes some hundred bytes per token until its ids are copied
_UINT16_IDS = 1 << 16
_THREADS = "TOKENIZERS_PARALLELISM"


class Batch(NamedTuple):
    """Consecutive paragraphs.

    Attributes:
        texts: texts of the paragraphs.
        documents: document of each paragraph, numbered within the batch: 0 continues the last document of the batch
            before, and each document that starts in this batch has the next number.
        position: position of the reader in bytes after these paragraphs.
    """

    texts: list[str]
    documents: list[int]
    position: int


class EncodedBatch(NamedTuple):
    """Sentences of a batch as token ids, without sentences that have no tokens.

    Attributes:
        tokens: ids of all sentences, concatenated; dtype ``token_type`` of the encoder.
        lengths: ``(num_sentences,)`` int64, tokens of each sentence.
        documents: ``(num_sentences,)`` int64, as in `Batch`.
        num_documents: number of documents that start in the batch, including those without tokens.
        position: as in `Batch`.
    """

    tokens: NDArray[np.integer[Any]]
    lengths: NDArray[np.int64]
    documents: NDArray[np.int64]
    num_documents: int
    position: int


def selected(batch: EncodedBatch, sentences: NDArray[np.bool_]) -> EncodedBatch:
    """Returns some sentences of a batch, given by a mask; the numbers of their documents stay."""
    tokens = batch.tokens[np.repeat(sentences, batch.lengths)]
    return batch._replace(tokens=tokens, lengths=batch.lengths[sentences], documents=batch.documents[sentences])


def batched(paragraphs: Iterable[Paragraph], position: Callable[[], int] = lambda: 0) -> Iterator[Batch]:
    """Yields ``paragraphs`` in batches of about 2¹⁸ characters, each with the current value of ``position()``."""
    texts: list[str] = []
    documents: list[int] = []
    document = size = 0
    with iterating(paragraphs) as remaining:
        for text, starts_document in remaining:
            document += starts_document
            texts.append(text)
            documents.append(document)
            size += len(text)
            if size >= _BATCH_CHARACTERS:
                yield Batch(texts, documents, position())
                texts, documents, document, size = [], [], 0, 0
    if texts:
        yield Batch(texts, documents, position())


class SentenceEncoder:
    """Splits paragraphs into sentences and tokenizes them without special tokens.

    Uses a copy of the tokenizer without truncation and padding that does not recognize special tokens in the text. If
    the tokenizer reads the space before a word as part of it, as byte-level BPE does, a sentence is encoded with the
    space that it has in front in its paragraph.

    Attributes:
        splitter: paragraph → sentences; None if every paragraph is one sentence.
        token_type: dtype of the ids: uint16 if all ids of the vocabulary fit, else int32.
        tokenizer_digest: SHA-256 (hexadecimal) of the serialized tokenizer and of the rule for spaces.

    Args:
        tokenizer: a fast tokenizer; not modified.
        splitter: paragraph → sentences; None if every paragraph is one sentence.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, splitter: Splitter | None):
        from tokenizers import Tokenizer

        self._encoder: Tokenizer = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
        self._encoder.no_truncation()
        self._encoder.no_padding()
        self._encoder.encode_special_tokens = True
        self.splitter = splitter
        ids = self._encoder.get_vocab().values()
        self.token_type: type[np.uint16 | np.int32] = np.uint16 if max(ids, default=0) < _UINT16_IDS else np.int32
        self._keeps_spaces = _reads_spaces(self._encoder)
        digested = self._encoder.to_str() + ("with spaces" if self._keeps_spaces else "")
        self.tokenizer_digest = hashlib.sha256(digested.encode()).hexdigest()

    def __call__(self, batch: Batch) -> EncodedBatch:
        sentences: list[str] = []
        documents: list[int] = []
        for text, document in zip(batch.texts, batch.documents, strict=True):
            parts = [text] if self.splitter is None else list(self.splitter(text))
            sentences += _with_spaces(text, parts) if self._keeps_spaces else parts
            documents += [document] * len(parts)
        starts = range(0, len(sentences), _SENTENCES_AT_ONCE)
        encoded = [self._encode(sentences[start : start + _SENTENCES_AT_ONCE]) for start in starts]
        tokens = [np.empty(0, self.token_type), *(tokens for tokens, _ in encoded)]
        lengths = np.concatenate([np.empty(0, np.int64), *(lengths for _, lengths in encoded)])
        kept = lengths > 0  # a sentence of only control characters has no tokens
        return EncodedBatch(
            np.concatenate(tokens),
            lengths[kept],
            np.array(documents, np.int64)[kept],
            batch.documents[-1],
            batch.position,
        )

    def _encode(self, sentences: list[str]) -> tuple[NDArray[np.integer[Any]], NDArray[np.int64]]:
        encodings = self._encoder.encode_batch_fast(sentences, add_special_tokens=False)
        ids = [encoding.ids for encoding in encodings]
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        return np.fromiter(itertools.chain.from_iterable(ids), self.token_type, int(lengths.sum())), lengths


def _reads_spaces(encoder: Tokenizer) -> bool:
    """Returns whether a word after a space has other tokens than the same word at the start of a text."""
    before, word, after_space, text = (
        encoder.encode(each, add_special_tokens=False).ids for each in ("b", "a", " a", "b a")
    )
    within = text[len(before) :]
    return within == after_space != word


def _with_spaces(text: str, sentences: Sequence[str]) -> Iterator[str]:
    """Yields the sentences of a paragraph, with a space in front of those that white space precedes there."""
    end = 0
    for number, sentence in enumerate(sentences):
        start = text.find(sentence, end)
        if start < 0:  # changed by the splitter
            follows_space = number > 0
        else:
            follows_space = text[start - 1 : start].isspace()
            end = start + len(sentence)
        yield f" {sentence}" if follows_space and not sentence[:1].isspace() else sentence


def encode_batches(batches: Iterable[Batch], encode: SentenceEncoder, num_workers: int = 1) -> Generator[EncodedBatch]:
    """Yields the result of ``encode`` for each batch, in order, computed by ``num_workers`` processes.

    With 1 worker the current process does the work. Otherwise at most ``2 × num_workers`` batches are in flight.
    Processes are forked on Linux, so a splitter that cannot be pickled, such as a lambda, also works there; on other
    systems it has to be a function of a module.

    Close the iterator (``contextlib.closing``) to end the processes at once if it is not exhausted.

    Raises:
        PlacementError: a worker process was killed.
        Exception: any exception of ``batches`` or of the splitter.
    """
    if num_workers == 1:
        if parent_process() is not None:
            # Threads do not survive a fork, and data loader workers are forked: the tokenizers library would wait for
            # its threads forever.
            os.environ[_THREADS] = "false"
        with iterating(batches) as remaining:
            yield from map(encode, remaining)
        return
    out: deque[Future[EncodedBatch]] = deque()
    with worker_pool(encode, num_workers) as pool, iterating(batches) as remaining:
        for batch in remaining:
            out.append(pool.submit(call_in_worker, batch))
            if len(out) == 2 * num_workers:
                yield out.popleft().result()
        while out:
            yield out.popleft().result()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Context in which the tokenizers library uses one thread; it does not warn then about a fork after it had more."""
    threads = os.environ.get(_THREADS)
    os.environ[_THREADS] = "false"
    try:
        yield
    finally:
        os.environ.pop(_THREADS)
        if threads is not None:
            os.environ[_THREADS] = threads


@contextlib.contextmanager
def worker_pool(call: Callable[[Any], Any], num_workers: int) -> Iterator[ProcessPoolExecutor]:
    """Context of a pool whose processes compute ``call`` by `call_in_worker`, with one thread each.

    Raises:
        PlacementError: a process was killed.
    """
    context = get_context("fork" if sys.platform == "linux" else "spawn")
    pool = ProcessPoolExecutor(num_workers, context, _start_worker, (call, os.getpid()))
    try:
        # The processes start at the first batch and inherit it: more threads than cores would slow them down.
        with one_thread():
            yield pool
    except BrokenProcessPool as error:
        if error.__cause__ is not None:  # a result could not be unpickled; no process died
            raise
        raise PlacementError(
            f"one of the {num_workers} processes that tokenize the corpus was killed, most often because memory ran "
            f"out: use fewer processes (placement.preprocessing_num_workers=1; corpus build --workers 1), or a "
            "machine with more memory"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


_call: Callable[[Any], Any]
"""Function of a worker process, passed at its start: a forked process does not need to pickle it."""


def _start_worker(call: Callable[[Any], Any], parent: int) -> None:
    global _call
    _call = call
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent ends the workers
    threading.Thread(target=_exit_with, args=(parent,), daemon=True).start()


def _exit_with(parent: int) -> None:
    # If the parent is killed, the queue that a worker waits for is never closed.
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def call_in_worker(item: Any) -> Any:
    """Computes the function of `worker_pool` in one of its processes."""
    return _call(item)


def send_by_value(ray: Any, encode: SentenceEncoder) -> None:
    """Makes Ray send the code of a user's splitter: its file cannot be imported by name in a worker."""
    module = getattr(encode.splitter, "__module__", None)
    if module is not None and module.partition(".")[0] != "bertkit" and module in sys.modules:
        ray.cloudpickle.register_pickle_by_value(sys.modules[module])
