"""Sentence lengths → the segments of each example, by the rule of the pair objective.

A segment is a range of tokens of a store, so the lengths of sentences suffice to find it. Each rule goes through the
documents in order and yields one block of examples of bounded size at a time, independent of the size of a document.
The random numbers of a chunk depend only on the seed, the epoch, its document and its number within that document.

``nsp`` follows ``create_instances_from_document`` of the released ``create_pretraining_data.py`` with one difference: a
random segment B never comes from the document of its A. The script draws a document up to ten times and then uses the
last draw, which can be the same document.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertkit.data.corpus.examples.randomness import Stream, uniform
from bertkit.data.corpus.settings import PairObjective
from bertkit.data.corpus.store.token_store import StoreView
from bertkit.runtime.errors import DataError

AS_WRITTEN, OTHERWISE = 0, 1
_EXAMPLES_AT_ONCE = 1 << 14
_DOCUMENTS_AT_ONCE = 1 << 14
_DRAWS_AT_ONCE = 1 << 14


class Segments(NamedTuple):
    """A block of examples, one per row.

    Pairs of ``nsp`` and ``sop`` can be longer than `EpochOfText.max_tokens`; `bertkit.data.corpus.examples.pairs` cuts
    them.

    Attributes:
        starts, lengths: ``(N, 2)`` int64, in tokens, for A and B; B has length 0 if the example has no B.
        labels: ``(N,)`` int64: 0 = A and B are as in the text, 1 = they are not.
    """

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    labels: NDArray[np.int64]


class _Documents(NamedTuple):
    """Consecutive documents of a view.

    Attributes:
        place: index of the first document in the view.
        first: number of the sentence from which sentences are counted here.
        offsets: first token of each sentence from ``first`` on, and the token after the last one of the documents. A
            memoryview yields Python integers directly from the mapped file: no copy, and faster than numpy scalars.
        numbers: ``(N,)`` int64, number of each document in its store.
        firsts, ends: first sentence of each document, and the sentence after its last, counted from ``first``.
        targets: tokens that the chunks of each document have to reach.
        chunks: expected number of chunks of each document.
    """

    place: int
    first: int
    offsets: memoryview
    numbers: NDArray[np.int64]
    firsts: list[int]
    ends: list[int]
    targets: list[int]
    chunks: list[int]


@dataclass(frozen=True, eq=False)
class EpochOfText:
    """Text of an epoch, with its random numbers.

    Attributes:
        view: the documents.
        seed, epoch: determine the random numbers, both ≥ 0.
        max_tokens: maximum total length of the segments of an example, without special tokens, at least 2.
        short_seq_prob: probability that a document is cut with a random target of 2 to ``max_tokens`` tokens.
    """

    view: StoreView
    seed: int
    epoch: int
    max_tokens: int
    short_seq_prob: float

    def documents(self) -> Iterator[_Documents]:
        """Yields all documents in order, in groups whose chunks need a bounded number of random numbers."""
        store = self.view.store
        for place in range(0, self.view.num_documents, _DOCUMENTS_AT_ONCE):
            numbers = self.view.documents[place : place + _DOCUMENTS_AT_ONCE]
            firsts, ends = store.document_offsets[numbers], store.document_offsets[numbers + 1]
            draws = uniform(self.seed, Stream.TARGET_LENGTH, self.epoch, numbers, 2)
            shorter = 2 + (draws[:, 1] * (self.max_tokens - 1)).astype(np.int64)
            targets = np.where(draws[:, 0] < self.short_seq_prob, shorter, self.max_tokens)
            first = int(firsts.min())
            offsets = store.sentence_offsets[first : int(ends.max()) + 1]
            firsts, ends = firsts - first, ends - first
            tokens = offsets[ends] - offsets[firsts]
            # A chunk consumes 3/4 of the target on average, and at least one sentence.
            chunks = np.minimum(np.minimum(3 * tokens // (2 * targets) + 4, ends - firsts), _DRAWS_AT_ONCE)
            cuts = np.flatnonzero(np.diff(np.cumsum(chunks) // _DRAWS_AT_ONCE)) + 1
            for start, end in zip([0, *cuts], [*cuts, len(numbers)], strict=True):
                lists = (array[start:end].tolist() for array in (firsts, ends, targets, chunks))
                yield _Documents(place + int(start), first, offsets.data, numbers[start:end], *lists)

    def draws(self, documents: NDArray[np.int64], chunks: NDArray[np.int64], n: int) -> NDArray[np.float64]:
        """Returns ``(N, n)`` random numbers in [0, 1) for chunks.

        Args:
            documents: ``(N,)`` int64, number in the store of the document of each chunk.
            chunks: ``(N,)`` int64, number of each chunk within its document.
            n: random numbers per chunk.
        """
        return uniform(self.seed, Stream.PAIRS, self.epoch, documents << 32 | chunks, n)


def next_sentence_pairs(text: EpochOfText) -> Iterator[Segments]:
    """Yields the segments of ``nsp`` (BERT §3.1, §A.2): B follows A, or is text of another document.

    Sentences are added to a chunk until it reaches the target of its document or the document ends. A is the first
    sentences of the chunk; their number is random, at least one and not all. With probability ½, and always if the
    chunk is a single sentence, B is random: it starts at a random sentence of another document and ends when the target
    is reached or that document ends; the rest of the chunk then starts the next chunk. Otherwise B is the rest of the
    chunk.

    Raises:
        DataError: there are fewer than two documents; a random B needs another document.
    """
    view = text.view
    if view.num_documents < 2:
        raise DataError(
            f"next-sentence prediction takes its random segments from other documents, and the number of documents "
            f"in this corpus is {view.num_documents}: give more files; or give the separator of documents within a "
            f"file (--document-separator blank-line or a regular expression, or --sentence-per-line); or choose an "
            f"objective that needs only one document (--pair-objective sop or none)"
        )
    sentence_offsets, document_offsets = view.store.sentence_offsets, view.store.document_offsets
    for place, chunk, sentence, split, end, target in (rows.T for rows in _blocks(_next_sentence_chunks(text), 6)):
        # (N, 2): A and B
        starts = sentence_offsets[np.stack([sentence, split], axis=1)]
        ends = sentence_offsets[np.stack([split, end], axis=1)]
        random = split == end
        drawn = text.draws(view.documents[place[random]], chunk[random], 4)
        other = (drawn[:, 2] * (view.num_documents - 1)).astype(np.int64)
        other = view.documents[other + (other >= place[random])]
        first, last = document_offsets[other], document_offsets[other + 1]
        first = first + (drawn[:, 3] * (last - first)).astype(np.int64)
        starts[random, 1] = sentence_offsets[first]
        reach = starts[random, 1] + target[random] - (ends - starts)[random, 0]
        ends[random, 1] = sentence_offsets[np.clip(sentence_offsets.searchsorted(reach), first + 1, last)]
        yield Segments(starts, ends - starts, np.where(random, OTHERWISE, AS_WRITTEN))


def _next_sentence_chunks(text: EpochOfText) -> Iterator[tuple[int, ...]]:
    """Yields (index of the document in the view, chunk number, first sentence of A, of B, sentence after B, target).

    For a random B, the sentence after B equals the first sentence of B.
    """
    for group in text.documents():
        offsets, begin = group.offsets, group.first
        counts = np.array(group.chunks)
        starts = np.cumsum(counts) - counts
        chunks = np.arange(counts.sum()) - np.repeat(starts, counts)
        drawn = text.draws(np.repeat(group.numbers, counts), chunks, 2)
        split_draws, next_draws = drawn[:, 0].tolist(), drawn[:, 1].tolist()
        documents = zip(
            group.numbers.tolist(), group.firsts, group.ends, group.targets, starts.tolist(), group.chunks, strict=True
        )
        for place, (document, sentence, end, target, start, count) in enumerate(documents, group.place):
            expected = slice(start, start + count)
            draws = chain(
                zip(split_draws[expected], next_draws[expected], strict=True), _draw_later(text, document, count)
            )
            for chunk, (split_draw, next_draw) in enumerate(draws):
                # Each sentence has at least one token, so at most `target` sentences reach the target.
                reach = offsets[sentence] + target
                chunk_end = bisect_left(offsets, reach, sentence + 1, min(end, sentence + target))
                split = sentence + 1 + int(split_draw * (chunk_end - sentence - 1))
                if next_draw < 0.5 or chunk_end == sentence + 1:
                    chunk_end = split
                yield place, chunk, begin + sentence, begin + split, begin + chunk_end, target
                sentence = chunk_end
                if sentence == end:
                    break


def _draw_later(text: EpochOfText, document: int, chunk: int) -> Iterator[Sequence[float]]:
    """Yields the random numbers of a document from ``chunk`` on, for chunks beyond the expected number."""
    while True:
        chunks = np.arange(chunk, chunk + max(64, min(chunk, _DRAWS_AT_ONCE)))
        yield from text.draws(np.full(len(chunks), document), chunks, 2).tolist()
        chunk += len(chunks)


def sentence_order_pairs(text: EpochOfText) -> Iterator[Segments]:
    """Yields the segments of ``sop`` (ALBERT: Lan et al. 2020, §3.1): adjacent segments in order, or swapped.

    Chunks are built as for ``nsp``. The first segment is a random number of the sentences of a chunk, at least one and
    not all; the second segment is the rest; with probability ½ they are swapped. A chunk of one sentence (a very long
    one, or the last of a document) is split after a random token instead, so that its text is used and both segments
    are of one document (ALBERT's script takes a random second segment here, as for ``nsp``). A chunk of one token
    cannot be split and is skipped.
    """
    offsets = text.view.store.sentence_offsets
    for document, chunk, first, end in (rows.T for rows in _blocks(_whole_chunks(text), 4)):
        split_draw, order_draw = text.draws(document, chunk, 2).T
        start, stop, size = offsets[first], offsets[end], end - first
        within = start + 1 + (split_draw * (stop - start - 1)).astype(np.int64)
        between = offsets[first + 1 + (split_draw * (size - 1)).astype(np.int64)]
        split = np.where(size == 1, within, between)
        starts, ends = np.stack([start, split], axis=1), np.stack([split, stop], axis=1)
        reversed_ = order_draw < 0.5
        starts[reversed_], ends[reversed_] = starts[reversed_, ::-1], ends[reversed_, ::-1]
        kept = stop - start > 1
        yield Segments(starts[kept], (ends - starts)[kept], np.where(reversed_, OTHERWISE, AS_WRITTEN)[kept])


def _whole_chunks(text: EpochOfText) -> Iterator[tuple[int, ...]]:
    """Yields (document number in the store, chunk number, first sentence, sentence after the last) of each chunk."""
    for group in text.documents():
        offsets, begin = group.offsets, group.first
        for document, sentence, end, target in zip(
            group.numbers.tolist(), group.firsts, group.ends, group.targets, strict=True
        ):
            chunk = 0
            while sentence < end:
                reach = offsets[sentence] + target
                chunk_end = bisect_left(offsets, reach, sentence + 1, min(end, sentence + target))
                yield document, chunk, begin + sentence, begin + chunk_end
                sentence = chunk_end
                chunk += 1


def full_sentences(text: EpochOfText) -> Iterator[Segments]:
    """Yields the segments of ``none`` (RoBERTa: Liu et al. 2019, §4.2, DOC-SENTENCES): full sentences, without a B.

    Sentences are added while they fit into the target; no example crosses the end of a document, so the last one of a
    document can be short. A sentence longer than the target is cut into pieces of the target length, and the next
    sentences are added to its last piece. Every token is in exactly one example of the epoch. Except for documents with
    a shorter target, all epochs have the same examples, with different masks.
    """
    for start, end in (rows.T for rows in _blocks(_cut_sentences(text), 2)):
        nothing = np.zeros_like(start)
        yield Segments(np.stack([start, nothing], axis=1), np.stack([end - start, nothing], axis=1), nothing)


def _cut_sentences(text: EpochOfText) -> Iterator[tuple[int, ...]]:
    """Yields (first token, token after the last) of each example."""
    for group in text.documents():
        offsets = group.offsets
        for sentence, end, target in zip(group.firsts, group.ends, group.targets, strict=True):
            start = offsets[sentence]
            last = offsets[end]
            while start < last:
                reach = start + target
                # Each sentence has at least one token; `start` can be inside of `sentence`.
                fits = bisect_right(offsets, reach, sentence + 1, min(end, sentence + target) + 1) - 1
                stop = offsets[fits] if fits > sentence else reach
                yield start, stop
                start, sentence = stop, fits


def _blocks(rows: Iterable[tuple[int, ...]], width: int) -> Iterator[NDArray[np.int64]]:
    """Yields rows of ``width`` integers as ``(N, width)`` int64 arrays with a bounded number of rows."""
    numbers = chain.from_iterable(rows)
    while len(block := np.fromiter(islice(numbers, width * _EXAMPLES_AT_ONCE), np.int64)):
        yield block.reshape(-1, width)


class Objective(NamedTuple):
    """Rule of a pair objective.

    Attributes:
        special_tokens: number of special tokens of an example: 3 for [CLS] A [SEP] B [SEP], 2 for [CLS] A [SEP].
        has_label: whether examples have a ``next_sentence_label``.
        segments: yields all examples of an epoch, in the order of the documents.
    """

    special_tokens: int
    has_label: bool
    segments: Callable[[EpochOfText], Iterator[Segments]]


OBJECTIVES: dict[PairObjective, Objective] = {
    "nsp": Objective(3, True, next_sentence_pairs),
    "sop": Objective(3, True, sentence_order_pairs),
    "none": Objective(2, False, full_sentences),
}
