"""Lengths of batches on CPUs: few of them in fine-tuning, little padding in pre-training.

oneDNN compiles kernels for each shape and caches 1,024 of them. A step of BERT takes about twenty per length, so with
hundreds of different lengths it would compile kernels in almost every step: lengths are rounded up. Examples of
pre-training are padded to the maximum length; since the loss is a mean over the global batch, they can be regrouped by
length within it, and padding that no example needs is removed. Neither changes results beyond rounding errors, since
padding is masked in attention and has no labels.

Dimension letters: B examples of a micro-batch, S tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from bertkit.training.batches import Collate, batch_size, padded_to

_OF_TOKENS = ("input_ids", "attention_mask", "token_type_ids")  # (B, S); other tensors have other columns


def rounded_length(length: int) -> int:
    """Rounds up a length by at most a sixteenth, to one of sixteen values between powers of two.

    >>> [rounded_length(length) for length in (5, 31, 33, 65, 130, 257, 512)]
    [5, 31, 34, 68, 136, 272, 512]
    """
    step = max(1, 1 << length.bit_length() - 1 >> 4)
    return -(-length // step) * step


def bucket_lengths(
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


def group_by_length(batches: Sequence[Mapping[str, Tensor]]) -> list[dict[str, Tensor]]:
    """Sorts the examples by length, the longest first, into batches of the same number and sizes.

    Args:
        batches: micro-batches of one step, padded on the right as given by ``attention_mask``. May be empty.

    Returns:
        The batches, cut to their longest example rounded up by `rounded_length`.
    """
    if not batches:
        return []
    examples = {name: torch.cat([batch[name] for batch in batches]) for name in batches[0]}
    lengths, order = examples["attention_mask"].sum(dim=-1).sort(descending=True, stable=True)
    first, grouped = 0, []
    for size in map(batch_size, batches):
        rows = order[first : first + size]
        columns = rounded_length(int(lengths[first]))
        grouped.append(
            {name: each[rows, :columns] if name in _OF_TOKENS else each[rows] for name, each in examples.items()}
        )
        first += size
    return grouped
