"""Examples of several inputs, such as the choices of a question: encoded as lists, and padded as batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.tasks.base import padded

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase


def grouped(columns: Mapping[str, Sequence[Any]], counts: Sequence[int]) -> dict[str, list[Any]]:
    """Returns columns of inputs as columns of lists, of which the first has ``counts[0]`` inputs, and so on.

    >>> grouped({"input_ids": ["a", "b", "c"]}, [1, 2])
    {'input_ids': [['a'], ['b', 'c']]}
    """
    borders = np.cumsum([0, *counts]).tolist()
    return {name: [column[start:end] for start, end in pairwise(borders)] for name, column in columns.items()}


def padded_lists(
    rows: Sequence[Mapping[str, Any]], tokenizer: PreTrainedTokenizerBase, inputs: Sequence[str], most: int
) -> dict[str, Tensor]:
    """Pads rows of lists of inputs, (B, ``most``, S) int64; fewer inputs are followed by copies of the last one."""
    lists = [
        {name: row[name][min(number, len(row[name]) - 1)] for name in inputs} for row in rows for number in range(most)
    ]
    return {name: values.view(len(rows), most, -1) for name, values in padded(lists, tokenizer, inputs).items()}
