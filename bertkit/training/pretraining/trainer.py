"""Trainer for pre-training: separate losses and accuracies, and evaluation of each phase at its own length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from bertkit.corpus.settings import Phase
from bertkit.metrics.pretraining import reduce_logits, score, score_names
from bertkit.model.labels_bert import IGNORE_INDEX
from bertkit.training.cpu import CpuSpeedUps
from bertkit.training.pretraining.objective import PretrainingObjective, pair_logits, token_logits
from bertkit.training.trainer import BertkitTrainer

# An evaluation batch holds B × P × V logits: 2²⁵ of them are 128 MiB in float32.
_LOGITS_AT_ONCE = 1 << 25
_LOGITS = (token_logits, pair_logits)  # of the labels


class PretrainingTrainer(BertkitTrainer):
    """Trainer on the sum of the losses of tokens and pairs that reports both separately.

    Args:
        pair_objective: ``nsp``, ``sop`` or ``none``.
        token_objective: ``masked_lm`` or ``next_token``.
        phases: phases of the run.
        eval_sets: held-out examples for each phase, at its length; empty for no evaluation.
        speed_ups: CPU speed-ups of the run.
    """

    scores_the_loss = True
    objective: PretrainingObjective

    def __init__(
        self,
        *,
        pair_objective: str,
        token_objective: str = "masked_lm",
        phases: Sequence[Phase],
        eval_sets: Sequence[Dataset[Any]],
        speed_ups: CpuSpeedUps,
        **kwargs: Any,
    ):
        self.phases = phases
        self.speed_ups = speed_ups
        self.eval_sets = eval_sets
        self.pair_objective = pair_objective
        self.score_names = score_names(pair_objective, token_objective)
        self._sums: torch.Tensor | None = None  # (6,) float32 on the device: no host sync in a step
        self._summed_from = 0
        self._sums_before_step: tuple[torch.Tensor | None, int] = (None, 0)
        super().__init__(
            eval_dataset=eval_sets[-1] if eval_sets else None,
            preprocess_logits_for_metrics=reduce_logits,
            compute_metrics=lambda outcome: score(np.asarray(outcome.predictions), pair_objective, token_objective),
            evaluation=PretrainingObjective(),
            **kwargs,
        )

    def evaluate(self, eval_dataset: Any = None, **kwargs: Any) -> dict[str, float]:
        """Evaluates on ``eval_dataset``; by default on the examples of the last step's phase."""
        if eval_dataset is None and self.eval_sets:
            last_step = max(self.state.global_step - 1, 0)
            begun = [phase.first_step <= last_step for phase in self.phases]
            eval_dataset = self.eval_sets[sum(begun) - 1]
        return super().evaluate(eval_dataset, **kwargs)

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], torch.Tensor | int | None]:
        self._sums_before_step = self._sums, self._summed_from
        # No micro-batch is a filler: every phase has whole global batches.
        batches = self.speed_ups.micro_batches(list(islice(epoch_iterator, num_batches)))
        return super().get_batch_samples(iter(batches), num_batches, device)

    def forget_step(self) -> None:
        self._sums, self._summed_from = self._sums_before_step
        super().forget_step()

    def loss(self, outputs: Any, batch: Mapping[str, torch.Tensor], count: torch.Tensor) -> torch.Tensor:
        losses = self.objective.losses(outputs, batch, count)
        self._add(losses, outputs, batch)
        return self.objective.total(losses, outputs, batch, count)

    @torch.no_grad()
    def _add(self, losses: Sequence[torch.Tensor], outputs: Any, batch: Mapping[str, torch.Tensor]) -> None:
        """Adds this micro-batch's parts of the means over the global batch, and its correct predictions."""
        values = []
        for loss, name, logits_of in zip(losses, self.objective.label_columns, _LOGITS, strict=False):
            logits, labelled = logits_of(outputs), batch[name] != IGNORE_INDEX
            # On a CPU max takes a third of argmax's time for the same indices.
            correct = (logits.max(dim=-1).indices == batch[name]) & labelled
            values += [loss, correct.sum(), labelled.sum()]
        sums = torch.stack([value.detach().float() for value in values])
        if self._sums is None:
            self._sums, self._summed_from = sums, self.state.global_step
        else:
            self._sums = self._sums + sums

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if "loss" in logs and self._sums is not None:
            gathered = self.accelerator.gather(self._sums[None]).sum(dim=0).reshape(-1, 3)  # loss, correct, count
            steps = self.state.global_step - self._summed_from
            values = torch.stack([gathered[:, 0] / steps, gathered[:, 1] / gathered[:, 2].clamp(min=1)], dim=1)
            logs |= dict(zip(self.score_names, values.flatten().tolist(), strict=True))
            self._sums = None
        super().log(logs, start_time)


def eval_batch_size(wanted: int, predictions_per_seq: int, vocab_size: int) -> int:
    """Returns the inputs of an evaluation batch, at most ``wanted``, limited so that their logits fit in 128 MiB.

    >>> eval_batch_size(64, 20, 8000), eval_batch_size(64, 77, 30522)
    (64, 14)
    """
    return max(1, min(wanted, _LOGITS_AT_ONCE // (predictions_per_seq * vocab_size)))
