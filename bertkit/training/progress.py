"""Output of a training: resources before the first step; then steps, losses, evaluations and the remaining time."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from tqdm import tqdm
from transformers import (
    IntervalStrategy,
    PreTrainedModel,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from bertkit.recipe.fields import LOGGING_STEPS
from bertkit.runtime.placement.resolve import Placement
from bertkit.runtime.progress import counted, duration, memory_size, on_terminal, printable, readable, say
from bertkit.training.cpu import attention_kernel

_WEIGHT, _GRADIENT, _MOMENTS = 4, 4, 8  # bytes per parameter: float32, with AdamW's two moments
_LOGS = 30  # of a run whose recipe does not say how many
_BETWEEN_LINES = 5.0  # seconds between two lines of such logs
_MEASURED = 10.0  # seconds of steps, after the first one, that the time estimate is based on

UNKNOWN_ACTIVATIONS = "activations that are not estimated for such inputs or encoders"


@dataclass(frozen=True)
class MemoryEstimate:
    """Memory of a device in a training step, in bytes.

    Attributes:
        states: weights, gradients and AdamW's two moments: 16 bytes per trained parameter, 4 per frozen one, divided by
            the number of processes with FSDP; plus buffers.
        activations: tensors saved by the forward pass for the backward pass; ``None`` for encoders whose sizes the
            formula does not cover, and for examples of several inputs, whose number varies.
        teacher: weights of a teacher; 0 without one.
    """

    states: int
    activations: int | None
    teacher: int = 0

    @property
    def total(self) -> int:
        """Returns the bytes of all parts that are estimated."""
        return self.states + (self.activations or 0) + self.teacher

    def __str__(self) -> str:
        states = f"{memory_size(self.states)} of weights, gradients and AdamW's moments"
        teacher = f" + {memory_size(self.teacher)} of the teacher" if self.teacher else ""
        if self.activations is None:
            return f"{states}{teacher}, and {UNKNOWN_ACTIVATIONS}"
        activations = f"{memory_size(self.activations)} of activations"
        return f"about {memory_size(self.total)} per device = {states} + {activations}{teacher}"


def estimate_memory(
    model: PreTrainedModel, placement: Placement, max_seq_length: int, logits_per_sequence: int = 0
) -> MemoryEstimate:
    """Estimates the memory of one device in a training step, without the device's context and workspace.

    A layer saves 8 H + 2 I numbers per token: the inputs of its four dense layers, queries, keys, values, the input of
    the activation and the two sums before the layer norms. Each has 4 bytes in float32 and 2 under autocast, which also
    keeps its copies of the weights of the layers. Dropout saves 2 H mask elements of 1 byte, torch's dropout on a CPU
    of 4 bytes. Attention that materialises its weights (``eager``; on a CPU also ``sdpa`` with dropout) saves A S
    weights per token, three times with dropout; the dropout of `bertkit.training.cpu` saves them once, plus masks of 1
    byte. Gradient checkpointing saves H per layer, plus the numbers of one layer. The gradients of logits take as much
    memory as the logits.

    Args:
        model: source of the parameter count, the configuration and the kind of dropout.
        placement: source of the per-device batch size, the precision and the sharding.
        max_seq_length: S, maximum length of an input; one input per sequence of the batch.
        logits_per_sequence: number of logits of a language-model head per sequence.
    """
    parameters = list(model.parameters())
    states = sum(
        parameter.numel() * (_WEIGHT + (_GRADIENT + _MOMENTS) * parameter.requires_grad) for parameter in parameters
    )
    if placement.strategy == "fsdp":
        states //= placement.num_processes
    states += sum(buffer.nbytes for buffer in model.buffers())
    config = model.config
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    if not all(isinstance(getattr(config, name, None), int) for name in names):
        return MemoryEstimate(states, None)
    hidden, intermediate, layers, heads = (int(getattr(config, name)) for name in names)
    is_half, on_cpu = placement.mixed_precision != "no", placement.device == "cpu"
    # Bytes: of a number, of what a layer saves of a token, and of an element of a mask.
    number = 2 if is_half else 4
    token = (8 * hidden + 2 * intermediate) * number
    kernel, mask = attention_kernel(model)
    if getattr(config, "hidden_dropout_prob", 0):
        token += 2 * hidden * (mask or (4 if on_cpu else 1))
    dropout = bool(getattr(config, "attention_probs_dropout_prob", 0))
    if kernel == "sdpa" and dropout and mask:
        token += heads * max_seq_length * (number + mask)
    elif kernel == "eager" or (kernel == "sdpa" and dropout and on_cpu):
        token += heads * max_seq_length * (3 if dropout else 1) * number
    tokens = placement.per_device_train_batch_size * max_seq_length
    kept = tokens * layers * token
    if placement.settings.gradient_checkpointing:
        kept = tokens * (layers * hidden * number + token)
    if is_half:
        kept += layers * (4 * hidden + 2 * intermediate) * hidden * number
    logits = placement.per_device_train_batch_size * logits_per_sequence * 2 * number
    return MemoryEstimate(states, kept + logits)


def measure_longest(train_set: Any, max_seq_length: int) -> int:
    """Returns the tokens of the longest input of a training set; the maximum if its lengths are not known yet."""
    if "length" not in getattr(train_set, "column_names", ()):
        return max_seq_length
    return min(max_seq_length, int(np.max(train_set["length"][:])))


def has_several_inputs(train_set: Any) -> bool:
    """Returns whether an example of a training set has several inputs: choices, or windows of a text."""
    first = train_set[0]["input_ids"]
    return bool(len(first)) and isinstance(first[0], list)


def memory_of_run(trainer: Any, placement: Placement, max_seq_length: int) -> MemoryEstimate:
    """Estimates the memory of a run for the longest input of its training set; arguments as of `start_lines`."""
    train_set, objective = trainer.train_dataset, trainer.objective
    length = measure_longest(train_set, max_seq_length)
    estimate = estimate_memory(trainer.model, placement, length, objective.logits_per_sequence)
    activations = None if has_several_inputs(train_set) else estimate.activations
    return replace(estimate, activations=activations, teacher=objective.teacher_bytes)


def start_lines(trainer: Any, placement: Placement, max_seq_length: int) -> list[str]:
    """Returns the lines printed before the first step: placement, batch, memory, and trained weights if not all are.

    Args:
        trainer: the `bertkit.training.trainer.BertkitTrainer`. The first example of its training set shows whether an
            example has one input or several.
        placement: placement of the run.
        max_seq_length: maximum length of an input, which none may reach.
    """
    model, train_set = trainer.model, trainer.train_dataset
    memory = memory_of_run(trainer, placement, max_seq_length)
    longest = measure_longest(train_set, max_seq_length)
    size = f"up to {placement.global_train_batch_size * longest:,} tokens per step"
    if has_several_inputs(train_set):
        size = f"inputs of up to {longest} tokens"
    precision = placement.describe_precision() + " (TF32)" * bool(trainer.args.tf32)
    where = f"{device_name(placement.device)}, {placement.describe_processes()}, {precision}"
    weights = [(parameter.numel(), parameter.requires_grad) for parameter in model.parameters()]
    trained, every = sum(number for number, is_trained in weights if is_trained), sum(number for number, _ in weights)
    return [
        f"placement: {where}, attention {attention_kernel(model)[0]}",
        f"batch: {placement.describe_batch()}; {size}",
        f"memory: {memory}",
        *([f"trained: {trained:,} of {every:,} weights"] if trained < every else []),
    ]


def device_name(device: str) -> str:
    """Returns a readable device name; for a CPU with the number of threads per process."""
    if device == "cuda":
        return str(torch.cuda.get_device_name())
    threads = torch.get_num_threads()
    return f"cpu with {counted(threads, 'thread')}" if device == "cpu" else device


class Progress(TrainerCallback):
    """Callback that reports steps, losses and evaluations; replaces transformers' callbacks, which write to stdout.

    Args:
        what: short name of the run.
        logs_often: log each thirtieth of the steps, and at least every `LOGGING_STEPS`, so that a short run has curves,
            and print a part of these logs.
    """

    def __init__(self, what: str, logs_often: bool = False) -> None:
        self.what, self._logs_often = printable(what), logs_often
        self.printed = 0.0  # time of the last line of a log
        self.bar: tqdm[Any] | None = None
        self.first: tuple[float, int] | None = None  # end and number of this run's first step, which is slower
        self.measured_from: tuple[float, int] | None = None  # time and step since which steps are measured
        self.is_expected = False
        self.evaluated_at = -1  # step of the last evaluation

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.first, self.measured_from, self.is_expected = None, None, False
        if self._logs_often:
            state.logging_steps = max(1, min(LOGGING_STEPS, state.max_steps // _LOGS))
            self.printed = time.monotonic()
        if state.is_world_process_zero and on_terminal():
            self.bar = tqdm(
                total=state.max_steps, initial=state.global_step, desc=self.what, unit="step", dynamic_ncols=True
            )

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self.bar is not None:
            self.bar.update(state.global_step - self.bar.n)
        if self.first is None:
            self.first = time.monotonic(), state.global_step
        if not self.is_expected:
            self._expect(args, state)
        if control.should_evaluate or control.should_save:  # neither counts as a step
            self.measured_from = None

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if control.should_evaluate or control.should_save:
            self.measured_from = None

    def _expect(self, args: TrainingArguments, state: TrainerState) -> None:
        """Prints the expected duration once enough steps are measured; leaves out the first step, which is slower.

        Steps before an evaluation or a checkpoint are not continued after it.
        """
        now = time.monotonic()
        if self.measured_from is None:
            self.measured_from = now, state.global_step
            return
        since, step = self.measured_from
        left = state.max_steps - state.global_step
        if now - since < _MEASURED or not left:
            return
        self.is_expected = True
        pace = (now - since) / (state.global_step - step)
        evaluates = ", without evaluations" if args.eval_strategy != IntervalStrategy.NO else ""
        say(
            f"time: {pace:.3g} s per step; at this speed the remaining "
            f"{counted(left, 'step takes', 'steps take', ',')} {duration(pace * left)}{evaluates}"
        )

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if not state.is_world_process_zero or not logs or "train_loss" in logs:  # the summary at the end of training
            return
        line = f"{self.what}: step {state.global_step}/{state.max_steps}"
        if any(key.startswith("eval_") for key in logs):
            # At the end of a run the weights of an earlier step may be evaluated; the command prints their scores.
            if self.evaluated_at != state.global_step:
                say(f"{line}, validation: {readable(logs)}")
            self.evaluated_at = state.global_step
            return
        if self._logs_often and state.logging_steps < LOGGING_STEPS:
            if time.monotonic() - self.printed < _BETWEEN_LINES:
                return
            self.printed = time.monotonic()
        speed = f", {logs['train_tokens_per_second']:,.0f} tokens/s" if "train_tokens_per_second" in logs else ""
        say(f"{line}: {readable(logs)}{speed}{self._left(args, state)}")

    def _left(self, args: TrainingArguments, state: TrainerState) -> str:
        """Returns the remaining time by the pace since the first step, with the evaluations and checkpoints so far."""
        if self.bar is not None or self.first is None or state.global_step == self.first[1]:
            return ""  # a progress bar shows it itself
        since, step = self.first
        pace = (time.monotonic() - since) / (state.global_step - step)
        lacks = args.eval_strategy != IntervalStrategy.NO and self.evaluated_at < 0
        left = duration(pace * (state.max_steps - state.global_step))
        return f", {left} left{' without evaluations' if lacks else ''}"

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None
