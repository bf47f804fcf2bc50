"""Distillation by kind of task: the outputs that are compared, and their loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from bertkit.distillation.losses import soft_cross_entropy
from bertkit.tasks.base import Task
from bertkit.tasks.rooms import by_kind_of_task


class Distilled:
    """Task whose model returns one vector of ``logits`` for each row, compared by cross-entropy.

    Args:
        task: the task of teacher and student.
    """

    def __init__(self, task: Task):
        self.task: Any = task

    def predicted_tokens(self, row: Mapping[str, Any]) -> Sequence[bool] | None:
        """Returns which tokens of an encoded row have outputs that count; None if the row has one output."""
        return None

    def count(self, rows: Tensor, tokens: Tensor | None) -> Tensor:
        """Counts the items whose losses `loss` sums, 0-d.

        Args:
            rows: (B,) bool, the rows that count.
            tokens: (B, S) bool, their tokens of `predicted_tokens`; None without these.
        """
        return rows.sum()

    def loss(self, outputs: Mapping[str, Tensor], teacher: Mapping[str, Tensor], temperature: float) -> Tensor:
        """Computes the loss of model outputs against those of a teacher, summed over the items, 0-d.

        Args:
            outputs: outputs of the student.
            teacher: outputs of the teacher by the same names; NaN marks what does not count, see
                `bertkit.distillation.losses`.
            temperature: of the distributions.
        """
        return soft_cross_entropy(outputs["logits"], teacher["logits"], temperature)

    def unfitted(self) -> Task:
        """Returns the task without the values that `Task.learn_from` has fitted to a checkpoint."""
        return self.task


@by_kind_of_task
def distilled(task: Task) -> Distilled:
    """Returns what distillation knows of a task."""
    return Distilled(task)
