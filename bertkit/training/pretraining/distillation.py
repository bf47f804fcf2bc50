"""Pre-training with a teacher: the loss of masked tokens and pairs, and the teacher's part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from bertkit.training.pretraining.teacher import PretrainingTeacher
from bertkit.training.pretraining.trainer import PretrainingTrainer


class DistilledPretrainingTrainer(PretrainingTrainer):
    """PretrainingTrainer whose loss in training has a part from a teacher.

    Evaluations and the losses that are reported separately are those of the labels.

    Args:
        teacher: the teacher; it is moved to the device of the run.
        model, kwargs: as for `PretrainingTrainer`.
    """

    def __init__(self, *, teacher: PretrainingTeacher, model: Any, **kwargs: Any):
        self._teacher, self._watch = teacher, teacher.watch(model)
        self._num_tokens: torch.Tensor | None = None
        teacher.freeze_unreached(model, self._watch)
        super().__init__(model=model, **kwargs)
        self.teacher_bytes = teacher.nbytes
        teacher.model.to(self.args.device)

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], torch.Tensor | int | None]:
        batches, num_items = super().get_batch_samples(epoch_iterator, num_batches, device)
        if batches:
            self._num_tokens = self._in_global_batch([batch["attention_mask"].sum() for batch in batches], device)
        return batches, num_items

    def forget_step(self) -> None:
        super().forget_step()
        self._watch.take()  # their graph would keep the activations of the failed micro-batch

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> Any:
        loss, outputs = super().compute_loss(model, inputs, True, num_items_in_batch)
        watched = self._watch.take()
        if model.training:
            with self.accelerator.autocast():  # accelerate applies it to the student's forward pass only
                expected = self._teacher.outputs(inputs)
            taught = self._teacher.loss(outputs, watched, expected, inputs, num_items_in_batch, self._num_tokens)
            taught = taught * self.args.world_size  # as the Trainer does, since DDP averages gradients
            weight = self._teacher.settings.weight
            loss = taught if weight == 1 else (1 - weight) * loss + weight * taught
        return (loss, outputs) if return_outputs else loss
