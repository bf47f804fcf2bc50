"""The micro-batches of a step put together anew: examples of like length at once, without the padding that none needs.

Examples of pre-training come padded to the longest that there may be. The loss is a mean over the global batch, so it
does not matter which of its examples a device computes together; but what they are padded to costs time and memory, in
attention by its square.

Dimension letters: B examples of a micro-batch, S tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from bertkit.training.batches import batch_size
from bertkit.training.cpu.few_lengths import rounded_length

_OF_TOKENS = ("input_ids", "attention_mask", "token_type_ids")  # (B, S); what else there is has other columns


def of_like_length(batches: Sequence[Mapping[str, Tensor]]) -> list[dict[str, Tensor]]:
    """The same examples in as many batches of as many examples each, the longest first.

    Args:
        batches: micro-batches of one step, with an ``attention_mask`` that is 0 at the end only. May be empty.

    Returns:
        Of every batch those columns that have a token, rounded up by `rounded_length`.
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
