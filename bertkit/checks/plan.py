"""The plan of a run: its steps and what it needs: memory, time and disk space."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from torch.utils.data import ConcatDataset

from bertkit.checks.counts import checkpoint_size, checkpoints, held_out
from bertkit.checks.duration import seconds
from bertkit.checks.subject import Subject
from bertkit.training.cpu import cpu_speed_ups
from bertkit.training.estimate import estimate_memory

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
    for phase, examples in zip(subject.trainer.phases, subject.trainer.eval_sets, strict=True):
        found.append((phase.max_seq_length, list(range(first, first + min(size, len(examples))))))
        first += len(examples)
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


def disk(subject: Subject) -> Need | None:
    """Estimates the disk space of the run directory; ``None`` without an output folder."""
    if subject.output_dir is None:
        return None
    weights = sum(parameter.nbytes for parameter in subject.network.parameters())
    needed = weights + checkpoints(subject) * checkpoint_size(subject)
    return Need(needed, free_space(subject.output_dir))


def store(subject: Subject) -> Need | None:
    """Returns the disk space of the tokenized corpus in the cache; ``None`` for fine-tuning and streams."""
    from bertkit.training.pretraining.initialization import cache_folder

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
        per_epoch = subject.trainer.train_dataset.parts[0].examples_per_epoch
        examples = {"train": round(per_epoch / subject.share_of_corpus)}
        if subject.trainer.eval_sets:
            examples["validation"] = held_out(subject)[0]
        tokens = sum(phase.steps * batch * phase.max_seq_length for phase in subject.trainer.phases)
    needs, space, stored = memory(subject), disk(subject), store(subject)
    duration, unknown = seconds(subject)
    return {
        "device": subject.placement.device,
        "parameters": sum(parameter.numel() for parameter in subject.network.parameters()),
        "examples": examples,
        "labels": labels,
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
