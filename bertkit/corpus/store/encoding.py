"""Paragraphs → sentences → token ids, batch by batch, in this process or in several.

The batches come back in the order in which they went out, so neither their size nor the number of processes shows in
the result; and only a few are under way at any time, so memory does not grow with the text.
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
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertkit.errors import PlacementError

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    from bertkit.corpus.documents import Paragraph

Splitter = Callable[[str], list[str]]

_BATCH_CHARACTERS = 1 << 18
_SENTENCES_AT_ONCE = 1024  # an encoding takes some hundred bytes a token until its ids are out of it
_UINT16_IDS = 1 << 16
_THREADS = "TOKENIZERS_PARALLELISM"


class Batch(NamedTuple):
    """Some paragraphs in a row.

    Attributes:
        texts: of the paragraphs.
        documents: whose they are, counted within the batch: 0 is the document that the batch before ended in, each
            that starts here has the next number.
        position: of the reading, once they were read.
    """

    texts: list[str]
    documents: list[int]
    position: int


class EncodedBatch(NamedTuple):
    """The sentences of a batch that have tokens.

    Attributes:
        tokens: ids of all of them, end to end; of the encoder's ``token_type``.
        lengths: ``(num_sentences,)`` int64, their tokens.
        documents: ``(num_sentences,)`` int64, as in `Batch`.
        num_documents: how many started in the batch, those without tokens too.
        position: as in `Batch`.
    """

    tokens: NDArray[np.integer[Any]]
    lengths: NDArray[np.int64]
    documents: NDArray[np.int64]
    num_documents: int
    position: int


def batched(paragraphs: Iterable[Paragraph], position: Callable[[], int] = lambda: 0) -> Iterator[Batch]:
    """``paragraphs`` by the quarter of a million characters, each batch with what ``position()`` then is."""
    texts: list[str] = []
    documents: list[int] = []
    document = size = 0
    for text, starts_document in paragraphs:
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
    """Splits paragraphs into sentences and these into token ids, without special tokens.

    It follows a copy of the tokenizer that neither cuts, nor pads, nor reads special tokens out of the text.

    Attributes:
        token_type: of the ids: uint16 where all of the vocabulary fits, else int32.
        tokenizer_digest: a SHA-256 (hexadecimal) of all that makes this tokenizer.

    Args:
        tokenizer: a fast one; not changed.
        splitter: paragraph → sentences; None where every paragraph is a sentence.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, splitter: Splitter | None):
        from tokenizers import Tokenizer

        self._encoder: Tokenizer = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
        self._encoder.no_truncation()
        self._encoder.no_padding()
        self._encoder.encode_special_tokens = True
        self._splitter = splitter
        ids = self._encoder.get_vocab().values()
        self.token_type: type[np.uint16 | np.int32] = np.uint16 if max(ids, default=0) < _UINT16_IDS else np.int32
        self.tokenizer_digest = hashlib.sha256(self._encoder.to_str().encode()).hexdigest()

    def __call__(self, batch: Batch) -> EncodedBatch:
        sentences: list[str] = []
        documents: list[int] = []
        for text, document in zip(batch.texts, batch.documents, strict=True):
            parts = [text] if self._splitter is None else list(self._splitter(text))
            sentences += parts
            documents += [document] * len(parts)
        starts = range(0, len(sentences), _SENTENCES_AT_ONCE)
        encoded = [self._encode(sentences[start : start + _SENTENCES_AT_ONCE]) for start in starts]
        tokens = [np.empty(0, self.token_type), *(tokens for tokens, _ in encoded)]
        lengths = np.concatenate([np.empty(0, np.int64), *(lengths for _, lengths in encoded)])
        kept = lengths > 0  # a sentence of control characters alone has no tokens
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


def encode_batches(batches: Iterable[Batch], encode: SentenceEncoder, num_workers: int = 1) -> Generator[EncodedBatch]:
    """What ``encode`` makes of each batch, in their order, worked out by ``num_workers`` processes; 1 is this one.

    At most ``2 × num_workers`` batches are out at a time. Processes are forked on Linux, so a splitter that cannot be
    pickled, such as a lambda, serves as well there; elsewhere it has to be a function of a module.

    Close the iterator (``contextlib.closing``) to end the processes at once if it is not read to its end.

    Raises:
        PlacementError: a process was killed from outside.
        Exception: whatever ``batches`` or the splitter raises.
    """
    if num_workers == 1:
        if parent_process() is not None:
            # The library's threads stay behind where a process is forked, as data workers are, and it would wait for
            # them for ever.
            os.environ[_THREADS] = "false"
        yield from map(encode, batches)
        return
    out: deque[Future[EncodedBatch]] = deque()
    with _workers(encode, num_workers) as pool:
        for batch in batches:
            out.append(pool.submit(_encode_in_worker, batch))
            if len(out) == 2 * num_workers:
                yield out.popleft().result()
        while out:
            yield out.popleft().result()


@contextlib.contextmanager
def _workers(encode: SentenceEncoder, num_workers: int) -> Iterator[ProcessPoolExecutor]:
    context = get_context("fork" if sys.platform == "linux" else "spawn")
    pool = ProcessPoolExecutor(num_workers, context, _start_worker, (encode, os.getpid()))
    threads = os.environ.get(_THREADS)
    # The processes are started at the first batch and inherit this: threads of their own would only crowd them, and
    # the library warns at a fork after it has used threads where this is not settled.
    os.environ[_THREADS] = "false"
    try:
        yield pool
    except BrokenProcessPool as error:
        if error.__cause__ is not None:  # a result that cannot be read: no process died
            raise
        raise PlacementError(
            f"one of the {num_workers} processes that tokenize the corpus was killed from outside, most often for want "
            f"of memory: use fewer (placement.preprocessing_num_workers=1), or give the machine more memory"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)
        os.environ.pop(_THREADS)
        if threads is not None:
            os.environ[_THREADS] = threads


_encode: SentenceEncoder
"""Of a worker; given at its start, since what is forked need not be pickled."""


def _start_worker(encode: SentenceEncoder, parent: int) -> None:
    global _encode
    _encode = encode
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches them all; the parent ends the others
    threading.Thread(target=_exit_with, args=(parent,), daemon=True).start()


def _exit_with(parent: int) -> None:
    # If the parent is killed, nobody closes the queue that a worker waits at.
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _encode_in_worker(batch: Batch) -> EncodedBatch:
    return _encode(batch)
