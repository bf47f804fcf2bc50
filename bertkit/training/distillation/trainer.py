"""The loss of a student: the labels' part, and the part of the teacher."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bertkit.model.loss_bert import mean_loss
from bertkit.recipe.distillation import DistillationSettings
from bertkit.tasks.base import Task
from bertkit.tasks.distillation import cosine_distance, num_items
from bertkit.training.distillation.outputs import ROW, TeacherOutputs
from bertkit.training.distillation.teacher import HIDDEN
from bertkit.training.trainer import BertkitTrainer

_OF_TEACHER = "teacher_"  # prefix of the teacher's outputs in a batch

Collate = Callable[..., Mapping[str, Tensor]]


class DistillationTrainer(BertkitTrainer):
    """BertkitTrainer whose loss in training has a part from a teacher; evaluation uses the labels only.

    In a batch, the outputs of the teacher are floating-point tensors that count as labels, so they stay out of the
    model, and filler rows have NaN in them, which counts as missing.

    Args:
        task: task of the student.
        distillation: weights of the parts.
        teacher_outputs: outputs of the teacher for the rows of ``train_dataset``, whose column `ROW` numbers them.
        data_collator, label_columns, count_items, kwargs: as for `BertkitTrainer`.
    """

    def __init__(
        self,
        *,
        task: Task,
        distillation: DistillationSettings,
        teacher_outputs: TeacherOutputs,
        data_collator: Collate,
        label_columns: Sequence[str],
        count_items: Callable[[Mapping[str, Tensor]], Tensor],
        **kwargs: Any,
    ):
        self._task, self._distillation = task, distillation
        self._count_labels = count_items
        names = [f"{_OF_TEACHER}{name}" for name in teacher_outputs.batch([0])]
        super().__init__(
            data_collator=partial(_collate, data_collator, teacher_outputs),
            label_columns=(*label_columns, *names),
            count_items=self._counts,
            **{**kwargs, "replaces_loss": True},
        )

    def _counts(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Counts the labelled items; in training (3,) float32: these, the teacher's, and the tokens with hidden
        states."""
        taught = _of_teacher(batch)
        if not taught:
            return self._count_labels(batch)
        labels = self._count_labels(batch) if self._distillation.weight < 1 else torch.tensor(0)
        hidden = num_items(taught.pop(HIDDEN)) if HIDDEN in taught else torch.tensor(0)
        items = num_items(next(iter(taught.values())))
        return torch.stack([labels.float().cpu(), items.float().cpu(), hidden.float().cpu()])

    def compute_loss(self, model: Any, inputs: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        if _OF_TEACHER + HIDDEN in inputs:
            inputs = {**inputs, "output_hidden_states": True}
        return super().compute_loss(model, inputs, *args, **kwargs)

    def _stock_loss(
        self, outputs: Any, labels: dict[str, Tensor], num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        taught, settings = _of_teacher(labels), self._distillation
        if not taught:
            return super()._stock_loss(outputs, labels, num_items_in_batch)
        assert isinstance(num_items_in_batch, Tensor)
        of_labels, of_teacher, of_hidden = num_items_in_batch.to(next(iter(taught.values())).device)
        hidden = taught.pop(HIDDEN, None)
        loss = mean_loss(self._task.teacher_loss(outputs, taught, settings.temperature), of_teacher)
        if hidden is not None:
            loss = loss + settings.hidden * mean_loss(cosine_distance(outputs["hidden_states"][-1], hidden), of_hidden)
        if settings.weight == 1:
            return loss
        given = {name: values for name, values in labels.items() if not name.startswith(_OF_TEACHER)}
        return (1 - settings.weight) * super()._stock_loss(outputs, given, of_labels) + settings.weight * loss


def _collate(collate: Collate, outputs: TeacherOutputs, rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
    """Collates rows; those of the training set with the outputs of the teacher."""
    if ROW not in rows[0]:
        return dict(collate(rows))
    numbers = [row[ROW] for row in rows]
    batch = collate([{name: value for name, value in row.items() if name != ROW} for row in rows])
    return {**batch, **{f"{_OF_TEACHER}{name}": values for name, values in outputs.batch(numbers).items()}}


def _of_teacher(batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    found = {name: values for name, values in batch.items() if name.startswith(_OF_TEACHER)}
    return {name.removeprefix(_OF_TEACHER): values for name, values in found.items()}
