"""Batches of fine-tuning whose lengths are rounded up, so that few kernels are made.

oneDNN makes kernels for each shape, and keeps 1,024 of them. A step of BERT takes about twenty for each length, so with
inputs of hundreds of lengths it would make them in almost every step. Rounding changes no number beyond rounding
errors: padding is never attended to, and has no label.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from torch import Tensor
from transformers import PreTrainedTokenizerBase

from bertkit.training.batch_shapes import lengthened

Collate = Callable[..., Mapping[str, Tensor]]


def rounded_length(length: int) -> int:
    """Returns at least ``length``, and at most a sixteenth more: one of sixteen values between powers of two.

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
        collate: makes a batch of examples; its ``input_ids`` are (B, S) or (B, C, S).
        tokenizer: read for what padding is.
        max_seq_length: tokens of the longest input; it is not rounded up.
        label_columns: names of the tensors of a batch that hold labels.
    """
    return partial(_collate, collate, tokenizer, max_seq_length, label_columns)


def _collate(
    collate: Collate,
    tokenizer: PreTrainedTokenizerBase,
    max_seq_length: int,
    label_columns: Sequence[str],
    examples: Any,
) -> Mapping[str, Tensor]:
    batch = collate(examples)
    length = batch["input_ids"].shape[-1]
    return lengthened(batch, max(length, min(rounded_length(length), max_seq_length)), tokenizer, label_columns)
