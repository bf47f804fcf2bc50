"""Paragraphs → sentences → token ids, batch by batch, in the current process or in several.

Results are returned in the order of the batches, so the result does not depend on the batch size or the number of
processes. Only a few batches are in flight at any time, so memory does not grow with the text.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from multiprocessing import parent_process
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertkit.runtime.placement.parallel import THREADS, compute_in_processes
from bertkit.runtime.reading.text import iterating

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from bertkit.data.corpus.documents import Paragraph

Splitter = Callable[[str], list[str]]

_BATCH_CHARACTERS = 1 << 18
_SENTENCES_AT_ONCE = 1024  # an Encoding takes some hundred bytes per token until its ids are copied
_UINT16_IDS = 1 << 16


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


def select_sentences(batch: EncodedBatch, sentences: NDArray[np.bool_]) -> EncodedBatch:
    """Returns some sentences of a batch, given by a mask; the numbers of their documents stay."""
    tokens = batch.tokens[np.repeat(sentences, batch.lengths)]
    return batch._replace(tokens=tokens, lengths=batch.lengths[sentences], documents=batch.documents[sentences])


def batch_paragraphs(paragraphs: Iterable[Paragraph], position: Callable[[], int] = lambda: 0) -> Iterator[Batch]:
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
    the tokenizer reads the space before a word as part of it, as byte-level BPE does, a sentence is stripped of white
    space at both ends and encoded with the space that it has in front in its paragraph.

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
        before, word, after_space, text = (
            self._encoder.encode(each, add_special_tokens=False).ids for each in ("b", "a", " a", "b a")
        )
        # A word after a space has other tokens than the same word at the start of a text.
        self._keeps_spaces = text[len(before) :] == after_space != word
        digested = self._encoder.to_str() + ("with spaces" if self._keeps_spaces else "")
        self.tokenizer_digest = hashlib.sha256(digested.encode()).hexdigest()

    def __call__(self, batch: Batch) -> EncodedBatch:
        sentences: list[str] = []
        documents: list[int] = []
        for text, document in zip(batch.texts, batch.documents, strict=True):
            parts = [text] if self.splitter is None else list(self.splitter(text))
            sentences += _with_spaces(text, parts) if self._keeps_spaces else parts
            documents += [document] * len(parts)
        tokens, counts = [np.empty(0, self.token_type)], [np.empty(0, np.int64)]
        for start in range(0, len(sentences), _SENTENCES_AT_ONCE):
            some = sentences[start : start + _SENTENCES_AT_ONCE]
            ids = [each.ids for each in self._encoder.encode_batch_fast(some, add_special_tokens=False)]
            counts.append(np.fromiter(map(len, ids), np.int64, len(ids)))
            tokens.append(np.fromiter(itertools.chain.from_iterable(ids), self.token_type, int(counts[-1].sum())))
        lengths = np.concatenate(counts)
        kept = lengths > 0  # a sentence of only control characters has no tokens
        return EncodedBatch(
            np.concatenate(tokens),
            lengths[kept],
            np.array(documents, np.int64)[kept],
            batch.documents[-1],
            batch.position,
        )


def _with_spaces(text: str, sentences: Sequence[str]) -> Iterator[str]:
    """Yields the sentences of a paragraph, stripped, with a space in front of those that white space precedes there."""
    end = 0
    for number, sentence in enumerate(map(str.strip, sentences)):  # some splitters leave the space at the end
        start = text.find(sentence, end)
        if start < 0:  # changed by the splitter
            follows_space = number > 0
        else:
            follows_space = text[start - 1 : start].isspace()
            end = start + len(sentence)
        yield f" {sentence}" if follows_space and sentence else sentence


def encode_batches(batches: Iterable[Batch], encode: SentenceEncoder, num_workers: int = 1) -> Generator[EncodedBatch]:
    """Yields the result of ``encode`` for each batch, in order, computed by ``num_workers`` processes.

    With 1 worker the current process does the work. Otherwise at most ``2 × num_workers`` batches are in flight.
    What `bertkit.runtime.placement.parallel.compute_in_processes` says of processes and of the function holds for the
    splitter.

    Close the iterator (``contextlib.closing``) to end the processes at once if it is not exhausted.

    Raises:
        PlacementError: a worker process was killed.
        Exception: any exception of ``batches`` or of the splitter.
    """
    if num_workers > 1:
        killed = (
            f"one of the {num_workers} processes that tokenize the corpus was killed, most often because memory ran "
            "out: use fewer processes (placement.preprocessing_num_workers=1; corpus build --workers 1), or a machine "
            "with more memory"
        )
        with iterating(compute_in_processes(encode, batches, num_workers, killed=killed, in_order=True)) as computed:
            for _, encoded in computed:
                yield encoded
        return
    if parent_process() is not None:
        # Threads do not survive a fork, and data loader workers are forked: the tokenizers library would wait for its
        # threads forever.
        os.environ[THREADS] = "false"
    with iterating(batches) as remaining:
        yield from map(encode, remaining)
