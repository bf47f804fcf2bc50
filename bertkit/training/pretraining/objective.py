"""The objective of pre-training: L = L_MLM + L_NSP, each a mean over its items in the global batch (BERT §A.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from bertkit.model.labels_bert import IGNORE_INDEX
from bertkit.model.loss_bert import mean_cross_entropy
from bertkit.training.steps import Objective

_PAIR_LOGITS = ("seq_relationship_logits", "sop_logits")  # names of different families


class PretrainingObjective(Objective):
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


class ReportedObjective(Objective):
    """Objective of pre-training whose losses and accuracies, of tokens and of pairs, are reported separately.

    Args:
        objective: the objective, of the labels alone or with a teacher.
        names: names of loss and accuracy of the tokens, and of the pairs if there are any.
        logits_per_sequence: as of `Objective`.
    """

    label_columns = PretrainingObjective.label_columns

    def __init__(self, objective: PretrainingObjective, names: Sequence[str], logits_per_sequence: int):
        self._objective, self._names, self.logits_per_sequence = objective, names, logits_per_sequence
        self.teacher_bytes = objective.teacher_bytes
        self._sums: Tensor | None = None  # (3,) or (6,) float32 on the device: no host sync in a step
        self._sums_before_step: Tensor | None = None
        self._steps = 0  # since the last report

    def count(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Returns the counts of the objective."""
        return self._objective.count(batch)

    def loss(self, outputs: Any, batch: Mapping[str, Tensor], count: Tensor) -> Tensor:
        """Computes the loss of the objective, 0-d, and adds what is reported of the batch."""
        losses = self._objective.losses(outputs, batch, count)
        with torch.no_grad():  # this micro-batch's parts of the means over the global batch, and correct predictions
            values = []
            for loss, name, logits_of in zip(losses, self.label_columns, (token_logits, pair_logits), strict=False):
                logits, labelled = logits_of(outputs), batch[name] != IGNORE_INDEX
                # On a CPU max takes a third of argmax's time for the same indices.
                correct = (logits.max(dim=-1).indices == batch[name]) & labelled
                values += [loss, correct.sum(), labelled.sum()]
            sums = torch.stack([value.detach().float() for value in values])
            self._sums = sums if self._sums is None else self._sums + sums
        return self._objective.total(losses, outputs, batch, count)

    def begin_step(self) -> None:
        """Begins a step."""
        self._steps, self._sums_before_step = self._steps + 1, self._sums

    def forget(self) -> None:
        """Resets the sums to those before the step, whose micro-batches are computed again."""
        self._sums = self._sums_before_step
        self._objective.forget()

    def report(self, gather: Callable[[Tensor], Tensor]) -> dict[str, float]:
        """Returns the means since the last report by their names.

        Args:
            gather: concatenates tensors of all processes in their first dimension.
        """
        if self._sums is None:
            return {}
        gathered = gather(self._sums[None]).sum(dim=0).reshape(-1, 3)  # loss, correct, count
        values = torch.stack([gathered[:, 0] / self._steps, gathered[:, 1] / gathered[:, 2].clamp(min=1)], dim=1)
        self._sums, self._steps = None, 0
        return dict(zip(self._names, values.flatten().tolist(), strict=True))


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
