"""Trainer extension for XLA devices, such as TPUs or the CPU, on accelerate's path.

XLA records the operations of a step as a graph and compiles each new graph, which takes seconds to minutes: a step must
not read a tensor's value, and steps must have the same shapes (``placement.fixed_shapes``).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers.trainer_utils import EvalLoopOutput

from bertkit.runtime.errors import TrainingError
from bertkit.runtime.progress import say
from bertkit.training.trainer import BertkitTrainer


class XlaTrainer(BertkitTrainer):
    """BertkitTrainer with additions for XLA that transformers' Trainer lacks."""

    def training_step(
        self, model: torch.nn.Module, inputs: dict[str, Any], num_items_in_batch: torch.Tensor | int | None = None
    ) -> torch.Tensor:
        """Executes one graph per micro-batch instead of one over all micro-batches of a step.

        Graphs are executed lazily, so a step that runs out of memory cannot be repeated in parts.
        """
        import torch_xla

        loss = self.compute_part(model, inputs, num_items_in_batch)
        torch_xla.sync()
        return loss

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], torch.Tensor | int | None]:
        batch_samples, num_items_in_batch = super().get_batch_samples(epoch_iterator, num_batches, device)
        if len(batch_samples) < num_batches:
            # torch_xla reads in a thread, and treats an exception there as the end of the data.
            raise TrainingError(
                f"step {self.state.global_step + 1}: the data ended before the end of the epoch; see the cause above"
            )
        return batch_samples, num_items_in_batch

    def dataset_of(self, dataloader: Any) -> Any:
        return dataloader.dataloader.dataset  # XLA's dataloader wraps the original one

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> EvalLoopOutput:
        # accelerate's function detects the last batch in the thread that reads ahead, and truncates an earlier one.
        self.gather_function = lambda values: values
        return super().evaluation_loop(*args, **kwargs)

    def _write_weights(self, folder: Path) -> None:
        weights = self.model.state_dict(keep_vars=True)
        copies = {id(weight): weight.detach().cpu() for weight in weights.values()}  # tied weights share a copy
        whole = {name: copies[id(weight)] for name, weight in weights.items()}
        self.model.save_pretrained(folder, is_main_process=self.args.should_save, state_dict=whole)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        # AdamW counts steps on the CPU; transformers moves the counts, one per weight, to the device.
        for values in self.optimizer.state.values():
            if "step" in values:
                values["step"] = values["step"].cpu()

    def _load_rng_state(self, checkpoint: str | None) -> None:
        try:
            super()._load_rng_state(checkpoint)
        except KeyError as error:
            if error.args != ("xla",):
                raise
            say("the checkpoint is from another device: dropout starts again from the seed")
