"""Trainer extension for XLA devices, such as TPUs or the CPU; used with fixed shapes.

XLA records the operations of a step as a graph, and executes it when a value is read or a batch begins. It compiles
each new graph, which takes seconds to minutes: a step must not read a tensor's value, and all steps must have the same
graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import EvalLoopOutput

from bertkit.errors import TrainingError
from bertkit.progress import say
from bertkit.training.trainer import BertkitTrainer


class XlaTrainer(BertkitTrainer):
    """BertkitTrainer with additions for XLA that transformers' Trainer lacks."""

    def __init__(self, *, callbacks: list[TrainerCallback] | None = None, **kwargs: Any):
        self._unscored = 0
        super().__init__(callbacks=[_BetweenGraphs(self), *(callbacks or [])], **kwargs)

    def count_tokens(self) -> None:
        import torch_xla

        torch_xla.sync()  # run the step as one graph first; otherwise the count would be a separate graph
        super().count_tokens()

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], Tensor | int | None]:
        batch_samples, num_items_in_batch = super().get_batch_samples(epoch_iterator, num_batches, device)
        if len(batch_samples) < num_batches:
            # torch_xla reads in a thread, and treats an exception there as the end of the data.
            raise TrainingError(
                f"step {self.state.global_step + 1}: the data ended before the end of the epoch; see the cause above"
            )
        return batch_samples, num_items_in_batch

    def dataset_of(self, dataloader: Any) -> Any:
        return dataloader.dataloader.dataset  # XLA's dataloader wraps the original one

    def evaluation_loop(self, dataloader: Any, *args: Any, **kwargs: Any) -> EvalLoopOutput:
        self._unscored = len(self.dataset_of(dataloader))
        self.gather_function = self._of_examples
        return super().evaluation_loop(dataloader, *args, **kwargs)

    def prediction_step(self, *args: Any, **kwargs: Any) -> tuple[Any, Any, Any]:
        self._rows = min(self._unscored, self.args.eval_batch_size)
        self._unscored -= self._rows
        return super().prediction_step(*args, **kwargs)

    def _of_examples(self, values: Any) -> Any:
        """Moves a batch's values to the CPU, without those of filler rows.

        On the device, transformers would append them to those of all earlier batches, with a different shape each time.
        accelerate detects the last batch in the thread that reads ahead, so it would truncate an earlier one.
        """
        if isinstance(values, (tuple, list)):
            return type(values)(map(self._of_examples, values))
        return values.cpu()[: self._rows]

    def save_weights(self, folder: Path) -> None:
        weights = self.model.state_dict(keep_vars=True)
        copies = {id(weight): weight.detach().cpu() for weight in weights.values()}  # tied weights share a copy
        whole = {name: copies[id(weight)] for name, weight in weights.items()}
        self.model.save_pretrained(folder, is_main_process=self.args.should_save, state_dict=whole)

    def _load_rng_state(self, checkpoint: str | None) -> None:
        try:
            super()._load_rng_state(checkpoint)
        except KeyError as error:
            if error.args != ("xla",):
                raise
            say("the checkpoint is from another device: dropout starts again from the seed")


class _BetweenGraphs(TrainerCallback):
    """Callback that executes the graph of each micro-batch, and keeps optimizer step counts off the device."""

    def __init__(self, trainer: XlaTrainer):
        self.trainer = trainer

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        # AdamW counts steps on the CPU; resuming moves the counts, one per weight, to the device.
        for values in self.trainer.optimizer.state.values():
            if "step" in values:
                values["step"] = values["step"].cpu()

    def on_substep_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        # One graph per micro-batch instead of one graph over all micro-batches.
        import torch_xla

        torch_xla.sync()


def compilations() -> dict[str, float]:
    """Returns the number of graphs that XLA has compiled in this process (``count``), and the time (``seconds``)."""
    from torch_xla.debug import metrics

    count, nanoseconds, _ = metrics.metric_data("CompileTime") or (0, 0, ())
    return {"count": count, "seconds": round(nanoseconds / 1e9, 1)}
