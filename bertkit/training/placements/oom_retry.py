"""Retry of a step that runs out of memory with fewer examples at once and the same global batch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import torch
from accelerate.utils.memory import clear_device_cache, should_reduce_batch_size

from bertkit.errors import PlacementError
from bertkit.placement.resolve import largest_divisor
from bertkit.progress import counted
from bertkit.training.batches import batch_size, part_of_batch
from bertkit.training.trainer import BertkitTrainer


class MemorySavingTrainer(BertkitTrainer):
    """Trainer that halves the number of examples computed at once when a device runs out of memory.

    A loss that is a sum over items, divided by their number in the global batch, can be computed in parts: a device
    splits its micro-batch into two, four, … parts and accumulates their gradients, without an effect on the data loader
    or other processes. (transformers' ``auto_find_batch_size`` restarts the training with a smaller global batch.) Only
    dropout is sampled again.
    """

    def __init__(self, **kwargs: Any):
        self._at_once: int | None = None  # examples computed at once, if fewer than the micro-batch
        self._batches: list[dict[str, torch.Tensor]] = []  # micro-batches of this step
        self._micro_batch = -1  # index of the current one
        self._is_backward = False
        super().__init__(**kwargs)

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], torch.Tensor | int | None]:
        samples = super().get_batch_samples(epoch_iterator, num_batches, device)
        self._batches, self._micro_batch = samples[0], -1
        return samples

    def training_step(
        self, model: torch.nn.Module, inputs: dict[str, Any], num_items_in_batch: torch.Tensor | int | None = None
    ) -> torch.Tensor:
        """Computes loss and gradients of the next micro-batch; if memory runs out, recomputes the step so far.

        Raises:
            PlacementError: memory does not suffice for a single example, or the processes were exchanging tensors, so
                that one of them cannot repeat the step alone.
        """
        current = self._micro_batch + 1
        again = False
        while True:
            try:
                for self._micro_batch in range(current) if again else ():
                    with self.accelerator.no_sync(model):
                        self._in_parts(model, self._batches[self._micro_batch], num_items_in_batch)
                self._micro_batch = current
                return self._in_parts(model, inputs, num_items_in_batch)
            except RuntimeError as error:
                if not should_reduce_batch_size(error):
                    raise
                message = str(error).partition("\n")[0]
            # Outside the except block, where the frames of the failed computation have released their tensors.
            self._halve(batch_size(self._batches[self._micro_batch]), message)
            model.zero_grad()
            self.forget_step()
            clear_device_cache(garbage_collection=True)
            again = True

    def compute_loss(self, *args: Any, **kwargs: Any) -> Any:
        self._is_backward = False
        loss = super().compute_loss(*args, **kwargs)
        self._is_backward = True
        return loss

    def _in_parts(
        self, model: torch.nn.Module, inputs: dict[str, Any], num_items_in_batch: torch.Tensor | int | None
    ) -> torch.Tensor:
        examples = batch_size(inputs)
        at_once = self._at_once or examples
        losses = []
        for start in range(0, examples, at_once):
            is_last = start + at_once >= examples
            self._is_exchanged = is_last and self._micro_batch == len(self._batches) - 1
            part = inputs if at_once >= examples else part_of_batch(inputs, start, start + at_once)
            with nullcontext() if is_last else self.accelerator.no_sync(model):
                losses.append(super().training_step(model, part, num_items_in_batch))
        return torch.stack(losses).sum()

    def _halve(self, examples: int, message: str) -> None:
        """Reduces the number of examples computed at once, and prints a message.

        Raises:
            PlacementError: as `training_step`.
        """
        at_once = min(self._at_once or examples, examples)
        what = f"out of memory with {counted(at_once, 'sequence')} at once on a device ({message})"
        if at_once == 1:
            raise PlacementError(
                f"{what}; set placement.gradient_checkpointing=true, shorten --max-seq-length, or share the model "
                "among several devices with --placement fsdp"
            )
        half = largest_divisor(self.args.train_batch_size, at_once // 2)
        setting = f"--set placement.per_device_train_batch_size={half}"
        several = self.args.world_size > 1
        if several and (self.is_fsdp_enabled or (self._is_backward and self._is_exchanged)):
            raise PlacementError(
                f"{what}, while the processes exchanged tensors, so the step cannot be repeated; continue from the "
                f"last checkpoint with --resume {setting} or a smaller divisor"
            )
        self._at_once = half
        where = f"process {self.args.process_index}: " if several else ""
        print(
            f"{where}{what}: continuing with {half} at once and more accumulation steps; the global batch stays the "
            f"same, dropout is sampled again. To start with this: {setting}",
            file=sys.stderr,
        )
