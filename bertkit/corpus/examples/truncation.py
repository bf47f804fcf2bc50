"""Truncation of segment pairs: ``truncate_seq_pair`` of the released ``create_pretraining_data.py``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bertkit.corpus.examples.randomness import Stream, words

_WORDS_AT_ONCE = 1 << 16
_ALL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)


def truncate_pairs(
    starts: NDArray[np.int64], lengths: NDArray[np.int64], max_tokens: int, seed: int, epoch: int, first_pair: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Truncates consecutive pairs of an epoch to at most ``max_tokens`` tokens each.

    The script drops one token at a time from the longer segment (from B if both are equally long), at the front or the
    back with probability ½ each. The lengths after truncation follow from the lengths before; the number of tokens
    dropped at the front is binomially distributed.

    Args:
        starts, lengths: ``(N, 2)`` int64, in tokens, for A and B.
        max_tokens: maximum length of A and B together, at least 2.
        seed, epoch: determine the random choices.
        first_pair: number within the epoch of the first row; the random choices for a pair depend on its number.

    Returns:
        Starts and lengths after truncation, each ``(N, 2)`` int64.
    """
    half_a, half_b = (max_tokens + 1) // 2, max_tokens // 2
    a, b = lengths[:, 0], lengths[:, 1]
    fits = a + b <= max_tokens
    left_a = np.where(fits | (a <= half_a), a, np.where(b <= half_b, max_tokens - b, half_a))
    left_b = np.where(fits | (b <= half_b), b, max_tokens - left_a)
    left = np.stack([left_a, left_b], axis=1)
    heads = _heads((lengths - left).ravel(), seed, epoch, 2 * first_pair)
    return starts + heads.reshape(starts.shape), left


def _heads(tosses: NDArray[np.int64], seed: int, epoch: int, first: int) -> NDArray[np.int64]:
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
            wanted = np.where(bits == 64, _ALL_BITS, (np.uint64(1) << (bits & np.uint64(63))) - np.uint64(1))
            heads[rows] = np.bitwise_count(random_words & wanted).sum(axis=1)
        size *= 2
    return heads
