"""Base Trainer of pre-training and fine-tuning.

It extends transformers' Trainer with one loss for all models, a mean over the *global* batch, independent of
accumulation and processes, and with progress on stderr. FSDP and XLA have subclasses of it in
`bertkit.training.placements`.
"""

from __future__ import annotations

import contextlib
import math
import shutil
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from transformers import (
    EarlyStoppingCallback,
    PreTrainedModel,
    PrinterCallback,
    ProgressCallback,
    TrainerCallback,
    TrainingArguments,
)
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, EvalPrediction, rotate_checkpoints

from bertkit.runtime.errors import TrainingError
from bertkit.runtime.placement.processes import failing_together
from bertkit.training.batches import GlobalBatches, num_tokens, training_order, unlabelled
from bertkit.training.evaluation import EvaluatingTrainer, has_nan, in_dataset_order
from bertkit.training.objectives import Objective
from bertkit.training.progress import Progress
from bertkit.training.recovery import checkpoints_after, find_fault, last_checkpoint, write_manifest
from bertkit.training.steps import Bookkeeping, MemorySaver
from bertkit.training.tuning import Tuning

_LOSSES = "sum_of_losses"  # key in the state of a checkpoint: the sum over all steps of the run


class BertkitTrainer(EvaluatingTrainer):
    """Trainer whose loss is the objective's, a mean over the global batch.

    Labels stay out of the model, which computes outputs alone, so that every family of models has the same loss, in
    training and in evaluation. Items are counted over all micro-batches and processes of a step. The evaluation loss is
    a mean over all items of the data set, not a mean of batch means.

    Args:
        what: short name of the run for log lines.
        objective: the objective of the training.
        evaluation: that of the evaluation, whose ``count`` is 0-d; None for the same one.
        precision: dtype of autocast of the training; None for float32, the precision of all evaluations.
        tuning: learning rates by layer and adapters of the model; None for neither.
        regroup: regroups the micro-batches of a step; their number and sizes stay the same.
        evaluated_at: returns the data set to evaluate by default after a step, numbered from 0.
        scores_the_loss: ``compute_metrics`` returns the evaluation loss.
        model, args, compute_metrics, kwargs: as for transformers' Trainer.

    Attributes:
        batches: the batch sampler of this process.
        progress: prints the lines of the run.
        teacher_bytes: size of the weights of a teacher of the objective, which is on the device too.
        steps_of_schedule: steps over which the learning rate falls, if the training ends before; 0 for its own steps.
    """

    batches: GlobalBatches
    teacher_bytes = 0
    steps_of_schedule = 0
    is_backward = False  # the forward pass of the current micro-batch is over
    loss_is_scaled_for_ga = True  # by `count`

    def __init__(
        self,
        *,
        what: str,
        model: PreTrainedModel,
        args: TrainingArguments,
        objective: Objective,
        evaluation: Objective | None = None,
        precision: torch.dtype | None = None,
        tuning: Tuning | None = None,
        regroup: Callable[[list[Any]], list[Any]] | None = None,
        evaluated_at: Callable[[int], Any] | None = None,
        scores_the_loss: bool = False,
        callbacks: list[TrainerCallback] | None = None,
        compute_metrics: Callable[[EvalPrediction], dict[str, float]] | None = None,
        **kwargs: Any,
    ):
        self.objective, self._of_evaluation, self._precision = objective, evaluation or objective, precision
        self._scores, self._scores_the_loss = compute_metrics, scores_the_loss
        self._tuning, self._regroup, self._evaluated_at = tuning, regroup, evaluated_at
        self._steps = MemorySaver(self)
        self._new_tokens: torch.Tensor | None = None
        self._losses_before = 0.0  # sum of the losses of the steps before the resumption
        self._norm: torch.Tensor | float | None = None  # of the gradients of the last step
        self._learning_rate = 0.0  # of the last step
        self._seconds_between_steps = 0.0  # of logs, evaluations and checkpoints since the start or the resumption
        self.progress = Progress(what)
        with_progress = [self.progress, Bookkeeping(self), *(callbacks or [])]
        in_order = None if compute_metrics is None else self._scores_in_order
        super().__init__(model=model, args=args, callbacks=with_progress, compute_metrics=in_order, **kwargs)
        self.remove_callback(PrinterCallback)
        self.remove_callback(ProgressCallback)
        self.model_accepts_loss_kwargs = False  # transformers would count items of its own

    def _init_training_state(self, max_steps: int, *args: Any) -> tuple[int, int]:
        """Restores the state of a checkpoint; returns the epoch to start with and the batches of it to skip."""
        _, num_train_epochs, *_ = args
        self._seconds_between_steps = 0.0
        place = super()._init_training_state(max_steps, *args)
        self._losses_before = self.state.stateful_callbacks.get(_LOSSES, 0.0)
        stopped = [each for each in self.callback_handler.callbacks if isinstance(each, EarlyStoppingCallback)]
        has_stopped = any(each.early_stopping_patience_counter >= each.early_stopping_patience for each in stopped)
        # transformers would train one more step, or the rest of the epoch.
        is_trained = self.state.global_step >= max_steps or has_stopped
        return (num_train_epochs, 0) if is_trained else place

    def _prepare_for_training(self, *args: Any) -> Any:
        # accelerate would wrap the model in its autocast, and copy all outputs, such as logits, to float32.
        native_amp, self.accelerator.native_amp = self.accelerator.native_amp, False
        try:
            return super()._prepare_for_training(*args)
        finally:
            self.accelerator.native_amp = native_amp

    def autocast_smart_context_manager(
        self, cache_enabled: bool | None = True
    ) -> contextlib.AbstractContextManager[Any]:
        """Returns the context in which outputs and losses are computed: the one place of mixed precision."""
        if self._precision is None or self._evaluation is not None:
            return contextlib.nullcontext()
        return torch.autocast(self.args.device.type, self._precision, cache_enabled=cache_enabled)

    def _get_grad_norm(self, model: torch.nn.Module, grad_norm: Any = None) -> Any:
        self._norm, self._learning_rate = super()._get_grad_norm(model, grad_norm), self._get_learning_rate()
        return self._norm

    def _maybe_log_save_evaluate(self, *args: Any, **kwargs: Any) -> None:
        # The device has computed the step: `Bookkeeping` reads the loss before each log, evaluation and checkpoint.
        begun = time.perf_counter()
        super()._maybe_log_save_evaluate(*args, **kwargs)
        self._seconds_between_steps += time.perf_counter() - begun

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Logs values; ``train_tokens_per_second``, which transformers computes since ``start_time``, is of the
        steps alone."""
        if "loss" in logs:
            logs |= self._tell_objective("report_parts", self.accelerator.gather) or {}
        super().log(logs, None if start_time is None else start_time + self._seconds_between_steps)

    def check_finite(self, weights: bool = False) -> None:
        """Checks the losses since the last log and the last norm of the gradients, optionally also the weights.

        Raises:
            TrainingError: one of them is not finite.
        """
        checked = {"the loss": self._tr_loss}
        if self._norm is not None and self.accelerator.scaler is None:  # a scaler skips steps that overflow
            checked["the norm of the gradients"] = torch.as_tensor(self._norm)
        found = [f"{name} is {value.item()}" for name, value in checked.items() if not value.isfinite()]
        if not found and weights and not torch.stack([each.isfinite().all() for each in self.own_weights()]).all():
            found = ["a weight is not finite"]
        if found:
            raise self._diverged(found[0])

    def _diverged(self, fault: str) -> TrainingError:
        kept = last_checkpoint(Path(self.args.output_dir))
        return TrainingError(
            f"step {self.state.global_step}: the training diverged: {fault}, at a learning rate of "
            f"{self._learning_rate:.3g}; use a lower train.learning_rate, or more train.warmup_steps, in a "
            "new run. " + (f"The last checkpoint is {kept}" if kept else "There is no checkpoint")
        )

    def own_weights(self) -> list[torch.Tensor]:
        """Returns the weights that this process has."""
        return list(self.model.parameters())

    def _save_checkpoint(self, model: torch.nn.Module, trial: Any) -> None:
        """Saves a complete checkpoint of finite weights; only then removes those beyond ``save_total_limit``."""
        self.count_tokens()
        self.check_finite(weights=True)
        losses = self.accelerator.gather(self._tr_loss).mean().item()
        self.state.stateful_callbacks[_LOSSES] = self._losses_before + self._total_loss_scalar + losses
        folder = Path(self.args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        with failing_together():
            if self.args.should_save and folder.exists() and find_fault(folder):  # one that a resumed run has skipped
                shutil.rmtree(folder)
        limit, self.args.save_total_limit = self.args.save_total_limit, None
        try:
            super()._save_checkpoint(model, trial)
        finally:
            self.args.save_total_limit = limit
        self.accelerator.wait_for_everyone()  # each process saves the state of its random numbers
        with failing_together():
            if self.args.should_save:
                write_manifest(folder)
                for later in checkpoints_after(self.state.global_step, folder.parent):
                    shutil.rmtree(later)  # skipped by a resumed run; the rotation would keep it instead of this one
                rotate_checkpoints(str(folder.parent), limit, self.state.best_model_checkpoint, use_mtime=True)

    def loss_of_run(self, metrics: dict[str, float]) -> float:
        """Returns the mean loss over all steps of the run, of which ``train_loss`` has those since the resumption.

        Args:
            metrics: metrics from ``train``.
        """
        steps = self.state.global_step - self._initial_global_step
        return (self._losses_before + metrics["train_loss"] * steps) / max(self.state.global_step, 1)

    def _get_train_sampler(self, train_dataset: Any = None) -> GlobalBatches:
        arguments = self.args
        self.batches = GlobalBatches(
            training_order(self.train_dataset, arguments),
            arguments.train_batch_size,
            arguments.gradient_accumulation_steps,
            num_processes=arguments.world_size,
            process_index=arguments.process_index,
            drop_last=arguments.dataloader_drop_last,
        )
        return self.batches

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], torch.Tensor | int | None]:
        """Returns the micro-batches of the next step and the number of their items over all processes."""
        accumulation = self.args.gradient_accumulation_steps
        steps_per_epoch = -(-len(self.batches) // accumulation)
        first = self.state.global_step % steps_per_epoch * accumulation
        samples = list(islice(epoch_iterator, num_batches))
        batch_samples = [
            unlabelled(batch, self.objective.label_columns) if self.batches.is_filler(first + number) else batch
            for number, batch in enumerate(self._regroup(samples) if self._regroup else samples)
        ]
        if not batch_samples:
            return [], None
        self._steps.begin_step(batch_samples)
        self._tell_objective("begin_step")
        return batch_samples, self._in_global_batch(list(map(self.objective.count, batch_samples)), device)

    def _in_global_batch(self, counts: list[torch.Tensor], device: torch.device) -> torch.Tensor:
        """Returns the sum over micro-batches and processes, in the shape of each count: 0-d, or several counts."""
        count = torch.stack(counts).sum(dim=0).to(device)
        if self.args.world_size == 1:
            return count
        return self.accelerator.gather(count).reshape(self.args.world_size, *count.shape).sum(dim=0)

    def forget_step(self) -> None:
        """Resets the values accumulated in this step; called before its micro-batches are recomputed."""
        self._tell_objective("forget")

    def _tell_objective(self, event: str, *values: Any) -> Any:
        """Calls a method that only objectives have that keep values between micro-batches; None without it."""
        method = getattr(self.objective, event, None)
        return None if method is None else method(*values)

    def training_step(
        self, model: torch.nn.Module, inputs: dict[str, Any], num_items_in_batch: torch.Tensor | int | None = None
    ) -> torch.Tensor:
        """Computes loss and gradients of the next micro-batch, in parts if a device runs out of memory."""
        return self._steps.compute(model, inputs, num_items_in_batch)

    def compute_part(
        self, model: torch.nn.Module, inputs: dict[str, Any], count: torch.Tensor | int | None
    ) -> torch.Tensor:
        """Computes loss and gradients of a micro-batch or of a part of it."""
        return super().training_step(model, inputs, count)

    def _track_num_input_tokens(self, inputs: dict[str, torch.Tensor]) -> None:
        if self.args.include_num_input_tokens_seen == "no":
            return
        # Summed on the device, since transformers would synchronise with it in every step.
        tokens = num_tokens(inputs["attention_mask"])
        self._new_tokens = tokens if self._new_tokens is None else self._new_tokens + tokens

    def count_tokens(self) -> None:
        """Adds the tokens of the last steps, of all processes, to ``state.num_input_tokens_seen``."""
        if self._new_tokens is not None:
            tokens = self.accelerator.gather(self._new_tokens.to(self.args.device)).sum()
            self.state.num_input_tokens_seen += int(tokens)
            self._new_tokens = None

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | None = None,
    ) -> Any:
        self.is_backward = False
        outputs = model(**self._of_model(inputs))
        if self._evaluation is not None:
            # The sum over the batch; `EvaluationLoss` divides the sum of all batches.
            loss = self._of_evaluation.loss(outputs, inputs, torch.ones((), device=self.args.device))
        else:
            assert num_items_in_batch is not None
            # DDP averages the gradients of the processes, whose losses are parts of one mean.
            loss = self.objective.loss(outputs, inputs, num_items_in_batch) * self.args.world_size
        self.is_backward = True
        return (loss, outputs) if return_outputs else loss

    def _scores_in_order(self, outcome: EvalPrediction) -> dict[str, float]:
        assert self._scores is not None
        if has_nan(outcome.predictions):  # finite weights may be too large for the forward pass
            raise self._diverged("an output for an evaluated example is nan")
        outputs = (in_dataset_order(each, self.evaluated) for each in (outcome.predictions, outcome.label_ids))
        return self._scores(EvalPrediction(*outputs))

    def save_weights(self, folder: Path) -> None:
        """Saves configuration and weights, with merged adapters; every process takes part."""
        if self._tuning is not None:
            self._tuning.finish(self.model, folder if self.args.should_save else None)
            self.forget_outputs()  # merged weights give other last digits
        self._write_weights(folder)

    def _write_weights(self, folder: Path) -> None:
        self.model.save_pretrained(folder, is_main_process=self.args.should_save)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        with failing_together():  # if the first process cannot write a checkpoint, the others do not wait for it
            super().save_model(output_dir, _internal_call)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        with failing_together():
            super()._save_optimizer_and_scheduler(output_dir)

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        is_new = self.optimizer is None
        optimizer: torch.optim.Optimizer = super().create_optimizer(model)
        if is_new and self._tuning is not None:
            self._tuning.set_learning_rates(optimizer, self.model, self.model if model is None else model)
        return optimizer

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        return super().create_scheduler(self.steps_of_schedule or num_training_steps, optimizer)

    def planned_steps(self) -> int:
        """Returns the steps of the training."""
        arguments = self.args
        if arguments.max_steps > 0:
            return arguments.max_steps
        size = arguments.train_batch_size * arguments.gradient_accumulation_steps * arguments.world_size
        rows = len(self.train_dataset)
        of_epoch = rows // size if arguments.dataloader_drop_last else -(-rows // size)
        return math.ceil(arguments.num_train_epochs * max(of_epoch, 1))

    def tokens_per_second(self, metrics: dict[str, float]) -> float:
        """Computes the tokens per second over all processes, without padding, since the start or the resumption.

        Evaluations and checkpoints do not count.

        Args:
            metrics: metrics from ``train``, with ``train_runtime`` in seconds, which has them.
        """
        tokens = self.state.num_input_tokens_seen - self._initial_num_input_tokens_seen
        return round(tokens / (metrics["train_runtime"] - self._seconds_between_steps), 1)
