"""Steps and evaluations of a few batches, with the trainer of the run, to measure their time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Subset
from transformers import TrainerCallback, TrainingArguments

from bertkit.runtime.placement.resolve import Placement
from bertkit.runtime.progress import without_library_bars
from bertkit.training.progress import Progress
from bertkit.training.trainer import BertkitTrainer

# A round has every batch once. The first one allocates memory and compiles kernels.
_LEAST_ROUNDS, _MOST_ROUNDS = 4, 200
_LEAST_SECONDS, _MANY_SECONDS, _TOO_MANY_SECONDS = 3.0, 20.0, 60.0
# Share of the learning rate of the run, so that the few batches are not learned, without a warm-up, until they diverge.
_LEARNING_RATE = 1e-6
_REPEATED_SECONDS = 1.0  # of the evaluations of the same batches, together

Batches = Sequence[tuple[int, Sequence[int]]]
"""Length in tokens and examples of each batch, the longest first."""


@dataclass(frozen=True)
class Speed:
    """Durations of a batch by the length of its longest input.

    Attributes:
        lengths: (L,) tokens, ascending.
        seconds: (R, L) duration of each batch in each of R rounds.
    """

    lengths: tuple[int, ...]
    seconds: np.ndarray

    def of(self, length: float) -> float:
        """Returns the mean duration of a batch, interpolated linearly by its length in tokens.

        >>> Speed((50, 100), np.array([[1.2, 2.0]])).of(75)
        1.6
        """
        return float(np.interp(length, self.lengths, self.seconds.mean(axis=0)))

    def spread(self) -> float:
        """Returns the duration of the slowest third of the rounds divided by that of the fastest third; thirds are
        in the order of time.

        >>> Speed((50,), np.array([[1.0], [1.0], [3.0]])).spread()
        3.0
        """
        parts = [part.sum(axis=1).mean() for part in np.array_split(self.seconds, 3) if len(part)]
        return float(max(parts) / min(parts))


@dataclass(frozen=True)
class Trial:
    """Measured batches of a run.

    Attributes:
        steps: loading, forward and backward pass of a micro-batch.
        optimizer_seconds: duration of a step of the optimizer.
        start_seconds: the time until the first batch, and how much longer than later ones the first round takes.
        evaluation: evaluation of a batch; None without a validation set.
        waiting: share of the time in which this process waited for a core that other work had, 0 to 1; None if the
            system does not tell.
    """

    steps: Speed
    optimizer_seconds: float
    start_seconds: float = 0.0
    evaluation: Speed | None = None
    waiting: float | None = None


class _Stopwatch(TrainerCallback):
    """Measures steps and ends the training after enough rounds."""

    def __init__(self, batches_of_round: int) -> None:
        self.times: list[tuple[float, float]] = []  # of passes, with the loading of the batch, and of the optimizer
        self._of_round = batches_of_round
        self.begun = self._ended = self._passed = self.first = 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.begun = time.perf_counter()

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not self._ended:
            self._ended = self.first = time.perf_counter()

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        _wait_for_device()
        self._passed = time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        _wait_for_device()
        now = time.perf_counter()
        self.times.append((self._passed - self._ended, now - self._passed))
        self._ended = now
        rounds, left = divmod(len(self.times), self._of_round)
        if not left:
            control.should_training_stop |= are_enough(rounds, now - self.first)


def are_enough(rounds: int, seconds: float) -> bool:
    """Returns whether no more rounds are measured.

    >>> are_enough(4, 1.0), are_enough(4, 3.5), are_enough(1, 30.0), are_enough(2, 30.0)
    (False, True, False, True)
    """
    if rounds >= _LEAST_ROUNDS and seconds >= _LEAST_SECONDS:
        return True
    return seconds > _TOO_MANY_SECONDS or (rounds > 1 and seconds > _MANY_SECONDS)


def make_trial(
    trainer: BertkitTrainer, placement: Placement, batches: Batches, evaluated: tuple[Any, Batches] | None = None
) -> Trial:
    """Trains on some micro-batches and evaluates some batches; the trainer has other weights afterwards.

    All batches are computed in turn, several times: see `are_enough`.

    Args:
        trainer: trainer of a prepared run.
        placement: placement of the run.
        batches: micro-batches.
        evaluated: a data set to evaluate, and batches of it; None without any.

    Raises:
        TrainingError: the loss or a gradient is not finite.
    """
    size = placement.per_device_train_batch_size
    rows = [row for _, examples in batches for row in np.resize(np.asarray(examples), size).tolist()]
    watch = _Stopwatch(len(batches))
    subset = Subset(trainer.train_dataset, rows * _MOST_ROUNDS)
    measured = trainer.for_other_rows(subset, _shorten_training(trainer.args, len(batches) * _MOST_ROUNDS), [watch])
    measured.remove_callback(Progress)
    before = _measure_threads()
    with trainer.speed_ups.applied(trainer.model), without_library_bars():
        measured.train()
        evaluation = None
        if evaluated is not None:
            dataset, of_evaluation = evaluated
            seconds = []
            for _, examples in of_evaluation:
                whole = np.resize(np.asarray(examples), trainer.args.per_device_eval_batch_size)
                loader = measured.get_eval_dataloader(Subset(dataset, whole.tolist()))
                evaluate = partial(measured.evaluation_loop, loader, "check", False)
                seconds.append(_time_repeatedly(evaluate, _REPEATED_SECONDS / len(of_evaluation)))
            evaluation = Speed(tuple(length for length, _ in reversed(of_evaluation)), np.array([seconds[::-1]]))
    after, waiting = _measure_threads(), None
    if before is not None and after is not None:
        running, waited = after - before
        waiting = float(np.clip(waited / max(running + waited, 1), 0, 1))
    times = np.array(watch.times).reshape(-1, len(batches), 2)[:, ::-1]  # ascending lengths
    later = times[1:] if len(times) > 1 else times
    return Trial(
        Speed(tuple(length for length, _ in reversed(batches)), later[..., 0]),
        optimizer_seconds=float(later[..., 1].mean()),
        start_seconds=watch.first - watch.begun + max(0.0, float(times[0].sum() - later.sum(axis=(1, 2)).mean())),
        evaluation=evaluation,
        waiting=waiting,
    )


def _time_repeatedly(compute: Callable[[], Any], least: float) -> float:
    """Returns the mean duration of a function after its first call, in seconds; that of the first if it is long.

    It is called again until ``least`` seconds have passed.
    """
    begun = time.perf_counter()
    compute()
    first = time.perf_counter() - begun
    if first > _MANY_SECONDS:
        return first
    begun, times = time.perf_counter(), 0
    while times == 0 or time.perf_counter() - begun < least:
        compute()
        times += 1
    return (time.perf_counter() - begun) / times


def _shorten_training(arguments: TrainingArguments, steps: int) -> TrainingArguments:
    """Returns the arguments of a training of some steps of one micro-batch, which only trains."""
    changes = {
        "max_steps": steps,
        "learning_rate": arguments.learning_rate * _LEARNING_RATE,
        "lr_scheduler_type": "constant",  # others may end at a learning rate above this one, which they refuse
        "gradient_accumulation_steps": 1,
        "train_sampling_strategy": "sequential",
        "eval_strategy": "no",
        "save_strategy": "no",
        "logging_strategy": "no",
        "load_best_model_at_end": False,
        "report_to": [],
    }
    few = copy(arguments)
    for name, value in changes.items():
        setattr(few, name, value)
    return few


def _wait_for_device() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _measure_threads() -> np.ndarray | None:
    """Returns the nanoseconds in which the threads of this process ran and waited for a core, (2,); None if unknown.

    Linux has them in ``/proc/self/task/N/schedstat``.
    """
    try:
        files = Path("/proc/self/task").glob("*/schedstat")
        threads = np.array([file.read_text().split()[:2] for file in files], dtype=np.float64)
    except (OSError, ValueError):
        return None
    return threads.sum(axis=0) if threads.ndim == 2 else None
