"""Rounds up the lengths of fine-tuning batches, to limit the number of compiled kernels.

oneDNN compiles kernels for each shape and caches 1,024 of them. A step of BERT takes about twenty per length, so with
hundreds of different lengths it would compile kernels in almost every step. Rounding up lengths does not change results
beyond rounding errors, since padding is masked in attention and has no labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from transformers import PreTrainedTokenizerBase

from bertkit.training.batches import Collate, padded_to


def rounded_length(length: int) -> int:
    """Rounds up a length by at most a sixteenth, to one of sixteen values between powers of two.

    >>> [rounded_length(length) for length in (5, 31, 33, 65, 130, 257, 512)]
    [5, 31, 34, 68, 136, 272, 512]
    """
    step = max(1, 1 << length.bit_length() - 1 >> 4)
    return -(-length // step) * step


def with_few_lengths(
    collate: Collate, tokenizer: PreTrainedTokenizerBase, max_seq_length: int, label_columns: Sequence[str]
) -> Collate:
    """Returns ``collate`` with the inputs of every batch padded to a length of `rounded_length`.

    Args:
        collate, tokenizer, label_columns: as for `padded_to`.
        max_seq_length: maximum tokens of an input; it is not rounded up.
    """
    return padded_to(partial(_rounded, max_seq_length), collate, tokenizer, label_columns)


def _rounded(max_seq_length: int, length: int) -> int:
    return max(length, min(rounded_length(length), max_seq_length))
