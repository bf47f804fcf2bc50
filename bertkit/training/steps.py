"""Steps of a training: their objective, retry of one that runs out of memory, facts of them, and callbacks."""

from __future__ import annotations

import math
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils.memory import clear_device_cache, should_reduce_batch_size
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel
from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import speed_metrics

from bertkit.runtime.errors import PlacementError
from bertkit.runtime.placement.resolve import JOINED, largest_divisor
from bertkit.runtime.progress import counted
from bertkit.tasks.base import Task
from bertkit.training.batches import batch_size, num_tokens, part_of_batch
from bertkit.training.evaluation import EqualsByLoss

ComputePart = Callable[[torch.nn.Module, dict[str, Any], torch.Tensor | int | None], torch.Tensor]


class Objective(ABC):
    """Objective of a training: the loss, and what it keeps between micro-batches.

    Attributes:
        label_columns: names of the tensors of a batch that the loss reads and the model does not.
        joins_batch: the loss compares the examples of a batch, which is computed at once.
        logits_per_sequence: number of logits of a language-model head per sequence; 0 for other heads.
        teacher_bytes: bytes of the weights of a teacher.
    """

    label_columns: Sequence[str]
    joins_batch: bool = False
    logits_per_sequence: int = 0
    teacher_bytes: int = 0

    @abstractmethod
    def count(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Returns the numbers of items over whose sums over the global batch the loss is a mean, 0-d or 1-d."""

    @abstractmethod
    def loss(self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor], count: Tensor) -> Tensor:
        """Computes the loss of a batch, 0-d: sums over its items, divided by ``count``."""

    def begin_step(self) -> None:
        """Begins a step."""
        return

    def forget(self) -> None:
        """Forgets what it has kept of the step, whose micro-batches are computed again."""
        return

    def report(self, gather: Callable[[Tensor], Tensor]) -> dict[str, float]:
        """Returns parts of the loss for a log, means since the last report.

        Args:
            gather: concatenates tensors of all processes in their first dimension.
        """
        return {}


class TaskObjective(Objective):
    """The loss of a task."""

    def __init__(self, task: Task):
        self._task, self.label_columns, self.joins_batch = task, task.label_columns, task.joins_batch

    def count(self, batch: Mapping[str, Tensor]) -> Tensor:
        return self._task.count(batch)

    def loss(self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor], count: Tensor) -> Tensor:
        return self._task.loss(outputs, batch, count)


class MemorySaver:
    """Computation of steps that halves the number of examples computed at once when a device runs out of memory.

    A loss that is a sum over items, divided by their number in the global batch, can be computed in parts: a device
    splits its micro-batch into two, four, … parts and accumulates their gradients, without an effect on the data loader
    or other processes. (transformers' ``auto_find_batch_size`` restarts the training with a smaller global batch.) Only
    dropout is sampled again.

    Args:
        objective: the objective of the training.
        args: arguments of the training.
        accelerator: of the trainer.
        is_sharded: the processes share the weights.

    Attributes:
        is_backward: the forward pass of the current part is over.
    """

    def __init__(self, objective: Objective, args: TrainingArguments, accelerator: Accelerator, is_sharded: bool):
        self._objective, self._args, self._accelerator, self._is_sharded = objective, args, accelerator, is_sharded
        self.is_backward = False
        self._at_once: int | None = None  # examples computed at once, if fewer than the micro-batch
        self._batches: list[dict[str, torch.Tensor]] = []  # micro-batches of this step
        self._micro_batch = -1  # index of the current one
        self._is_exchanged = False  # the processes exchange gradients in this part

    def begin_step(self, batches: list[dict[str, torch.Tensor]]) -> None:
        """Begins a step with the micro-batches of this process."""
        self._batches, self._micro_batch = batches, -1

    def compute(
        self,
        compute_part: ComputePart,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        count: torch.Tensor | int | None,
    ) -> torch.Tensor:
        """Computes loss and gradients of the next micro-batch; if memory runs out, recomputes the step so far.

        Args:
            compute_part: computes loss and gradients of a part of a micro-batch.
            model: the model as the trainer wraps it.
            inputs: the micro-batch.
            count: the items of the global batch.

        Raises:
            PlacementError: memory does not suffice for a single example, or the processes were exchanging tensors, so
                that one of them cannot repeat the step alone.
        """
        current = self._micro_batch + 1
        again = False
        while True:
            try:
                for self._micro_batch in range(current) if again else ():
                    with self._accelerator.no_sync(model):
                        self._compute_in_parts(compute_part, model, self._batches[self._micro_batch], count)
                self._micro_batch = current
                return self._compute_in_parts(compute_part, model, inputs, count)
            except RuntimeError as error:
                if not should_reduce_batch_size(error):
                    raise
                message = str(error).partition("\n")[0]
            # Outside the except block, where the frames of the failed computation have released their tensors.
            self._halve(batch_size(self._batches[self._micro_batch]), message)
            model.zero_grad()
            self._objective.forget()
            clear_device_cache(garbage_collection=True)
            again = True

    def _compute_in_parts(
        self,
        compute_part: ComputePart,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        count: torch.Tensor | int | None,
    ) -> torch.Tensor:
        """Computes loss and gradients of a micro-batch, in parts of as many examples as memory has room for.

        The processes exchange gradients in the last part of the last micro-batch only.
        """
        examples = batch_size(inputs)
        at_once = self._at_once or examples
        losses = []
        for start in range(0, examples, at_once):
            is_last = start + at_once >= examples
            self._is_exchanged = is_last and self._micro_batch == len(self._batches) - 1
            part = inputs if at_once >= examples else part_of_batch(inputs, start, start + at_once)
            with nullcontext() if is_last else self._accelerator.no_sync(model):
                losses.append(compute_part(model, part, count))
        return torch.stack(losses).sum()

    def _halve(self, examples: int, message: str) -> None:
        """Reduces the number of examples computed at once, and prints a message."""
        at_once = min(self._at_once or examples, examples)
        what = f"out of memory with {counted(at_once, 'sequence')} at once on a device ({message})"
        if self._objective.joins_batch:
            raise PlacementError(
                f"{what}; the loss compares the examples of a batch, which cannot be computed in parts; use a smaller "
                "train.global_train_batch_size, or for pairs and triplets task.mini_batch_size=16"
            )
        if at_once == 1:
            raise PlacementError(
                f"{what}; set placement.gradient_checkpointing=true, shorten --max-seq-length, or share the model "
                "among several devices with --placement fsdp"
            )
        half = largest_divisor(self._args.train_batch_size, at_once // 2)
        setting = f"--set placement.per_device_train_batch_size={half}"
        several = self._args.world_size > 1
        if several and (self._is_sharded or (self.is_backward and self._is_exchanged)):
            raise PlacementError(
                f"{what}, while the processes exchanged tensors, so the step cannot be repeated; continue from the "
                f"last checkpoint with --resume {setting} or a smaller divisor"
            )
        self._at_once = half
        where = f"process {self._args.process_index}: " if several else ""
        print(
            f"{where}{what}: continuing with {half} at once and more accumulation steps; the global batch stays the "
            f"same, dropout is sampled again. To start with this: {setting}",
            file=sys.stderr,
        )


class StepRecord:
    """What is known of the steps of a training since its start or its resumption.

    Attributes:
        learning_rate: of the last step.
        steps_before: steps before the resumption.
        losses_before: sum of the losses of these steps.
        tokens_before: tokens of the steps before it.
        paused: seconds between steps: logs, evaluations and checkpoints.
        begun: time of the start in seconds since 1970.
    """

    def __init__(self) -> None:
        self.learning_rate = self.losses_before = self.paused = self.begun = 0.0
        self.tokens_before = self.steps_before = 0
        self._tokens: torch.Tensor | None = None  # on the device, with which a step does not wait
        self._paused_since: float | None = None

    def begin(self, tokens: int) -> None:
        """Begins a training, with the tokens of the steps before."""
        self.tokens_before, self.begun = tokens, time.time()
        self.paused, self._paused_since = 0.0, None

    def begin_pause(self) -> None:
        """Begins a pause, when a step has ended."""
        self._paused_since = time.perf_counter()

    def end_pause(self) -> None:
        """Ends the pause, if there is one, when the next step begins or the training ends."""
        if self._paused_since is not None:
            self.paused += time.perf_counter() - self._paused_since
            self._paused_since = None

    def add_tokens(self, batches: Sequence[Mapping[str, Tensor]]) -> None:
        """Adds the tokens of micro-batches, without padding."""
        for batch in batches:
            if "attention_mask" in batch:
                tokens = num_tokens(batch["attention_mask"])
                self._tokens = tokens if self._tokens is None else self._tokens + tokens

    def results(self, metrics: Mapping[str, float], state: TrainerState) -> dict[str, float]:
        """Returns results of the whole run, of which transformers has those since the resumption.

        ``train_loss`` is the mean loss of all steps. ``train_tokens_per_second`` counts the tokens of all processes
        without padding since the start or the resumption, and leaves out evaluations and checkpoints.

        Args:
            metrics: metrics from ``train``.
            state: the state at its end.
        """
        losses = self.losses_before + metrics["train_loss"] * (state.global_step - self.steps_before)
        tokens = state.num_input_tokens_seen - self.tokens_before
        return {
            "train_loss": losses / max(state.global_step, 1),
            "train_tokens_per_second": round(tokens / (metrics["train_runtime"] - self.paused), 1),
        }

    def take_tokens(self) -> torch.Tensor | None:
        """Returns the tokens of this process since the last call, 0-d; None if there were none."""
        tokens, self._tokens = self._tokens, None
        return tokens


class TrainerHooks(TrainerCallback):
    """Callback for the parts of a trainer that have no method in transformers' Trainer to override.

    Seeds dropout per process, compiles layers or casts their weights at once, sets the sampler's epoch, checks losses,
    and adds tokens, their rate and parts of the loss to the logs.

    Args:
        trainer: the `bertkit.training.trainer.BertkitTrainer`.
        model: its model, before accelerate wraps it.
        precision: dtype of autocast of the training; None for float32.
    """

    def __init__(self, trainer: Any, model: PreTrainedModel, precision: torch.dtype | None):
        self._trainer, self._forward, self._precision = trainer, vars(model).get("forward"), precision
        self._of_training, self._saves_later = ExitStack(), False

    def on_train_begin(self, args: TrainingArguments, state: Any, control: TrainerControl, **kwargs: Any) -> None:
        # Behind the callbacks that transformers has put there with the state of a checkpoint.
        self._trainer.add_callback(self._trainer.pop_callback(EqualsByLoss))
        self._trainer.record.begin(state.num_input_tokens_seen)
        if args.process_index:  # with a shared seed, all processes would drop the same units
            torch.manual_seed(args.seed + args.process_index)
        if isinstance(self._trainer.model_wrapped, DistributedDataParallel):
            # Buffers are equal in all processes, and a repeated forward pass must not wait for the others.
            self._trainer.model_wrapped.broadcast_buffers = False
        if self._trainer.accelerator.native_amp:
            # accelerate has wrapped the model in its autocast, of evaluations too, which copies all outputs to float32.
            own = vars(self._trainer.model)
            own.pop("forward", None)
            if self._forward is not None:
                own["forward"] = self._forward
        model, enter = self._trainer.model, self._of_training.enter_context
        if model.config._attn_implementation == JOINED:
            from bertkit.model.joined import joined_sequences

            enter(joined_sequences(model))
        if args.torch_compile:
            from bertkit.training.compiled import compiled_layers

            enter(compiled_layers(model, args))
        elif self._precision is not None and args.device.type == "cuda" and not self._trainer.is_fsdp_enabled:
            from bertkit.training.casts import cast_by_layer

            enter(cast_by_layer(model))  # shards are cast when they are gathered; CPUs take as long without

    def on_train_end(self, *args: Any, **kwargs: Any) -> None:
        self._of_training.close()

    def on_epoch_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        # accelerate's wrappers may not pass the epoch on to the sampler.
        self._trainer.batches.set_epoch(int((state.epoch or 0) + 1e-6))

    def on_optimizer_step(
        self, args: Any, state: TrainerState, control: TrainerControl, optimizer: Any = None, **kwargs: Any
    ) -> None:
        self._trainer.record.learning_rate = float(optimizer.param_groups[0]["lr"])

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        reads = control.should_log or control.should_evaluate or control.should_save or control.should_training_stop
        if reads:
            self._trainer.count_tokens()
        if reads or args.device.type == "cpu":  # elsewhere, reading a value would wait for the device
            self._trainer.check_finite()
        # A checkpoint of the last step of an epoch comes after its evaluation, which a resumed run does not repeat.
        self._saves_later = control.should_save and args.eval_strategy == "epoch" and float(state.epoch).is_integer()
        control.should_save &= not self._saves_later
        self._trainer.record.begin_pause()

    def on_epoch_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        control.should_save |= self._saves_later
        self._trainer.count_tokens()
        self._trainer.record.end_pause()
        self._trainer.record.begin_pause()

    def on_log(
        self, args: Any, state: TrainerState, control: TrainerControl, logs: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        trainer, entry = self._trainer, state.log_history[-1]
        assert logs is not None
        if "train_loss" in logs:  # the summary at the end of training
            trainer.record.end_pause()
        added: dict[str, Any] = {"num_input_tokens_seen": state.num_input_tokens_seen}
        if "loss" in logs:
            # A scaler skips steps whose gradients overflow.
            if not math.isfinite(logs.get("grad_norm", 0.0)) and trainer.accelerator.scaler is None:
                raise trainer.diverged(f"the norm of the gradients is {logs['grad_norm']}")
            record = trainer.record
            tokens = state.num_input_tokens_seen - record.tokens_before
            added |= trainer.objective.report(trainer.accelerator.gather)
            added |= speed_metrics("train", record.begun + record.paused, num_tokens=tokens)
        logs |= added
        entry |= added
