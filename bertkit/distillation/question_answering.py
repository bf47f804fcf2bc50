"""Distillation of question answering: the positions of start and end are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from bertkit.distillation.kinds import Distilled, distilled
from bertkit.distillation.losses import soft_cross_entropy
from bertkit.tasks.base import Task
from bertkit.tasks.question_answering.task import QuestionAnsweringTask


class DistilledAnswers(Distilled):
    """Questions, whose answers start and end at any token of an input."""

    def predicted_tokens(self, row: Mapping[str, Any]) -> Sequence[bool]:
        return [True] * len(row["input_ids"])

    def loss(self, outputs: Mapping[str, Tensor], teacher: Mapping[str, Tensor], temperature: float) -> Tensor:
        """Computes the mean of the cross-entropies of the start and of the end position, summed over the inputs."""
        start, end = (
            soft_cross_entropy(outputs[name], teacher[name], temperature) for name in ("start_logits", "end_logits")
        )
        return (start + end) / 2

    def unfitted(self) -> Task:
        return self.task.with_settings(predict_threshold=None)


@distilled.register
def _(task: QuestionAnsweringTask) -> Distilled:
    return DistilledAnswers(task)
