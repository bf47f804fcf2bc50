"""The estimate of the time of a run, from the measured steps and evaluations of `bertkit.checks.trial`."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Iterable

import numpy as np

from bertkit.checks.counts import checkpoint_size, evaluations, held_out, saves
from bertkit.checks.subject import Subject
from bertkit.checks.trial import Speed, Trial

# Limits of an estimate that is right within a factor of two: the ratio of repeated measurements, and the share of the
# time in which other work holds the processor: when it ends, a run that waited for half of its time takes half as long.
_MOST_SPREAD, _MOST_WAITING = 2.0, 0.5
_MEASURED_BYTES = 1 << 26  # written to measure the time of a checkpoint


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
