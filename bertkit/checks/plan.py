"""The plan of a run: its steps and what it needs: memory, time and disk space."""

from __future__ import annotations

import hashlib
import math
import os
import shutil
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from torch.utils.data import ConcatDataset

from bertkit.checks.subject import Subject
from bertkit.checks.trial import Speed, Trial
from bertkit.training.cpu import cpu_speed_ups
from bertkit.training.estimate import estimate_memory

_CHECKPOINT = 3  # a checkpoint has the weights and the two moments of AdamW, in float32
# Limits of an estimate that is right within a factor of two: the ratio of repeated measurements, and the share of the
# time in which other work holds the processor. Without it a run that waits for half of its time takes half as long.
_MOST_SPREAD, _MOST_WAITING = 2.0, 0.5
_MEASURED_BYTES = 1 << 26  # written to measure the time of a checkpoint
_CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Need:
    """Bytes that a run needs, and bytes that are available."""

    needed: int
    available: int


def micro_batches(subject: Subject) -> list[tuple[int, list[int]]]:
    """Returns the micro-batches to measure: length in tokens and examples, the longest first."""
    size = subject.placement.per_device_train_batch_size
    if subject.features is None:  # the last phase is the longest; its examples are packed to its length
        found, first = [], 0
        for phase in subject.trainer.phases:
            found.append((phase.max_seq_length, list(range(first, first + size))))
            first += phase.steps * subject.recipe.train["global_train_batch_size"]
        return sorted(found, reverse=True)
    return _of_several_lengths(subject.features["train"], size)


def evaluated_batches(subject: Subject) -> tuple[Any, list[tuple[int, list[int]]]] | None:
    """Returns a data set to evaluate and batches of it to measure, as `micro_batches`; None without any."""
    arguments = subject.arguments
    assert arguments is not None
    size = arguments.per_device_eval_batch_size
    if subject.features is not None:
        others = [inputs for name, inputs in subject.features.items() if name != "train" and len(inputs)]
        largest = max(others, key=len, default=None)
        return None if largest is None else (largest, _of_several_lengths(largest, size))
    if not subject.trainer.eval_sets:
        return None
    found, first = [], 0
    for phase, held_out in zip(subject.trainer.phases, subject.trainer.eval_sets, strict=True):
        found.append((phase.max_seq_length, list(range(first, first + min(size, len(held_out))))))
        first += len(held_out)
    return ConcatDataset(subject.trainer.eval_sets), sorted(found, reverse=True)


def _of_several_lengths(inputs: Any, size: int) -> list[tuple[int, list[int]]]:
    lengths = np.asarray(inputs["length"][:])
    order = np.argsort(lengths, kind="stable")
    ends = {int(share * (len(order) - size)) + size for share in (1.0, 0.5, 0.1)} if len(order) > size else {len(order)}
    batches = [order[max(end - size, 0) : end].tolist() for end in sorted(ends, reverse=True)]
    by_length = {int(lengths[rows].max()): rows for rows in batches}
    return sorted(by_length.items(), reverse=True)


def memory(subject: Subject) -> Need:
    """Estimates the memory of a training step on one device, for its longest input, with the speed-ups of the run.

    The activations of tasks with several inputs per example are those of one input.
    """
    length, logits = subject.recipe.data.max_seq_length, subject.logits_per_sequence
    if subject.features is not None:
        longest = micro_batches(subject)[0][0]
        length = min(length, longest)
    speed_ups = cpu_speed_ups(subject.placement, compiles=subject.trainer.args.torch_compile)
    with speed_ups.applied(subject.network):
        found = estimate_memory(subject.network, subject.placement, length, logits)
    needed = found.states + (found.activations or 0) + subject.trainer.teacher_bytes
    return Need(needed, _available_memory(subject.placement.device))


def _available_memory(device: str) -> int:
    if device == "cuda":
        return int(torch.cuda.mem_get_info()[1])
    available = psutil.virtual_memory().available
    try:  # the limit of a container
        limit, used = ((_CGROUP / name).read_text().strip() for name in ("memory.max", "memory.current"))
        return available if limit == "max" else min(available, int(limit) - int(used))
    except (OSError, ValueError):
        return available


def checkpoints(subject: Subject) -> int:
    """Returns the number of checkpoints that are on the disk at the same time."""
    arguments = subject.arguments
    assert arguments is not None
    number, limit = _saves(subject), arguments.save_total_limit
    # The new checkpoint is complete before an old one is removed.
    return number if limit is None else min(number, limit + 1)


def disk(subject: Subject) -> Need | None:
    """Estimates the disk space of the run directory; ``None`` without an output folder."""
    if subject.output_dir is None:
        return None
    weights = sum(parameter.nbytes for parameter in subject.network.parameters())
    needed = weights + checkpoints(subject) * _checkpoint_size(subject)
    return Need(needed, free_space(subject.output_dir))


def store(subject: Subject) -> Need | None:
    """Returns the disk space of the tokenized corpus in the cache; ``None`` for fine-tuning and streams."""
    from bertkit.training.pretraining.pretrain import cache_folder

    if subject.corpora is None or subject.corpora.facts["streamed"]:
        return None
    held: Any = subject.corpora.train
    # The build needs about twice the space of the store.
    size = round(held.store.metadata["bytes"] / subject.share_of_corpus)
    return Need(2 * size, free_space(cache_folder()))


def free_space(folder: Path) -> int:
    """Returns the free bytes of the file system of a folder that may not exist yet."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    return shutil.disk_usage(there).free


def _epochs(subject: Subject) -> int:
    batch = subject.recipe.train["global_train_batch_size"]
    return max(1, math.ceil(subject.total_steps / max(1, -(-len(subject.trainer.train_dataset) // batch))))


def _times(subject: Subject, every: float) -> int:
    """Returns how often something happens every so many steps, or shares of all steps, and after the last step."""
    steps = subject.total_steps
    return math.ceil(steps / (every if every >= 1 else max(1, math.ceil(every * steps)))) if every else 1


def _evaluations(subject: Subject) -> int:
    arguments = subject.arguments
    assert arguments is not None
    strategy = str(arguments.eval_strategy.value)
    if strategy == "no":
        return 0
    if strategy == "epoch":
        return _epochs(subject)
    return _times(subject, arguments.eval_steps or arguments.logging_steps)


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
    if subject.has_teacher_outputs:
        return None, "the outputs of the teacher, which are computed before the training, were not measured"
    waiting = (trial.waiting or 0.0) if subject.placement.device == "cpu" else 0.0
    if waiting > _MOST_WAITING:
        return None, f"other work holds the processor for {100 * waiting:.0f} % of the time"
    if trial.steps.spread() > _MOST_SPREAD:
        return None, f"equal steps took up to {trial.steps.spread():.1f} times as long as others"
    measured = _training_seconds(subject, trial) + _evaluation_seconds(subject, trial)
    # Between a run that waits as the measured steps did, and one that does not wait.
    total = measured * math.sqrt(1 - waiting) + _saves(subject) * _checkpoint_seconds(subject)
    return total, ""


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
    size, times = arguments.per_device_eval_batch_size, _evaluations(subject)
    repeats = arguments.load_best_model_at_end or trainer.in_mixed_precision or not times
    if subject.features is None:  # each phase has its part of the evaluations, and the last one is at its length
        lengths = [phase.max_seq_length for phase in trainer.phases]
        batches = [number / size for number in _held_out(subject)]
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


def _held_out(subject: Subject) -> list[int]:
    """Returns the numbers of held-out examples of a pre-training, by phase."""
    most = subject.recipe.data.max_eval_samples or math.inf
    return [int(min(len(each) / subject.share_of_corpus, most)) for each in subject.trainer.eval_sets]


def _products(speed: Speed, lengths: Iterable[float], numbers: Iterable[float]) -> list[float]:
    return [speed.of(length) * number for length, number in zip(lengths, numbers, strict=True)]


def _saves(subject: Subject) -> int:
    """Returns the number of checkpoints that the run writes."""
    arguments = subject.arguments
    assert arguments is not None
    saves = str(arguments.save_strategy.value)
    by_strategy = {"no": 0, "steps": _times(subject, arguments.save_steps), "best": _evaluations(subject)}
    return by_strategy.get(saves, _epochs(subject))


def _checkpoint_size(subject: Subject) -> int:
    """Returns the bytes of a checkpoint: the weights, and AdamW's moments of the trained ones."""
    parameters = list(subject.network.parameters())
    trained = sum(parameter.nbytes for parameter in parameters if parameter.requires_grad)
    return sum(parameter.nbytes for parameter in parameters) + (_CHECKPOINT - 1) * trained


def _checkpoint_seconds(subject: Subject) -> float:
    """Estimates the duration of a checkpoint by writing and hashing a temporary file, as a run does."""
    size = _checkpoint_size(subject)
    content = np.random.default_rng(0).bytes(min(size, _MEASURED_BYTES))
    begun = time.perf_counter()
    with tempfile.TemporaryFile(prefix="bertkit-check-") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        file.seek(0)
        hashlib.file_digest(file, "sha256")
    return (time.perf_counter() - begun) * size / len(content)


def plan(subject: Subject) -> dict[str, Any]:
    """Returns the plan of a prepared run, for `Report.plan`."""
    batch = subject.recipe.train["global_train_batch_size"]
    if subject.features is not None:
        examples = {name: len(split.examples) for name, split in (subject.splits or {}).items()}
        lengths = np.asarray(subject.features["train"]["length"][:])
        tokens = int(lengths.mean() * batch * subject.total_steps)
    else:
        # The phases read the same corpus; the inputs of an epoch and those held out are counted at the first length.
        per_epoch = subject.trainer.train_dataset.parts[0].examples_per_epoch
        examples = {"train": round(per_epoch / subject.share_of_corpus)}
        if subject.trainer.eval_sets:
            examples["validation"] = _held_out(subject)[0]
        tokens = sum(phase.steps * batch * phase.max_seq_length for phase in subject.trainer.phases)
    needs, space, stored = memory(subject), disk(subject), store(subject)
    duration, unknown = seconds(subject)
    return {
        "device": subject.placement.device,
        "parameters": sum(parameter.numel() for parameter in subject.network.parameters()),
        "examples": examples,
        "steps": subject.total_steps,
        "global_train_batch_size": batch,
        "tokens": tokens,
        "seconds": None if duration is None else round(duration, 1),
        "seconds_unknown": unknown,
        "waiting": None if subject.trial is None else subject.trial.waiting,
        "memory_bytes": needs.needed,
        "memory_available_bytes": needs.available,
        "checkpoints": checkpoints(subject),
        "disk_bytes": None if space is None else space.needed,
        "disk_free_bytes": None if space is None else space.available,
        "store_bytes": None if stored is None else stored.needed // 2,
    }
