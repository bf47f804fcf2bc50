"""Rows → tensors of a batch, and the arrays that a model gives for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

Outputs = np.ndarray | tuple[np.ndarray, ...]
"""What a model gives for N inputs: an array (N, …), or several, such as scores of starts and of ends. Where inputs have
different numbers of tokens S, arrays (N, S, …) have -100 beyond an input's own."""


def labels_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
    """``labels`` of a batch: class ids as (B,) int64, numbers as (B,) float32, several a row as (B, C) float32."""
    import torch

    return {"labels": torch.tensor([row["labels"] for row in rows])} if "labels" in rows[0] else {}


def labelled_items(batch: Mapping[str, Tensor]) -> Tensor:
    """Counts the items of a batch that have a label, () int64: what a mean loss divides by.

    Of numbers to predict, and of sets of labels, NaN alone does not count.
    """
    from bertkit.model.labels_bert import IGNORE_INDEX

    labels = batch["labels"]
    return (~labels.isnan() if labels.is_floating_point() else labels.ne(IGNORE_INDEX)).sum()


def padded(
    rows: Sequence[Mapping[str, Any]], tokenizer: PreTrainedTokenizerBase, inputs: Sequence[str]
) -> Mapping[str, Tensor]:
    """The inputs of N rows, (N, S) int64, padded to the longest: at the end, so that a token keeps its position."""
    columns = {name: [list(row[name]) for row in rows] for name in inputs}
    return tokenizer.pad(columns, padding_side="right", return_tensors="pt")


def one_array(outputs: Outputs) -> np.ndarray:
    """The outputs of a model that gives one array for its inputs."""
    if isinstance(outputs, tuple):
        raise TypeError(f"the model gives {len(outputs)} arrays, where this task takes one")
    return outputs


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities of logits (N, C) over C; 0 where a logit is -inf."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)
