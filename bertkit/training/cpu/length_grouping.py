"""Regroups the micro-batches of a step by length and removes superfluous padding.

Pre-training examples are padded to the maximum length. The loss is a mean over the global batch, so examples can be
regrouped within it; padding costs time and memory, quadratically in attention.

Dimension letters: B examples of a micro-batch, S tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from bertkit.training.batches import batch_size
from bertkit.training.cpu.few_lengths import rounded_length

_OF_TOKENS = ("input_ids", "attention_mask", "token_type_ids")  # (B, S); other tensors have other columns


def of_like_length(batches: Sequence[Mapping[str, Tensor]]) -> list[dict[str, Tensor]]:
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
