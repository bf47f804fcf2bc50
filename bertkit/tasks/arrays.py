"""Conversion of rows to batch tensors, and of model outputs to arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

Outputs = np.ndarray | tuple[np.ndarray, ...]
"""Model outputs for N inputs: one array (N, …), or several, such as start and end scores. Where inputs have different
numbers of tokens S, arrays (N, S, …) are padded with -100 beyond the tokens of an input."""


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


def one_array(outputs: Outputs) -> np.ndarray:
    """Returns the output of a model with a single output array; raises ``TypeError`` for several."""
    if isinstance(outputs, tuple):
        raise TypeError(f"the model returns {len(outputs)} arrays; this task expects one")
    return outputs


MOST_PROBABLE = 10
"""Labels whose probabilities a prediction holds, unless it is asked for all."""


def largest(values: np.ndarray, number: int, also: Sequence[int] | np.ndarray = ()) -> np.ndarray:
    """Returns the indices of the largest values and of others, those of the largest first; of equal values, the first
    ones.

    Args:
        values: (C,), without NaN.
        number: how many; all if there are fewer.
        also: indices that are returned too if their values are not among the largest.

    >>> largest(np.array([0.1, 0.4, 0.1, 0.4]), 3)
    array([1, 3, 0])
    >>> largest(np.array([0.1, 0.4, 0.1, 0.4]), 2, also=[3, 2])
    array([1, 3, 2])
    """
    candidates = np.arange(len(values))
    if number < len(values):
        candidates = np.flatnonzero(values >= np.partition(values, -number)[-number])  # more than `number` if equal
    found = candidates[np.argsort(-values[candidates], kind="stable")[:number]]
    others = np.setdiff1d(np.asarray(also, dtype=np.int64), found)
    return np.concatenate([found, others[np.argsort(-values[others], kind="stable")]])


def softmax(logits: np.ndarray) -> np.ndarray:
    """Computes the softmax of logits (N, C) over C; the probability of a logit of -inf is 0."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)
