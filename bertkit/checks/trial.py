"""Forward and backward passes of the longest batches, with the trainer of the run, to measure their time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import Subset
from transformers import EarlyStoppingCallback, TrainerCallback

from bertkit.placement.resolve import Placement
from bertkit.progress import without_library_bars
from bertkit.training.cpu import cpu_speed_ups
from bertkit.training.progress import Progress
from bertkit.training.trainer import BertkitTrainer

_LONG_ENOUGH = 20.0  # seconds after which no further pass is made


@dataclass(frozen=True)
class Pass:
    """One forward and backward pass of a micro-batch, and a step of the optimizer.

    Attributes:
        length: tokens of the longest input of the batch.
        seconds: duration of the forward and the backward pass.
        optimizer_seconds: duration of the optimizer's step.
    """

    length: int
    seconds: float
    optimizer_seconds: float


@dataclass(frozen=True)
class Trial:
    """Measured passes, from the longest to shorter batches."""

    passes: tuple[Pass, ...]

    def seconds_of(self, length: float) -> float:
        """Returns the duration of a micro-batch, interpolated linearly by its length in tokens.

        >>> Trial((Pass(100, 2.0, 0.1), Pass(50, 1.2, 0.1))).seconds_of(75)
        1.6
        """
        ordered = sorted(self.passes, key=lambda each: each.length)
        return float(np.interp(length, [each.length for each in ordered], [each.seconds for each in ordered]))

    @property
    def optimizer_seconds(self) -> float:
        """Duration of the fastest step of the optimizer; the first one allocates its state."""
        return min(each.optimizer_seconds for each in self.passes)


class _Stopwatch(TrainerCallback):
    """Measures the passes and ends the training after `_LONG_ENOUGH`."""

    def __init__(self) -> None:
        self.times: list[tuple[float, float]] = []
        self._begun = self._passed = self._first = 0.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        _wait_for_device()
        self._begun = time.perf_counter()
        self._first = self._first or self._begun

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        _wait_for_device()
        self._passed = time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        _wait_for_device()
        now = time.perf_counter()
        self.times.append((self._passed - self._begun, now - self._passed))
        control.should_training_stop |= now - self._first > _LONG_ENOUGH


def make_trial(trainer: BertkitTrainer, placement: Placement, batches: Sequence[tuple[int, Sequence[int]]]) -> Trial:
    """Trains on some micro-batches and measures them; the trainer has other weights afterwards, and the same data.

    The first batch is computed twice, since the first pass also allocates memory.

    Args:
        trainer: trainer of a prepared run.
        placement: placement of the run.
        batches: length in tokens and examples of each micro-batch, the longest first.

    Raises:
        TrainingError: the loss or a gradient is not finite.
    """
    size = placement.per_device_train_batch_size
    planned = [batches[0], *batches]
    rows = [row for _, examples in planned for row in np.resize(np.asarray(examples), size).tolist()]
    watch = _Stopwatch()
    for callback in (Progress, EarlyStoppingCallback):
        trainer.remove_callback(callback)
    trainer.add_callback(watch)
    speed_ups = cpu_speed_ups(placement, compiles=trainer.args.torch_compile)
    few_steps = _few_steps(trainer, rows, len(planned))
    with few_steps, speed_ups.applied(trainer.model), without_library_bars():
        trainer.train()
    measured = zip(planned, watch.times, strict=False)
    passes = [Pass(length, *times) for (length, _), times in measured]
    return Trial(tuple(passes[1:] or passes))


@contextmanager
def _few_steps(trainer: BertkitTrainer, rows: list[int], steps: int) -> Iterator[None]:
    """Changes a trainer so that it takes some steps of one micro-batch of these rows, and only trains."""
    changes = {
        "max_steps": steps,
        "gradient_accumulation_steps": 1,
        "train_sampling_strategy": "sequential",
        "eval_strategy": "no",
        "save_strategy": "no",
        "logging_strategy": "no",
        "load_best_model_at_end": False,
        "report_to": [],
    }
    before = {name: getattr(trainer.args, name) for name in changes}
    accumulation = trainer.accelerator.gradient_accumulation_steps
    data = trainer.train_dataset, trainer.eval_dataset
    try:
        trainer.train_dataset, trainer.eval_dataset = Subset(trainer.train_dataset, rows), None
        for name, value in changes.items():
            setattr(trainer.args, name, value)
        trainer.accelerator.gradient_accumulation_steps = 1
        yield
    finally:
        for name, value in before.items():
            setattr(trainer.args, name, value)
        trainer.accelerator.gradient_accumulation_steps = accumulation
        trainer.train_dataset, trainer.eval_dataset = data


def _wait_for_device() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
