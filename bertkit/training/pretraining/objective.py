"""The objective of pre-training: L = L_MLM + L_NSP, each a mean over its items in the global batch (BERT §A.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from bertkit.model.labels_bert import IGNORE_INDEX
from bertkit.model.loss_bert import mean_cross_entropy

_PAIR_LOGITS = ("seq_relationship_logits", "sop_logits")  # names of different families


class PretrainingObjective:
    """Sum of the losses of predicted tokens and of sentence pairs, where a batch has pairs."""

    label_columns = ("labels", "next_sentence_label")

    def count(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Returns the numbers of labelled tokens and pairs, (2,) int64; without pairs (1,)."""
        return torch.stack([(batch[name] != IGNORE_INDEX).sum() for name in self.label_columns if name in batch])

    def losses(self, outputs: Any, batch: Mapping[str, Tensor], count: Tensor) -> list[Tensor]:
        """Computes the loss of the tokens, and that of the pairs where a batch has them, each 0-d.

        Args:
            outputs: outputs of a model of `bertkit.training.pretraining.encoders`.
            batch: a batch with labels.
            count: `count` summed over the global batch; one number divides both losses.
        """
        tokens, pairs = count.expand(2) if count.dim() == 0 else (count[0], count[-1])
        losses = [mean_cross_entropy(token_logits(outputs), batch["labels"], tokens)]
        if "next_sentence_label" in batch:
            losses.append(mean_cross_entropy(pair_logits(outputs), batch["next_sentence_label"], pairs))
        return losses

    def total(self, losses: Sequence[Tensor], outputs: Any, batch: Mapping[str, Tensor], count: Tensor) -> Tensor:
        """Computes the loss from its ``losses``, 0-d: their sum."""
        return torch.stack(list(losses)).sum()

    def loss(self, outputs: Any, batch: Mapping[str, Tensor], count: Tensor) -> Tensor:
        """Computes the `total` of `losses`, 0-d."""
        return self.total(self.losses(outputs, batch, count), outputs, batch, count)


def token_logits(outputs: Any) -> Tensor:
    """Returns the logits over the vocabulary from the outputs of a pre-training model, (B, P, V) or (B, S, V)."""
    logits: Tensor = outputs["prediction_logits" if "prediction_logits" in outputs else "logits"]
    return logits


def pair_logits(outputs: Any) -> Tensor:
    """Returns the logits of sentence pairs from the outputs of a pre-training model, (B, 2), see `scores_pairs`."""
    logits: Tensor = next(outputs[name] for name in _PAIR_LOGITS if name in outputs)
    return logits


def scores_pairs(outputs: Any) -> bool:
    """Returns whether a pre-training model has a head for sentence pairs."""
    return any(name in outputs for name in _PAIR_LOGITS)
