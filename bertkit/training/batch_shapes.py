"""Batches of a fixed shape, for devices that compile a step for each shape.

XLA, including TPUs, takes minutes to compile a step. Inputs are therefore padded to the maximum length, and an epoch's
last batch is filled up to the full number of rows. Neither changes results beyond rounding: padding is masked in
attention, and filler rows have no labels, so they enter no loss and no count. Dropping the last batch instead would
omit different examples in every epoch, and would leave examples out of evaluation.

Dimension letters: B rows of a batch, C choices, S tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from bertkit.errors import PlacementError
from bertkit.model.labels_bert import IGNORE_INDEX

Collate = Callable[..., Mapping[str, Tensor]]

# Tensors that hold a label for each row or token.
_LABELS = ("labels",)


@dataclass(frozen=True)
class FixedShapes:
    """Settings that give all batches of a run the same shape.

    Attributes:
        tokenizer: tokenizer with the padding ids.
        max_seq_length: number of tokens to pad inputs to; ``None`` if they have a fixed length already.
        label_columns: the tensors of a batch that hold labels.
    """

    tokenizer: PreTrainedTokenizerBase
    max_seq_length: int | None = None
    label_columns: Sequence[str] = _LABELS

    def collator(self, collate: Collate, rows: int) -> Collate:
        """Returns ``collate`` with every batch padded to ``rows`` rows of ``max_seq_length`` tokens."""
        return partial(self._collate, collate, rows)

    def _collate(self, collate: Collate, rows: int, examples: Any) -> dict[str, Tensor]:
        return filled(self.padded(collate(examples)), rows, self.label_columns)

    def padded(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Pads the inputs of a batch, (B, S) or (B, C, S), to ``max_seq_length``."""
        if self.max_seq_length is None:
            return dict(batch)
        return lengthened(batch, self.max_seq_length, self.tokenizer, self.label_columns)


def lengthened(
    batch: Mapping[str, Tensor],
    length: int,
    tokenizer: PreTrainedTokenizerBase,
    label_columns: Sequence[str] = _LABELS,
) -> dict[str, Tensor]:
    """Pads the inputs of a batch, (B, S) or (B, C, S), on the right to ``length`` tokens.

    Args:
        batch: a batch with ``input_ids``. Integer tensors of the same shape are padded too: labels with -100, masks
            with 0.
        length: target length, at least S.
        tokenizer: tokenizer with the padding ids.
        label_columns: the tensors that hold labels.
    """
    shape = batch["input_ids"].shape
    padding = {"input_ids": tokenizer.pad_token_id, "token_type_ids": tokenizer.pad_token_type_id}
    padding |= dict.fromkeys(label_columns, IGNORE_INDEX)
    return {
        name: F.pad(values, (0, length - shape[-1]), value=padding.get(name, 0))
        if values.shape == shape and not values.is_floating_point()
        else values
        for name, values in batch.items()
    }


def filled(batch: Mapping[str, Tensor], rows: int, label_columns: Sequence[str] = _LABELS) -> dict[str, Tensor]:
    """Returns a batch filled up to ``rows`` rows with `unlabelled` copies of its last row."""
    missing = rows - len(batch["input_ids"])
    copies = {name: values[-1:].expand(missing, *values.shape[1:]) for name, values in batch.items()}
    rest = unlabelled(copies, label_columns)
    return {name: torch.cat([values, rest[name]]) for name, values in batch.items()}


def unlabelled(batch: Mapping[str, Tensor], label_columns: Sequence[str] = _LABELS) -> dict[str, Tensor]:
    """Returns a batch of the same shapes without labels, whose rows have one unmasked token each.

    Integer labels become -100, floating-point labels NaN. [CLS] stays unmasked, since a softmax over no positions is
    NaN; `num_tokens` recognises such rows by it, since every input has a [SEP] too.
    """
    changed = dict(batch)
    for name in batch.keys() & set(label_columns):
        labels = batch[name]
        changed[name] = torch.full_like(labels, float("nan") if labels.is_floating_point() else IGNORE_INDEX)
    if "attention_mask" in batch:
        changed["attention_mask"] = torch.zeros_like(batch["attention_mask"])
        changed["attention_mask"][..., 0] = 1
    return changed


def num_tokens(attention_mask: Tensor) -> Tensor:
    """Counts the tokens of a batch without those of filler rows, 0-d int64.

    >>> num_tokens(torch.tensor([[1, 1, 1], [1, 1, 0], [1, 0, 0]]))
    tensor(5)
    """
    tokens = attention_mask.sum(dim=-1)
    return tokens.where(tokens > 1, 0).sum()


def check_one_shape(config: PreTrainedConfig) -> None:
    """Checks that the steps of a model can have a fixed shape; `Task.check_one_shape` checks the batches.

    Raises:
        PlacementError: the model has an LSTM, which reads each input up to its padding.
    """
    if getattr(config, "feature_layers", None) is not None:
        raise PlacementError(
            "model.feature_layers: the LSTM reads each input up to its padding, so a step has many shapes, and this "
            "placement gives it one; fine-tune the whole encoder, or train in another placement"
        )
