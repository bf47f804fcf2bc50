"""Batches of encoded examples: labels, inputs padded to the longest, and examples of several inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase


def labels_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
    """Returns ``labels`` of a batch: class ids as (B,) int64, regression targets as (B,) float32, multi-label targets
    as (B, C) float32; empty without labels."""
    import torch

    return {"labels": torch.tensor([row["labels"] for row in rows])} if "labels" in rows[0] else {}


def labelled_items(batch: Mapping[str, Tensor]) -> Tensor:
    """Counts the labelled items of a batch, () int64: the denominator of a mean loss.

    Integer labels count unless they are `IGNORE_INDEX`, floating-point labels unless they are NaN.
    """
    from bertkit.model.labels_bert import IGNORE_INDEX

    labels = batch["labels"]
    return (~labels.isnan() if labels.is_floating_point() else labels.ne(IGNORE_INDEX)).sum()


def padded(
    rows: Sequence[Mapping[str, Any]], tokenizer: PreTrainedTokenizerBase, inputs: Sequence[str]
) -> Mapping[str, Tensor]:
    """Pads the inputs of N rows to the longest, (N, S) int64; on the right, so that tokens keep their positions."""
    columns = {name: [list(row[name]) for row in rows] for name in inputs}
    return tokenizer.pad(columns, padding_side="right", return_tensors="pt")


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
