"""Sentence lengths → pairs of segments for the next-sentence task (BERT §3.1, §A.2).

The rules are those of ``create_instances_from_document`` of the released ``create_pretraining_data.py``, with one
departure: a random segment B never comes from the document of its A. The script draws a document up to ten times and
then takes what it has, which can be the same one.

A pair is planned from the lengths of sentences alone: the sentences of a segment lie end to end in the store, so a
segment is a range of its tokens.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from bertkit.corpus.randomness import Stream, uniform, words
from bertkit.corpus.token_store import StoreView
from bertkit.errors import DataError

IS_NEXT, IS_RANDOM = 0, 1
SPECIAL_TOKENS_OF_A_PAIR = 3  # [CLS] A [SEP] B [SEP]
_DRAWS_AT_ONCE = 1 << 16
_ALL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)

# One pair: first sentence of A, the one after its last, the same of B, next_sentence_label.
Pair = tuple[int, int, int, int, int]


@dataclass(frozen=True, eq=False)
class PairPlan:
    """The pairs of one epoch, in the order of their documents; all arrays are ``(N,)``.

    Segment A of pair i is ``tokens[a_start[i]:a_start[i] + a_length[i]]`` of the store, segment B likewise. Neither is
    empty, and together they have at most ``max_seq_length - 3`` tokens.

    Attributes:
        a_start, b_start: int64.
        a_length, b_length: int32, tokens.
        next_sentence_label: int8; 0 = B follows A, 1 = B is random.
    """

    a_start: NDArray[np.int64]
    a_length: NDArray[np.int32]
    b_start: NDArray[np.int64]
    b_length: NDArray[np.int32]
    next_sentence_label: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.a_start)


def plan_epoch(view: StoreView, seed: int, epoch: int, max_seq_length: int, short_seq_prob: float) -> PairPlan:
    """The pairs of an epoch: a pure function of the arguments; about one pass over the text of ``view``.

    For each document: the target length is ``max_seq_length - 3`` tokens or, with ``short_seq_prob``, a random one
    from 2 to that. Sentences are gathered into a chunk until it reaches the target or the document ends. A is a random
    number of its sentences, at least the first and not all. With probability ½, and always where the chunk is one
    sentence, B is random: text from a random sentence of another document on, until the target is reached or that
    document ends; the rest of the chunk is put back and opens the next one. Otherwise B is the rest of the chunk. Then
    tokens are dropped from the longer segment, at its front or its back at random, until the pair fits.

    Args:
        view: the documents to pair; random segments come from these too.
        seed, epoch: of the randomness, both ≥ 0.
        max_seq_length: tokens with [CLS] and both [SEP], at least 5.
        short_seq_prob: 0 to 1, drawn once a document and epoch, as in the released script.

    Raises:
        DataError: ``view`` has fewer than two documents, so there is no other document to take a random B from.
    """
    if view.num_documents < 2:
        raise DataError(
            f"next-sentence prediction takes its random segments from other documents, and this corpus has "
            f"{view.num_documents}: give more files, or say how one file is parted into documents "
            f"(--document-separator blank-line or a regular expression, or --sentence-per-line)"
        )
    max_tokens = max_seq_length - SPECIAL_TOKENS_OF_A_PAIR
    targets = _target_lengths(view, seed, epoch, max_tokens, short_seq_prob)
    pairs = np.fromiter(chain.from_iterable(_pairs(view, seed, epoch, targets)), np.int64).reshape(-1, 5)
    offsets = view.store.sentence_offsets
    # (N, 2): A and B
    starts = offsets[pairs[:, 0:4:2]]
    starts, lengths = _truncate(starts, offsets[pairs[:, 1:4:2]] - starts, max_tokens, seed, epoch)
    return PairPlan(
        a_start=starts[:, 0].copy(),
        a_length=lengths[:, 0].astype(np.int32),
        b_start=starts[:, 1].copy(),
        b_length=lengths[:, 1].astype(np.int32),
        next_sentence_label=pairs[:, 4].astype(np.int8),
    )


def _target_lengths(view: StoreView, seed: int, epoch: int, max_tokens: int, short_seq_prob: float) -> list[int]:
    """Tokens to fill, for each document of the view."""
    draws = uniform(seed, Stream.TARGET_LENGTH, epoch, view.documents, 2)
    shorter = 2 + (draws[:, 1] * (max_tokens - 1)).astype(np.int64)
    targets: list[int] = np.where(draws[:, 0] < short_seq_prob, shorter, max_tokens).tolist()
    return targets


def _pairs(view: StoreView, seed: int, epoch: int, targets: list[int]) -> Iterator[Pair]:
    # A memory view gives Python integers straight from the mapped file: no copy, and faster than numpy scalars.
    offsets = view.store.sentence_offsets.data
    firsts: list[int] = view.store.document_offsets[view.documents].tolist()
    ends: list[int] = view.store.document_offsets[view.documents + 1].tolist()
    others = len(firsts) - 1
    for document, draws in enumerate(_draws_of_documents(view, seed, epoch, targets)):
        sentence, end, target = firsts[document], ends[document], targets[document]
        while sentence < end:
            split_draw, next_draw, document_draw, start_draw = next(draws)
            chunk_end = bisect_left(offsets, offsets[sentence] + target, sentence + 1, end)
            size = chunk_end - sentence
            split = sentence + 1 + int(split_draw * (size - 1))
            if size > 1 and next_draw >= 0.5:
                yield sentence, split, split, chunk_end, IS_NEXT
                sentence = chunk_end
                continue
            other = int(document_draw * others)
            other += other >= document
            first = firsts[other] + int(start_draw * (ends[other] - firsts[other]))
            b_target = target - (offsets[split] - offsets[sentence])
            b_end = bisect_left(offsets, offsets[first] + b_target, first + 1, ends[other])
            yield sentence, split, first, b_end, IS_RANDOM
            sentence = split


def _draws_of_documents(
    view: StoreView, seed: int, epoch: int, targets: list[int]
) -> Iterator[Iterator[tuple[float, float, float, float]]]:
    """For each document, four random numbers for each of its chunks, as many as it asks for."""
    starts = view.store.sentence_offsets[view.store.document_offsets]
    tokens = starts[view.documents + 1] - starts[view.documents]
    # A chunk uses up 3/4 of the target on average. The guess need not suffice: the numbers do not depend on it.
    guesses = 3 * tokens // (2 * np.array(targets)) + 2
    group_of = np.cumsum(guesses) // _DRAWS_AT_ONCE
    for group in np.split(np.arange(len(tokens)), np.flatnonzero(np.diff(group_of)) + 1):
        counts = guesses[group]
        chunks = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        drawn = _chunk_draws(seed, epoch, np.repeat(view.documents[group], counts), chunks)
        position = 0
        for document, count in zip(view.documents[group].tolist(), counts.tolist(), strict=True):
            yield _endless(drawn[position : position + count], seed, epoch, document)
            position += count


def _endless(
    drawn: list[tuple[float, float, float, float]], seed: int, epoch: int, document: int
) -> Iterator[tuple[float, float, float, float]]:
    done = 0
    while True:
        yield from drawn
        done += len(drawn)
        more = np.arange(done, done + max(64, done))
        drawn = _chunk_draws(seed, epoch, np.full(len(more), document), more)


def _chunk_draws(
    seed: int, epoch: int, documents: NDArray[np.int64], chunks: NDArray[np.int64]
) -> list[tuple[float, float, float, float]]:
    draws: list[tuple[float, float, float, float]] = uniform(
        seed, Stream.PAIRS, epoch, documents << 32 | chunks, 4
    ).tolist()
    return draws


def _truncate(
    starts: NDArray[np.int64], lengths: NDArray[np.int64], max_tokens: int, seed: int, epoch: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """``truncate_seq_pair`` for all pairs at once; ``starts`` and ``lengths`` are ``(N, 2)``: A and B.

    The script drops one token at a time from the longer segment, from B where they are equal, and tosses a coin for
    the end each time. What is left of each follows from the lengths; how many fell at the front is binomial.
    """
    half_a, half_b = (max_tokens + 1) // 2, max_tokens // 2
    a, b = lengths[:, 0], lengths[:, 1]
    fits = a + b <= max_tokens
    left_a = np.where(fits | (a <= half_a), a, np.where(b <= half_b, max_tokens - b, half_a))
    left_b = np.where(fits | (b <= half_b), b, max_tokens - left_a)
    left = np.stack([left_a, left_b], axis=1)
    return starts + _heads(lengths - left, seed, epoch), left


def _heads(tosses: NDArray[np.int64], seed: int, epoch: int) -> NDArray[np.int64]:
    """How many of so many fair coin tosses are heads, ``(N, 2)``: the ones among as many random bits."""
    flat = tosses.ravel()
    heads = np.zeros_like(flat)
    words_needed = (flat + 63) // 64
    size = 1
    while (
        todo := np.flatnonzero((words_needed > size // 2) & (words_needed <= size))
    ).size or size < words_needed.max():
        random_words = words(seed, Stream.TRUNCATION, epoch, todo, size)
        bits = np.clip(flat[todo, None] - 64 * np.arange(size), 0, 64).astype(np.uint64)
        # A shift by 64 is undefined: all bits is said apart.
        wanted = np.where(bits == 64, _ALL_BITS, (np.uint64(1) << (bits & np.uint64(63))) - np.uint64(1))
        heads[todo] = np.bitwise_count(random_words & wanted).sum(axis=1)
        size *= 2
    return heads.reshape(tosses.shape)
