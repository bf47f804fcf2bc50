"""Counter-based random numbers: a function of seed, purpose, epoch and index, not of the order of draws.

Example i of epoch e depends only on (seed, e, i), so resuming, the number of workers or processes and the batch size do
not change it. A stateful generator does not have this property; a counter-based one does: here Philox4x32-10 (Salmon,
Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3. SC 2011), implemented in numpy so that it processes
arrays of counters at once and the numbers do not depend on the version of a library.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

_ROUNDS = 10
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_WORD = np.uint64(32)
_MAX_DRAWS = 2 << 24
_KEYS_AT_ONCE = 1 << 16
_COUNTERS_AT_ONCE = 1 << 13  # the intermediate arrays of the Philox rounds fit into the CPU cache


class Stream(IntEnum):
    """Purpose of random numbers. Two purposes never share a number; a released value is never reassigned."""

    TARGET_LENGTH = 0
    PAIRS = 1
    TRUNCATION = 2
    SHUFFLE = 3
    MASKED_POSITIONS = 4
    REPLACEMENTS = 5
    HELD_OUT = 6


def philox(counter: NDArray[np.uint64], key: tuple[int, int]) -> NDArray[np.uint64]:
    """Computes Philox4x32-10 of every counter: ``(..., 4)`` uint64, each word uniform below 2³².

    Args:
        counter: ``(..., 4)`` uint64, each word below 2³², the least significant first.
        key: two words below 2³².

    >>> [f"{word:08x}" for word in philox(np.zeros(4, np.uint64), (0, 0))]
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    c0, c1, c2, c3 = (counter[..., word] for word in range(4))
    k0, k1 = key
    for _ in range(_ROUNDS):
        product0 = c0 * _MULTIPLIERS[0]
        product1 = c2 * _MULTIPLIERS[1]
        c0 = (product1 >> _WORD) ^ c1 ^ np.uint64(k0)
        c2 = (product0 >> _WORD) ^ c3 ^ np.uint64(k1)
        c1 = product1 & _LOW
        c3 = product0 & _LOW
        k0 = (k0 + _KEY_STEPS[0]) & 0xFFFFFFFF
        k1 = (k1 + _KEY_STEPS[1]) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=-1)


def words(seed: int, stream: Stream, epoch: ArrayLike, index: ArrayLike, n: int) -> NDArray[np.uint64]:
    """Returns n random 64-bit words for each of B items of an epoch; ValueError if ``n`` is out of range.

    The first m of n words are the same for every n ≥ m.

    Args:
        seed: seed of the run; its low 64 bits are used.
        stream: purpose of the words.
        epoch: ``()`` or ``(B,)`` integers, 0 ≤ epoch < 2³².
        index: ``(B,)`` integers, ≥ 0: index of the item in the epoch.
        n: words per item, 0 ≤ n ≤ 2²⁵.

    Returns:
        ``(B, n)`` uint64, uniform over all 64-bit values.
    """
    (halves,) = halves_of_streams(seed, {stream: 2 * n}, epoch, index)
    return halves[:, 0::2] | halves[:, 1::2] << _WORD


def halves_of_streams(
    seed: int, numbers: Mapping[Stream, int], epoch: ArrayLike, index: ArrayLike
) -> list[NDArray[np.uint64]]:
    """Returns random 32-bit numbers of several streams in one pass; for a small B about as fast as one stream.

    Two consecutive numbers form one word of `words`, the less significant half first.

    Args:
        seed, epoch, index: as for `words`.
        numbers: n for each stream, 0 ≤ n ≤ 2²⁶.

    Returns:
        One ``(B, n)`` uint64 array for each stream, uniform below 2³².

    Raises:
        ValueError: an n is out of range.
    """
    for n in numbers.values():
        if not 0 <= n <= 2 * _MAX_DRAWS:
            raise ValueError(f"n: {n} 32-bit numbers for one stream; expected 0 to {2 * _MAX_DRAWS}")
    index = np.asarray(index, np.uint64)
    epoch = np.broadcast_to(np.asarray(epoch, np.uint64), index.shape)
    # Counter: two words of index, one of epoch, and one of purpose (8 bits) and block (24 bits). Each block yields
    # four numbers.
    blocks = [np.uint64(int(stream) << 24) | np.arange((n + 3) // 4, dtype=np.uint64) for stream, n in numbers.items()]
    block = np.concatenate(blocks)
    key = (seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF)
    drawn = np.empty((len(index), 4 * len(block)), np.uint64)
    step = max(1, _COUNTERS_AT_ONCE // max(1, len(block)))
    for start in range(0, len(index), step):
        rows = slice(start, start + step)
        counter = np.empty((len(index[rows]), len(block), 4), np.uint64)
        counter[..., 0] = (index[rows] & _LOW)[:, None]
        counter[..., 1] = (index[rows] >> _WORD)[:, None]
        counter[..., 2] = epoch[rows, None]
        counter[..., 3] = block
        drawn[rows] = philox(counter, key).reshape(len(counter), 4 * len(block))
    ends = np.cumsum([4 * len(each) for each in blocks])
    return [drawn[:, end - 4 * len(each) :][:, :n] for each, end, n in zip(blocks, ends, numbers.values(), strict=True)]


def uniform(seed: int, stream: Stream, epoch: ArrayLike, index: ArrayLike, n: int) -> NDArray[np.float64]:
    """Returns n random numbers in [0, 1) for each of B items of an epoch: the upper 53 bits of `words`, divided by 2⁵³.

    Args and errors are those of `words`.

    Returns:
        ``(B, n)`` float64, 0 ≤ value < 1.

    >>> uniform(42, Stream.PAIRS, 0, [0, 1], 2).shape
    (2, 2)
    >>> one = uniform(42, Stream.PAIRS, 3, [7], 4)
    >>> bool((uniform(42, Stream.PAIRS, 3, [5, 6, 7], 9)[2, :4] == one).all())
    True
    """
    return (words(seed, stream, epoch, index, n) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def permutation(seed: int, epoch: int, size: int, first: int = 0) -> NDArray[np.int32] | NDArray[np.int64]:
    """Returns a random permutation of 0 … size-1 for an epoch, ``(size,)``: a pure function of its arguments.

    The dtype is int32 if ``size`` fits, else int64. Peak memory is about 20 bytes per number. Two permutations of an
    epoch are independent if the ranges ``first`` … ``first + size - 1`` do not overlap; ``first`` is at least 0.

    >>> sorted(permutation(42, 0, 5).tolist())
    [0, 1, 2, 3, 4]
    """
    keys = np.empty(size, np.uint64)
    for start in range(0, size, _KEYS_AT_ONCE):
        index = first + np.arange(start, min(start + _KEYS_AT_ONCE, size))
        keys[start : start + _KEYS_AT_ONCE] = words(seed, Stream.SHUFFLE, epoch, index, 1)[:, 0]
    order = np.argsort(keys, kind="stable")
    return order.astype(np.int32) if size <= np.iinfo(np.int32).max else order
