"""Callback of the trainer for what each step, epoch and training needs besides the loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn.parallel import DistributedDataParallel
from transformers import TrainerCallback, TrainingArguments
from transformers.trainer_callback import TrainerControl, TrainerState

if TYPE_CHECKING:
    from bertkit.training.trainer import BertkitTrainer


class Bookkeeping(TrainerCallback):
    """Seeds dropout per process, sets the sampler's epoch, checks losses, and counts tokens."""

    def __init__(self, trainer: BertkitTrainer):
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
