"""The plan of a run: its steps and what it needs: memory, time and disk space."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch

from bertkit.checks.subject import Subject
from bertkit.training.cpu import cpu_speed_ups
from bertkit.training.estimate import estimate_memory

_CHECKPOINT = 3  # a checkpoint has the weights and the two moments of AdamW, in float32
_FORWARD = 1 / 3  # duration of a forward pass, as a share of a forward and a backward pass
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
    lengths = np.asarray(subject.features["train"]["length"][:])
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
    saves = str(arguments.save_strategy.value)
    number = {"no": 0, "steps": _times(subject, arguments.save_steps)}.get(
        saves, _evaluations(subject) if saves == "best" else _epochs(subject)
    )
    limit = arguments.save_total_limit
    # The new checkpoint is complete before an old one is removed.
    return number if limit is None else min(number, limit + 1)


def disk(subject: Subject) -> Need | None:
    """Estimates the disk space of the run directory; ``None`` without an output folder."""
    if subject.output_dir is None:
        return None
    weights = sum(parameter.nbytes for parameter in subject.network.parameters())
    trained = sum(parameter.nbytes for parameter in subject.network.parameters() if parameter.requires_grad)
    needed = weights + checkpoints(subject) * (weights + (_CHECKPOINT - 1) * trained)
    return Need(needed, free_space(subject.output_dir))


def store(subject: Subject) -> Need | None:
    """Returns the disk space of the tokenized corpus in the cache; ``None`` for fine-tuning and streams."""
    from bertkit.training.pretraining.pretrain import cache_folder

    if subject.corpora is None or subject.corpora.facts["streamed"]:
        return None
    held: Any = subject.corpora.train
    # The build needs about twice the space of the store.
    return Need(2 * held.store.metadata["bytes"], free_space(cache_folder()))


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


def seconds(subject: Subject) -> float | None:
    """Estimates the duration of training and evaluation from the measured passes; ``None`` if there are none."""
    trial, trainer, placement = subject.trial, subject.trainer, subject.placement
    if trial is None or trainer is None or placement is None:
        return None
    steps, optimizer = subject.total_steps, subject.total_steps * trial.optimizer_seconds
    if subject.features is None:
        of_phases = [phase.steps * trial.seconds_of(phase.max_seq_length) for phase in trainer.phases]
        return sum(of_phases) * placement.gradient_accumulation_steps + optimizer
    lengths = np.asarray(subject.features["train"]["length"][:])
    batches = [lengths[rows].max() for rows in trainer._get_train_sampler() if rows]
    accumulated = max(1, -(-len(batches) // placement.gradient_accumulation_steps))  # steps of an epoch
    training = sum(map(trial.seconds_of, batches)) * steps / accumulated
    evaluating = 0.0
    for name, inputs in subject.features.items():
        if name == "train" or not len(inputs):
            continue
        times = 1 + (_evaluations(subject) if name == "validation" else 0)
        mean = float(np.mean(inputs["length"][:]))
        passes = len(inputs) / placement.per_device_train_batch_size
        evaluating += times * passes * trial.seconds_of(mean) * _FORWARD
    return training + optimizer + evaluating


def plan(subject: Subject) -> dict[str, Any]:
    """Returns the plan of a prepared run, for `Report.plan`."""
    batch = subject.recipe.train["global_train_batch_size"]
    if subject.features is not None:
        splits = subject.splits or {}
        examples = {name: len(split.examples) for name, split in splits.items()}
        labels = splits["train"].labels or None if "train" in splits else None
        lengths = np.asarray(subject.features["train"]["length"][:])
        tokens = int(lengths.mean() * batch * subject.total_steps)
    else:
        # The phases read the same corpus; the inputs of an epoch and those held out are counted at the first length.
        labels = None
        examples = {"train": subject.trainer.train_dataset.parts[0].examples_per_epoch}
        if subject.trainer.eval_sets:
            examples["validation"] = len(subject.trainer.eval_sets[0])
        tokens = sum(phase.steps * batch * phase.max_seq_length for phase in subject.trainer.phases)
    needs, space, stored = memory(subject), disk(subject), store(subject)
    duration = seconds(subject)
    return {
        "device": subject.placement.device,
        "parameters": sum(parameter.numel() for parameter in subject.network.parameters()),
        "examples": examples,
        "labels": labels,
        "steps": subject.total_steps,
        "global_train_batch_size": batch,
        "tokens": tokens,
        "seconds": None if duration is None else round(duration, 1),
        "memory_bytes": needs.needed,
        "memory_available_bytes": needs.available,
        "checkpoints": checkpoints(subject),
        "disk_bytes": None if space is None else space.needed,
        "disk_free_bytes": None if space is None else space.available,
        "store_bytes": None if stored is None else stored.needed // 2,
    }
