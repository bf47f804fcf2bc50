"""Distillation of classification and regression."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from bertkit.distillation.kinds import Distilled, distilled
from bertkit.distillation.losses import soft_binary_cross_entropy, squared_error
from bertkit.tasks.base import Task
from bertkit.tasks.classification.task import ClassificationTask
from bertkit.tasks.classification.text_classification import TextClassification


class DistilledClassification(Distilled):
    """Texts with one label, several labels, or a number."""

    def loss(self, outputs: Mapping[str, Tensor], teacher: Mapping[str, Tensor], temperature: float) -> Tensor:
        """Computes the loss; of several labels the binary cross-entropy, of numbers the squared error."""
        if self.task.problem_type == "regression":
            return squared_error(outputs["logits"], teacher["logits"])
        if self.task.problem_type == "multi_label_classification":
            return soft_binary_cross_entropy(outputs["logits"], teacher["logits"], temperature)
        return super().loss(outputs, teacher, temperature)

    def unfitted(self) -> Task:
        calibrates = isinstance(self.task, ClassificationTask) and self.task.task.calibrate
        return self.task.with_settings(temperature=None) if calibrates else self.task


@distilled.register
def _(task: TextClassification) -> Distilled:
    return DistilledClassification(task)
