"""Batches of one shape, for devices that compile what they run for each shape anew.

XLA, and TPUs with it, compile a step for minutes: there inputs are padded to the longest that there may be, and a batch
of fewer rows than the others, an epoch's last one, is filled up. Neither changes a number beyond rounding: padding is
never attended to, and what fills up has no label, so it is in no loss and in no count. Dropping the last batch would
leave out other examples in every epoch, and in evaluation would score fewer than there are.

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

# The tensors that say of a row, or of each of its tokens, what is to be predicted.
_LABELS = ("labels",)


@dataclass(frozen=True)
class FixedShapes:
    """What gives all batches of a run one shape.

    Attributes:
        tokenizer: says what padding is.
        max_seq_length: tokens that inputs are padded to; ``None`` where they come in one length already.
        label_columns: the tensors of a batch that hold labels.
    """

    tokenizer: PreTrainedTokenizerBase
    max_seq_length: int | None = None
    label_columns: Sequence[str] = _LABELS

    def collator(self, collate: Collate, rows: int) -> Collate:
        """``collate`` with every batch brought to so many rows of so many tokens."""
        return partial(self._collate, collate, rows)

    def _collate(self, collate: Collate, rows: int, examples: Any) -> dict[str, Tensor]:
        return filled(self.padded(collate(examples)), rows, self.label_columns)

    def padded(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """A batch whose inputs, (B, S) or (B, C, S), are padded to ``max_seq_length``."""
        if self.max_seq_length is None:
            return dict(batch)
        return lengthened(batch, self.max_seq_length, self.tokenizer, self.label_columns)


def lengthened(
    batch: Mapping[str, Tensor],
    length: int,
    tokenizer: PreTrainedTokenizerBase,
    label_columns: Sequence[str] = _LABELS,
) -> dict[str, Tensor]:
    """A batch whose inputs, (B, S) or (B, C, S), are padded at the end, to so many tokens.

    Args:
        batch: with ``input_ids``. What has their shape has a whole number for each token: labels are padded with
            -100, masks with 0.
        length: at least S.
        tokenizer: says what padding is.
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
    """Returns a batch filled up to so many rows, with `unlabelled` copies of its last one."""
    missing = rows - len(batch["input_ids"])
    copies = {name: values[-1:].expand(missing, *values.shape[1:]) for name, values in batch.items()}
    rest = unlabelled(copies, label_columns)
    return {name: torch.cat([values, rest[name]]) for name, values in batch.items()}


def unlabelled(batch: Mapping[str, Tensor], label_columns: Sequence[str] = _LABELS) -> dict[str, Tensor]:
    """Returns a batch of the same shapes that counts for nothing: its rows have no label and one token each.

    No label is -100 among whole numbers, and NaN among numbers to predict. Of an input only [CLS] is attended to: not
    nothing, whose softmax is not a number; and by that `num_tokens` knows such rows, since an input has a [SEP] too.
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
    """How many tokens the inputs of a batch have, 0-d int64, without those of the copies that fill it up.

    >>> num_tokens(torch.tensor([[1, 1, 1], [1, 1, 0], [1, 0, 0]]))
    tensor(5)
    """
    tokens = attention_mask.sum(dim=-1)
    return tokens.where(tokens > 1, 0).sum()


def check_one_shape(config: PreTrainedConfig) -> None:
    """Refuses a model whose steps cannot have one shape; `Task.check_one_shape` does so of batches.

    Raises:
        PlacementError: an LSTM reads each input up to its padding.
    """
    if getattr(config, "feature_layers", None) is not None:
        raise PlacementError(
            "model.feature_layers: the LSTM reads each input up to its padding, so a step has many shapes, and this "
            "placement gives it one; fine-tune the whole encoder, or train in another placement"
        )
