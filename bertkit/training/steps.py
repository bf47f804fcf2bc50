"""Steps of a training: retry of one that runs out of memory, and what each needs besides the loss."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import Any

import torch
from accelerate.utils.memory import clear_device_cache, should_reduce_batch_size
from torch.nn.parallel import DistributedDataParallel
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from bertkit.runtime.errors import PlacementError
from bertkit.runtime.placement.resolve import largest_divisor
from bertkit.runtime.progress import counted
from bertkit.training.batches import batch_size, part_of_batch


class MemorySaver:
    """Computation of steps that halves the number of examples computed at once when a device runs out of memory.

    A loss that is a sum over items, divided by their number in the global batch, can be computed in parts: a device
    splits its micro-batch into two, four, … parts and accumulates their gradients, without an effect on the data loader
    or other processes. (transformers' ``auto_find_batch_size`` restarts the training with a smaller global batch.) Only
    dropout is sampled again.

    Args:
        trainer: the `bertkit.training.trainer.BertkitTrainer`, which computes a part by ``compute_part``.
    """

    def __init__(self, trainer: Any):
        self._trainer = trainer
        self._at_once: int | None = None  # examples computed at once, if fewer than the micro-batch
        self._batches: list[dict[str, torch.Tensor]] = []  # micro-batches of this step
        self._micro_batch = -1  # index of the current one
        self._is_exchanged = False  # the processes exchange gradients in this part

    def begin_step(self, batches: list[dict[str, torch.Tensor]]) -> None:
        """Begins a step with the micro-batches of this process."""
        self._batches, self._micro_batch = batches, -1

    def compute(self, model: torch.nn.Module, inputs: dict[str, Any], count: torch.Tensor | int | None) -> torch.Tensor:
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
                    with self._trainer.accelerator.no_sync(model):
                        self._in_parts(model, self._batches[self._micro_batch], count)
                self._micro_batch = current
                return self._in_parts(model, inputs, count)
            except RuntimeError as error:
                if not should_reduce_batch_size(error):
                    raise
                message = str(error).partition("\n")[0]
            # Outside the except block, where the frames of the failed computation have released their tensors.
            self._halve(batch_size(self._batches[self._micro_batch]), message)
            model.zero_grad()
            self._trainer.forget_step()
            clear_device_cache(garbage_collection=True)
            again = True

    def _in_parts(
        self, model: torch.nn.Module, inputs: dict[str, Any], count: torch.Tensor | int | None
    ) -> torch.Tensor:
        examples = batch_size(inputs)
        at_once = self._at_once or examples
        losses = []
        for start in range(0, examples, at_once):
            is_last = start + at_once >= examples
            self._is_exchanged = is_last and self._micro_batch == len(self._batches) - 1
            part = inputs if at_once >= examples else part_of_batch(inputs, start, start + at_once)
            with nullcontext() if is_last else self._trainer.accelerator.no_sync(model):
                losses.append(self._trainer.compute_part(model, part, count))
        return torch.stack(losses).sum()

    def _halve(self, examples: int, message: str) -> None:
        """Reduces the number of examples computed at once, and prints a message."""
        at_once = min(self._at_once or examples, examples)
        what = f"out of memory with {counted(at_once, 'sequence')} at once on a device ({message})"
        if getattr(self._trainer.objective, "joins_batch", False):
            raise PlacementError(
                f"{what}; the loss compares the examples of a batch, which cannot be computed in parts; use a smaller "
                "train.global_train_batch_size, or for pairs and triplets task.mini_batch_size=16"
            )
        if at_once == 1:
            raise PlacementError(
                f"{what}; set placement.gradient_checkpointing=true, shorten --max-seq-length, or share the model "
                "among several devices with --placement fsdp"
            )
        half = largest_divisor(self._trainer.args.train_batch_size, at_once // 2)
        setting = f"--set placement.per_device_train_batch_size={half}"
        several = self._trainer.args.world_size > 1
        if several and (self._trainer.is_fsdp_enabled or (self._trainer.is_backward and self._is_exchanged)):
            raise PlacementError(
                f"{what}, while the processes exchanged tensors, so the step cannot be repeated; continue from the "
                f"last checkpoint with --resume {setting} or a smaller divisor"
            )
        self._at_once = half
        where = f"process {self._trainer.args.process_index}: " if several else ""
        print(
            f"{where}{what}: continuing with {half} at once and more accumulation steps; the global batch stays the "
            f"same, dropout is sampled again. To start with this: {setting}",
            file=sys.stderr,
        )


class Bookkeeping(TrainerCallback):
    """Seeds dropout per process, sets the sampler's epoch, checks losses, and counts tokens."""

    def __init__(self, trainer: Any):
        self.trainer = trainer

    def on_train_begin(self, args: TrainingArguments, state: Any, control: TrainerControl, **kwargs: Any) -> None:
        if args.process_index:  # with a shared seed, all processes would drop the same units
            torch.manual_seed(args.seed + args.process_index)
        if isinstance(self.trainer.model_wrapped, DistributedDataParallel):
            # Buffers are equal in all processes, and a repeated forward pass must not wait for the others.
            self.trainer.model_wrapped.broadcast_buffers = False

    def on_epoch_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        # accelerate's wrappers may not pass the epoch on to the sampler.
        self.trainer.batches.set_epoch(int((state.epoch or 0) + 1e-6))

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        reads = control.should_log or control.should_evaluate or control.should_save or control.should_training_stop
        if reads:
            self.trainer.count_tokens()
        if reads or args.device.type == "cpu":  # elsewhere, reading a value would wait for the device
            self.trainer.check_finite()

    def on_epoch_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.trainer.count_tokens()
