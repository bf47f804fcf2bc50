"""Estimates of a run: its epochs, evaluations and checkpoints, and its time from the batches that
`bertkit.checks.trial` measures."""

from __future__ import annotations

import hashlib
import math
import os
import tempfile
import time
from collections.abc import Iterable

import numpy as np

from bertkit.checks.subject import Subject
from bertkit.checks.trial import Speed, Trial

_CHECKPOINT = 3  # a checkpoint has the weights and the two moments of AdamW, in float32
# Limits of an estimate that is right within a factor of two: the ratio of repeated measurements, and the share of the
# time in which other work holds the processor: when it ends, a run that waited for half of its time takes half as long.
_MOST_SPREAD, _MOST_WAITING = 2.0, 0.5
_MEASURED_BYTES = 1 << 26  # written to measure the time of a checkpoint


def checkpoints(subject: Subject) -> int:
    """Returns the number of checkpoints that are on the disk at the same time."""
    arguments = subject.arguments
    assert arguments is not None
    number, limit = saves(subject), arguments.save_total_limit
    # The new checkpoint is complete before an old one is removed.
    return number if limit is None else min(number, limit + 1)


def saves(subject: Subject) -> int:
    """Returns the number of checkpoints that the run writes."""
    arguments = subject.arguments
    assert arguments is not None
    strategy = str(arguments.save_strategy.value)
    by_strategy = {"no": 0, "steps": _times(subject, arguments.save_steps), "best": evaluations(subject)}
    return by_strategy.get(strategy, epochs(subject))


def checkpoint_size(subject: Subject) -> int:
    """Returns the bytes of a checkpoint: the weights, and AdamW's moments of the trained ones."""
    parameters = list(subject.network.parameters())
    trained = sum(parameter.nbytes for parameter in parameters if parameter.requires_grad)
    return sum(parameter.nbytes for parameter in parameters) + (_CHECKPOINT - 1) * trained


def epochs(subject: Subject) -> int:
    """Returns the number of epochs that the run begins."""
    batch = subject.recipe.train["global_train_batch_size"]
    return max(1, math.ceil(subject.total_steps / max(1, -(-len(subject.trainer.train_dataset) // batch))))


def _times(subject: Subject, every: float) -> int:
    """Returns how often something happens every so many steps, or shares of all steps, and after the last step."""
    steps = subject.total_steps
    return math.ceil(steps / (every if every >= 1 else max(1, math.ceil(every * steps)))) if every else 1


def evaluations(subject: Subject) -> int:
    """Returns the number of evaluations during the training."""
    arguments = subject.arguments
    assert arguments is not None
    strategy = str(arguments.eval_strategy.value)
    if strategy == "no":
        return 0
    if strategy == "epoch":
        return epochs(subject)
    return _times(subject, arguments.eval_steps or arguments.logging_steps)


def held_out(subject: Subject) -> list[int]:
    """Returns the numbers of held-out examples of a pre-training, by phase."""
    most = subject.recipe.data.max_eval_samples or math.inf
    return [int(min(len(each) / subject.share_of_corpus, most)) for each in subject.trainer.eval_sets]


def seconds(subject: Subject) -> tuple[float | None, str]:
    """Estimates the duration of training, evaluations, predictions and checkpoints from the measured batches.

    Returns:
        Seconds, and an empty text; or ``None`` and the reason why there is no estimate.
    """
    trial = subject.trial
    if trial is None:
        return None, "no step was measured"
    if subject.num_processes > 1:
        return None, f"the run has {subject.num_processes} processes, and one was measured"
    waiting = (trial.waiting or 0.0) if subject.placement.device == "cpu" else 0.0
    if waiting > _MOST_WAITING:
        return None, f"other work holds the processor for {100 * waiting:.0f} % of the time"
    if trial.steps.spread() > _MOST_SPREAD:
        return None, f"equal steps took up to {trial.steps.spread():.1f} times as long as others"
    training, evaluation = _training_seconds(subject, trial), _evaluation_seconds(subject, trial)
    return training + evaluation + saves(subject) * _checkpoint_seconds(subject), ""


def _training_seconds(subject: Subject, trial: Trial) -> float:
    trainer, placement, steps = subject.trainer, subject.placement, subject.total_steps
    others = steps * trial.optimizer_seconds + trial.start_seconds
    if subject.features is None:
        of_phases = [phase.steps * trial.steps.of(phase.max_seq_length) for phase in trainer.phases]
        return sum(of_phases) * placement.gradient_accumulation_steps + others
    lengths = np.asarray(subject.features["train"]["length"][:])
    batches = [lengths[rows].max() for rows in trainer._get_train_sampler() if rows]
    accumulated = max(1, -(-len(batches) // placement.gradient_accumulation_steps))  # steps of an epoch
    return sum(map(trial.steps.of, batches)) * steps / accumulated + others


def _evaluation_seconds(subject: Subject, trial: Trial) -> float:
    """Estimates the evaluations during and after the training, and the predictions."""
    on_the_way, last = trial.evaluation, trial.last_evaluation
    if on_the_way is None or last is None:
        return 0.0
    arguments, trainer = subject.arguments, subject.trainer
    assert arguments is not None
    size, times = arguments.per_device_eval_batch_size, evaluations(subject)
    repeats = arguments.load_best_model_at_end or trainer.in_mixed_precision or not times
    if subject.features is None:  # each phase has its part of the evaluations, and the last one is at its length
        lengths = [phase.max_seq_length for phase in trainer.phases]
        batches = [number / size for number in held_out(subject)]
        shares = [phase.steps / subject.total_steps for phase in trainer.phases]
        parts = [times * share * number for share, number in zip(shares, batches, strict=True)]
        return sum(_products(on_the_way, lengths, parts)) + repeats * batches[-1] * last.of(lengths[-1])
    total = 0.0
    for name, inputs in subject.features.items():
        if name == "train" or not len(inputs):
            continue
        lengths = -np.sort(-np.asarray(inputs["length"][:]))  # the order of an evaluation
        heads, rows = lengths[::size], np.diff([*range(0, len(lengths), size), len(lengths)]) / size
        if name == "validation":
            total += times * sum(_products(on_the_way, heads, rows))
        if name != "validation" or repeats:
            total += sum(_products(last, heads, rows))
    return total


def _products(speed: Speed, lengths: Iterable[float], numbers: Iterable[float]) -> list[float]:
    return [speed.of(length) * number for length, number in zip(lengths, numbers, strict=True)]


def _checkpoint_seconds(subject: Subject) -> float:
    """Estimates the duration of a checkpoint by writing and hashing a temporary file, as a run does."""
    size = checkpoint_size(subject)
    content = np.random.default_rng(0).bytes(min(size, _MEASURED_BYTES))
    begun = time.perf_counter()
    with tempfile.TemporaryFile(prefix="bertkit-check-") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        file.seek(0)
        hashlib.file_digest(file, "sha256")
    return (time.perf_counter() - begun) * size / len(content)
