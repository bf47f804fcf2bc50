"""The Trainer of all runs: transformers', with losses over the global batch and evaluations in float32."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import TorchDynamoPlugin
from transformers import (
    EarlyStoppingCallback,
    PreTrainedModel,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, EvalLoopOutput, EvalPrediction, rotate_checkpoints

from bertkit.runtime.errors import TrainingError
from bertkit.runtime.placement.processes import failing_together, uninterrupted
from bertkit.runtime.placement.resolve import JOINED
from bertkit.runtime.progress import logging_errors_alone
from bertkit.training.batches import GlobalBatches, part_of_batch, training_order, unlabelled
from bertkit.training.cpu import CpuSpeedUps
from bertkit.training.evaluation import (
    EqualsByLoss,
    EvaluationLoss,
    evaluation_sampler,
    has_nan,
    in_dataset_order,
    in_float32,
)
from bertkit.training.progress import Progress
from bertkit.training.recovery import checkpoints_after, find_fault, last_checkpoint, write_manifest
from bertkit.training.steps import MemorySaver, Objective, StepRecord, TrainerHooks
from bertkit.training.tuning import Tuning

_LOSSES = "sum_of_losses"  # key in the state of a checkpoint: the sum over all steps of the run

Scores = Callable[[Any, Any], dict[str, float]]
"""Computes the scores of a data set, the first argument, from the model's outputs in the order of its rows."""


class BertkitTrainer(Trainer):
    """Trainer whose loss is the objective's, a mean over the global batch.

    Labels stay out of the model, which computes outputs alone, so that every family of models has the same loss, in
    training and in evaluation. Items are counted over all micro-batches and processes of a step. Evaluations are in
    float32, long inputs first, and their loss is a mean over all items of the data set, not a mean of batch means.

    Args:
        what: short name of the run for log lines.
        objective: the objective of the training.
        evaluation: that of the evaluation, whose ``count`` is 0-d; None for the same one.
        precision: dtype of autocast of the training; None for float32, the precision of all evaluations.
        tuning: learning rates by layer and adapters of the model; None for neither.
        speed_ups: those of CPUs that the run has; whoever trains applies them.
        scores: computes the scores of an evaluation; None for its loss alone.
        scores_the_loss: ``scores`` returns the evaluation loss.
        drop_last: leave out the last global batch of an epoch if it is incomplete.
        logs_often: log short runs more often, see `Progress`.
        model, args, callbacks, kwargs: as for transformers' Trainer.

    Attributes:
        batches: the batch sampler of this process.
        collate: makes a batch for the model outside of a training step, from rows.
        progress: prints the lines of the run.
        record: what is known of the steps.
        evaluated: the data set of the last evaluation.
    """

    batches: GlobalBatches
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
        speed_ups: CpuSpeedUps | None = None,
        scores: Scores | None = None,
        scores_the_loss: bool = False,
        drop_last: bool = False,
        logs_often: bool = False,
        callbacks: list[TrainerCallback] | None = None,
        **kwargs: Any,
    ):
        self.objective, self._evaluation_objective, self._precision = objective, evaluation or objective, precision
        self._scores, self._scores_the_loss = scores, scores_the_loss
        self._tuning, self._drop_last = tuning, drop_last
        self.speed_ups = speed_ups or CpuSpeedUps()
        self.record, self.progress = StepRecord(), Progress(what, logs_often)
        self._evaluation_loss: EvaluationLoss | None = None
        self.evaluated: Any = None
        self._outputs: Any = None
        # The callback on equals is the last: early stopping compares scores alone.
        all_callbacks = [TrainerHooks(self, model, precision), self.progress, *(callbacks or []), EqualsByLoss()]
        self.collate: Any = kwargs.get("data_collator")
        self._joins = model.config._attn_implementation == JOINED
        if self._joins:
            from bertkit.model.joined import with_lengths

            kwargs["data_collator"] = with_lengths(kwargs["data_collator"])
        kwargs["compute_metrics"] = None if scores is None else self._scores_in_order
        # Tied weights, which a checkpoint holds once: transformers would warn that the others are missing.
        model._keys_to_ignore_on_save = set(model.all_tied_weights_keys)
        super().__init__(model=model, args=args, callbacks=all_callbacks, **kwargs)
        self.accelerator.state.dynamo_plugin = TorchDynamoPlugin()  # accelerate would compile the whole model
        self._memory = MemorySaver(objective, self.args, self.accelerator, is_sharded=self.is_fsdp_enabled)
        self.remove_callback(PrinterCallback)
        self.model_accepts_loss_kwargs = False  # transformers would count items of its own

    def for_other_rows(
        self, rows: Any, args: TrainingArguments, callbacks: list[TrainerCallback] | None = None
    ) -> BertkitTrainer:
        """Returns a trainer of the same model and losses that trains on other rows, and computes no scores."""
        return type(self)(
            what=self.progress.what,
            model=self.model,
            args=args,
            objective=self.objective,
            evaluation=self._evaluation_objective,
            precision=self._precision,
            tuning=self._tuning,
            speed_ups=self.speed_ups,
            scores_the_loss=self._scores_the_loss,
            callbacks=callbacks,
            preprocess_logits_for_metrics=self.preprocess_logits_for_metrics,
            train_dataset=rows,
            data_collator=self.collate,
            processing_class=self.processing_class,
        )

    # ---- batches and losses of a training ----------------------------------------------------------------------------

    def _get_train_sampler(self, train_dataset: Any = None) -> GlobalBatches:
        # Private: the public method makes the whole loader, with what accelerate does to it.
        arguments = self.args
        self.batches = GlobalBatches(
            training_order(self.train_dataset, arguments),
            arguments.train_batch_size,
            arguments.gradient_accumulation_steps,
            num_processes=arguments.world_size,
            process_index=arguments.process_index,
            drop_last=self._drop_last,
        )
        return self.batches

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], torch.Tensor | int | None]:
        """Returns the micro-batches of the next step and the number of their items over all processes."""
        self.record.end_pause()
        accumulation = self.args.gradient_accumulation_steps
        steps_per_epoch = -(-len(self.batches) // accumulation)
        first = self.state.global_step % steps_per_epoch * accumulation
        samples = list(islice(epoch_iterator, num_batches))
        batch_samples = [
            unlabelled(batch, self.objective.label_columns) if self.batches.is_filler(first + number) else batch
            for number, batch in enumerate(self.speed_ups.micro_batches(samples))
        ]
        if not batch_samples:
            return [], None
        self.record.add_tokens(batch_samples)
        self._memory.begin_step(batch_samples)
        self.objective.begin_step()
        # The sum over micro-batches and processes, in the shape of each count: 0-d, or several counts.
        count = torch.stack(list(map(self.objective.count, batch_samples))).sum(dim=0).to(device)
        if self.args.world_size > 1:
            count = self.accelerator.gather(count).reshape(self.args.world_size, *count.shape).sum(dim=0)
        return batch_samples, count

    def training_step(
        self, model: torch.nn.Module, inputs: dict[str, Any], num_items_in_batch: torch.Tensor | int | None = None
    ) -> torch.Tensor:
        """Computes loss and gradients of the next micro-batch, in parts if a device runs out of memory."""
        return self._memory.compute(self.compute_part, model, inputs, num_items_in_batch)

    def compute_part(
        self, model: torch.nn.Module, inputs: dict[str, Any], count: torch.Tensor | int | None
    ) -> torch.Tensor:
        """Computes loss and gradients of a micro-batch or of a part of it."""
        return super().training_step(model, inputs, count)

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """Returns the context in which outputs and losses of a training are computed."""
        if self._precision is None:
            return contextlib.nullcontext()
        return torch.autocast(self.args.device.type, self._precision)

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | None = None,
    ) -> Any:
        self._memory.is_backward = False
        if self._evaluation_loss is not None:
            outputs = model(**self._of_model(inputs))
            # The sum over the batch; `EvaluationLoss` divides the sum of all batches.
            loss = self._evaluation_objective.loss(outputs, inputs, torch.ones((), device=self.args.device))
            return (loss, outputs) if return_outputs else loss
        assert num_items_in_batch is not None
        with self.autocast():
            outputs = model(**self._of_model(inputs))
            # DDP averages the gradients of the processes, whose losses are parts of one mean.
            loss = self.objective.loss(outputs, inputs, num_items_in_batch) * self.args.world_size
        self._memory.is_backward = True
        return (loss, outputs) if return_outputs else loss

    def _of_model(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a batch without what only the loss reads; an evaluation has no use for the list of lengths either."""
        tells_lengths = self._joins and self._evaluation_loss is None
        return {
            name: values
            for name, values in inputs.items()
            if name not in self.objective.label_columns and (tells_lengths or not isinstance(values, list))
        }

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        is_new = self.optimizer is None
        optimizer: torch.optim.Optimizer = super().create_optimizer(model)
        if is_new and self._tuning is not None:
            self._tuning.set_learning_rates(optimizer, self.model, self.model if model is None else model)
        return optimizer

    # ---- evaluation --------------------------------------------------------------------------------------------------

    def _get_eval_sampler(self, eval_dataset: Any) -> Any:
        # Private: the public methods make the whole loader, one of evaluations and one of predictions.
        return evaluation_sampler(eval_dataset)

    def prediction_step(
        self, model: torch.nn.Module, inputs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor | None, Any, Any]:
        given = inputs if any(name in inputs for name in self.label_names) else self._of_model(inputs)
        loss, logits, labels = super().prediction_step(model, given, *args, **kwargs)
        if loss is not None and self._evaluation_loss is not None and not self._scores_the_loss:
            own, is_filled_up = self._evaluation_loss.next_batch()
            if is_filled_up:  # all processes do this together, since parameters may be sharded
                inputs = self._prepare_inputs(part_of_batch(inputs, 0, max(own, 1)))
                with torch.no_grad():
                    loss = self.compute_loss(model, dict(inputs))
            counts = own > 0
            self._evaluation_loss.add(loss * counts, self._evaluation_objective.count(inputs) * counts)
        return loss, logits, labels

    def evaluation_loop(
        self, dataloader: Any, *args: Any, metric_key_prefix: str = "eval", **kwargs: Any
    ) -> EvalLoopOutput:
        """Runs the loop of transformers in float32; outputs are in the order of the data set."""
        dataset, arguments = self.dataset_of(dataloader), self.args
        self.evaluated, self._outputs = dataset, None
        self._evaluation_loss = EvaluationLoss(
            len(dataset),
            arguments.eval_batch_size,
            num_processes=arguments.world_size,
            process_index=arguments.process_index,
        )
        try:
            with in_float32(self.model):
                outcome = super().evaluation_loop(dataloader, *args, metric_key_prefix=metric_key_prefix, **kwargs)
            sums = self._evaluation_loss.sums
        finally:
            self._evaluation_loss = None
        outcome = outcome._replace(
            predictions=in_dataset_order(outcome.predictions, dataset),
            label_ids=in_dataset_order(outcome.label_ids, dataset),
        )
        self._outputs = outcome.predictions
        if sums:
            of_process = torch.stack(sums).sum(dim=0, keepdim=True)
            loss, items = self.accelerator.gather(of_process).sum(dim=0).tolist()
            outcome.metrics[f"{metric_key_prefix}_loss"] = loss / items if items > 0 else 0.0
        return outcome

    def _scores_in_order(self, outcome: EvalPrediction) -> dict[str, float]:
        assert self._scores is not None
        if has_nan(outcome.predictions):  # finite weights may be too large for the forward pass
            raise self.diverged("an output for an evaluated example is nan")
        return self._scores(self.evaluated, in_dataset_order(outcome.predictions, self.evaluated))

    def outputs(self, dataset: Any) -> Any:
        """Returns the model's outputs for a data set; reuses those of the last evaluation if it was on this data set.

        Call it after an evaluation of the current weights, see `bertkit.training.evaluation.last_evaluation`.
        """
        if self.evaluated is not dataset or self._outputs is None:
            self.predict(dataset)
        return self._outputs

    def forget_outputs(self) -> None:
        """Forgets the outputs of the last evaluation, since the weights have changed."""
        self.evaluated = self._outputs = None

    def dataset_of(self, dataloader: Any) -> Any:
        """Returns the data set that a prepared dataloader reads."""
        return dataloader.dataset

    # ---- checkpoints and weights -------------------------------------------------------------------------------------

    def _init_training_state(self, max_steps: int, *args: Any) -> tuple[int, int]:
        """Restores the state of a checkpoint; returns the epoch to start with and the batches of it to skip."""
        # Private: transformers would train one more step of a finished run, or the rest of the epoch of a stopped one.
        _, num_train_epochs, *_ = args
        with logging_errors_alone("transformers.trainer_utils"):  # on other steps than those of the checkpoint
            place = super()._init_training_state(max_steps, *args)
        self.state.compute_steps(self.args, max_steps)  # transformers keeps those of the checkpoint
        self.record.steps_before = self.state.global_step
        stopped = [each for each in self.callback_handler.callbacks if isinstance(each, EarlyStoppingCallback)]
        has_stopped = any(each.early_stopping_patience_counter >= each.early_stopping_patience for each in stopped)
        return (num_train_epochs, 0) if self.state.global_step >= max_steps or has_stopped else place

    def _load_callback_state(self) -> None:  # private: transformers would warn that no callback has the sum's name
        self.record.losses_before = self.state.stateful_callbacks.pop(_LOSSES, 0.0)
        super()._load_callback_state()

    def _save_checkpoint(self, model: torch.nn.Module, trial: Any) -> None:
        """Saves a complete checkpoint of finite weights; only then removes those beyond ``save_total_limit``."""
        # Private: the callback after it would come when transformers has removed the last complete checkpoint.
        self.count_tokens()
        self.check_finite(weights=True)
        losses = self.accelerator.gather(self._tr_loss).mean().item()
        self.state.stateful_callbacks[_LOSSES] = self.record.losses_before + self._total_loss_scalar + losses
        folder = Path(self.args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
        with failing_together():
            if self.args.should_save and folder.exists() and find_fault(folder):  # one that a resumed run has skipped
                shutil.rmtree(folder)
        limit, self.args.save_total_limit = self.args.save_total_limit, None
        try:
            # The error on a killed data worker comes in one process alone, for which the others would wait in the save.
            with uninterrupted("SIGCHLD"), failing_together():
                super()._save_checkpoint(model, trial)
        finally:
            self.args.save_total_limit = limit
        self.accelerator.wait_for_everyone()  # each process saves the state of its random numbers
        with failing_together():
            if self.args.should_save:
                write_manifest(folder)
                for later in checkpoints_after(self.state.global_step, folder.parent):
                    shutil.rmtree(later)  # skipped by a resumed run; the rotation would keep it instead of this one
                rotate_checkpoints(str(folder.parent), limit, self.state.best_model_checkpoint)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        with failing_together():  # the others do not wait for a process that cannot write, where transformers has them
            super().save_model(output_dir, _internal_call)

    def save_weights(self, folder: Path) -> None:
        """Saves configuration and weights, with merged adapters; every process takes part."""
        if self._tuning is not None and self._tuning.lora is not None:
            self._tuning.finish(self.model, folder if self.args.should_save else None)
            self.forget_outputs()  # merged weights give other last digits
        self._write_weights(folder)

    def _write_weights(self, folder: Path) -> None:
        self.model.save_pretrained(folder, is_main_process=self.args.should_save)

    def own_weights(self) -> list[torch.Tensor]:
        """Returns the weights that this process has."""
        return list(self.model.parameters())

    # ---- facts of the steps ------------------------------------------------------------------------------------------

    def count_tokens(self) -> None:
        """Adds the tokens of the last steps, of all processes, to ``state.num_input_tokens_seen``."""
        tokens = self.record.take_tokens()
        if tokens is not None:
            self.state.num_input_tokens_seen += int(self.accelerator.gather(tokens.to(self.args.device)).sum())

    def check_finite(self, weights: bool = False) -> None:
        """Checks the losses since the last log, optionally also the weights.

        Raises:
            TrainingError: one of them is not finite.
        """
        if not self._tr_loss.isfinite():
            raise self.diverged(f"the loss is {self._tr_loss.item()}")
        if weights and not torch.stack([each.isfinite().all() for each in self.own_weights()]).all():
            raise self.diverged("a weight is not finite")

    def diverged(self, fault: str) -> TrainingError:
        """Returns the error of a training that has led to a fault."""
        kept = last_checkpoint(Path(self.args.output_dir))
        rate = f"{self.record.learning_rate:.3g}"
        why = f"at a learning rate of {rate}; use a lower train.learning_rate, or more train.warmup_steps, in a new run"
        if self.state.global_step <= 1:
            why = "from the first step on: the weights that it starts from are damaged or too large; start from others"
        found = f"The last checkpoint is {kept}" if kept else "There is no checkpoint"
        return TrainingError(f"step {self.state.global_step}: the training diverged: {fault}, {why}. {found}")
