"""Sentence lengths → the examples of one epoch, as ranges of tokens (BERT §3.1, §A.2).

The rule of the pair objective selects the segments (`objectives.py`); then each pair is truncated as by
``truncate_seq_pair`` of the released ``create_pretraining_data.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertkit.data.corpus.examples.objectives import OBJECTIVES, EpochOfText
from bertkit.data.corpus.examples.randomness import Stream, words
from bertkit.data.corpus.settings import PairObjective
from bertkit.data.corpus.store.token_store import StoreView
from bertkit.runtime.errors import DataError
from bertkit.runtime.progress import counted

# 25 contiguous bytes per example, so that access to an example touches one place in memory.
_ROW = np.dtype(
    [
        ("a_start", np.int64),
        ("a_length", np.int32),
        ("b_start", np.int64),
        ("b_length", np.int32),
        ("next_sentence_label", np.int8),
    ]
)
_FIELDS = tuple(_ROW.names or ())
_WORDS_AT_ONCE = 1 << 16
_ALL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)


@dataclass(frozen=True, eq=False)
class PairPlan:
    """Examples of one epoch or of a part of it; all arrays are ``(N,)``.

    Segment A of example i is ``tokens[a_start[i]:a_start[i] + a_length[i]]`` of the store, segment B likewise. A is
    never empty; B is empty only if the objective has no B. Together they have at most ``max_seq_length`` tokens less
    the number of special ones, which is 3 for BERT, or 2 without a B.

    Attributes:
        a_start, b_start: int64, first token of the segment.
        a_length, b_length: int32, number of tokens.
        next_sentence_label: int8; 0 = B follows A, 1 = B is random (``nsp``) or A follows B (``sop``).
    """

    a_start: NDArray[np.int64]
    a_length: NDArray[np.int32]
    b_start: NDArray[np.int64]
    b_length: NDArray[np.int32]
    next_sentence_label: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.a_start)

    def take(self, rows: NDArray[np.integer[Any]]) -> PairPlan:
        """Returns a plan of some of the examples, given by their indices."""
        return PairPlan(*(getattr(self, name)[rows] for name in _FIELDS))

    @staticmethod
    def join(plans: Sequence[PairPlan]) -> PairPlan:
        """Returns the examples of several plans, one after the other."""
        return PairPlan(*(np.concatenate([getattr(plan, name) for plan in plans]) for name in _FIELDS))


def plan_epoch(
    view: StoreView,
    seed: int,
    epoch: int,
    max_seq_length: int,
    short_seq_prob: float,
    pair_objective: PairObjective = "nsp",
    special_tokens: int | None = None,
    first_pair: int = 0,
) -> PairPlan:
    """Plans the examples of an epoch: a pure function of the arguments; costs about one pass over the text of ``view``.

    Each document has a target length: the maximum number of text tokens of an example or, with probability
    ``short_seq_prob``, a random number from 2 to that maximum. The rule of the objective cuts the document into
    segments by this target. Then tokens are dropped from the longer segment, randomly at its front or back, until the
    pair fits.

    Memory: 25 bytes per example, up to an eighth more while the array grows, plus a block of some ten thousand
    examples.

    Args:
        view: the documents; random segments are also taken from them.
        seed, epoch: determine the random numbers, both ≥ 0.
        max_seq_length: tokens of an example, including [CLS] and each [SEP], at least ``special_tokens`` + 2.
        short_seq_prob: probability of a shorter target, 0 to 1, drawn once per document and epoch, as in the released
            script.
        pair_objective: ``nsp``, ``sop`` or ``none``: see `bertkit.data.corpus.examples.objectives`.
        special_tokens: number of special tokens of an example; None for those of BERT, 3 with pairs and 2 without.
        first_pair: number of the first example in the epoch, below 2⁶²; truncation depends on the number.

    Raises:
        DataError: ``max_seq_length`` leaves no room for text, or ``view`` has fewer than two documents with ``nsp``, or
            too little text for an example.
    """
    objective = OBJECTIVES[pair_objective]
    special_tokens = objective.special_tokens if special_tokens is None else special_tokens
    max_tokens = max_seq_length - special_tokens
    if max_tokens < 2:
        raise DataError(
            f"max_seq_length: {max_seq_length} leaves no room for text besides {special_tokens} special tokens"
        )
    rows = np.empty(0, _ROW)
    size = 0
    for segments in objective.segments(EpochOfText(view, seed, epoch, max_tokens, short_seq_prob)):
        end = size + len(segments.labels)
        if end > len(rows):
            # Resized in place to avoid a second copy of a large array; the `block` before, a view, is not used again.
            rows.resize(end + end // 8, refcheck=False)
        starts, lengths = truncate_pairs(segments.starts, segments.lengths, max_tokens, seed, epoch, first_pair + size)
        block = rows[size:end]
        block["a_start"], block["b_start"] = starts.T
        block["a_length"], block["b_length"] = lengths.T
        block["next_sentence_label"] = segments.labels
        size = end
    if not size:
        raise DataError(
            f"no example can be made from {counted(view.num_documents, 'document')} with "
            f"{counted(view.num_tokens, 'token')} in total: give more text (a document of one token cannot be split "
            "into two segments)"
        )
    rows.resize(size, refcheck=False)
    return PairPlan(*(rows[name] for name in _FIELDS))


def truncate_pairs(
    starts: NDArray[np.int64], lengths: NDArray[np.int64], max_tokens: int, seed: int, epoch: int, first_pair: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Truncates pairs of an epoch to at most ``max_tokens`` tokens each; returns starts and lengths, (N, 2) int64.

    The script drops one token at a time from the longer segment (from B if both are equally long), at the front or the
    back with probability ½ each. The lengths after truncation follow from the lengths before; the number of tokens
    dropped at the front is binomially distributed.

    Args:
        starts, lengths: ``(N, 2)`` int64, in tokens, for A and B.
        max_tokens: maximum length of A and B together, at least 2.
        seed, epoch: determine the random choices.
        first_pair: number within the epoch of the first row; the random choices for a pair depend on its number.
    """
    half_a, half_b = (max_tokens + 1) // 2, max_tokens // 2
    a, b = lengths[:, 0], lengths[:, 1]
    fits = a + b <= max_tokens
    left_a = np.where(fits | (a <= half_a), a, np.where(b <= half_b, max_tokens - b, half_a))
    left_b = np.where(fits | (b <= half_b), b, max_tokens - left_a)
    left = np.stack([left_a, left_b], axis=1)
    heads = _count_heads((lengths - left).ravel(), seed, epoch, 2 * first_pair)
    return starts + heads.reshape(starts.shape), left


def _count_heads(tosses: NDArray[np.int64], seed: int, epoch: int, first: int) -> NDArray[np.int64]:
    """Draws from binomial distributions with ``tosses[i]`` trials and probability ½, ``(N,)`` int64.

    Each value is the number of ones among as many random bits; row i uses the bits of index ``first + i`` of the epoch.
    """
    heads = np.zeros_like(tosses)
    words_needed = (tosses + 63) // 64
    most = words_needed.max(initial=0)
    size = 1
    while size < 2 * most:
        todo = np.flatnonzero((words_needed > size // 2) & (words_needed <= size))
        step = max(1, _WORDS_AT_ONCE // size)
        for rows in (todo[start : start + step] for start in range(0, len(todo), step)):
            random_words = words(seed, Stream.TRUNCATION, epoch, first + rows, size)
            bits = np.clip(tosses[rows, None] - 64 * np.arange(size), 0, 64).astype(np.uint64)
            # A shift by 64 is undefined, so 64 bits are a separate case.
            counted_bits = np.where(bits == 64, _ALL_BITS, (np.uint64(1) << (bits & np.uint64(63))) - np.uint64(1))
            heads[rows] = np.bitwise_count(random_words & counted_bits).sum(axis=1)
        size *= 2
    return heads
