"""The plan of a run: its steps and what it needs: memory, time, disk space and packages; and the rules on these."""

from __future__ import annotations

import hashlib
import math
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from torch.utils.data import ConcatDataset

from bertkit.data.corpus.sentences import find_splitter
from bertkit.data.corpus.store.encoding import SentenceEncoder
from bertkit.data.corpus.store.writer import origin_key, store_origin
from bertkit.features.checks.findings import INSTALL, Finding, error, extra, note, rule, warning
from bertkit.features.checks.subject import Subject
from bertkit.features.checks.trial import Speed, Trial
from bertkit.recipe.settings import CONTRAST, PAIRS
from bertkit.runtime.files import readable_size
from bertkit.runtime.placement.resolve import largest_divisor
from bertkit.runtime.progress import counted, memory_size
from bertkit.runtime.reading.hub import cache_folder
from bertkit.training.progress import UNKNOWN_ACTIVATIONS, memory_of_run
from bertkit.training.warm_start.pairs import PAIRS_OF_BATCH
from bertkit.training.warm_start.phases import size_of_contrast

_CGROUP = Path("/sys/fs/cgroup")
_MOMENTS = 2  # of AdamW, in float32, of each trained weight of a checkpoint
_FEWEST = 3  # checkpoints at the same time with train.save_total_limit=2, which is proposed
_MOST_SPREAD = 2.0  # ratio of repeated measurements, up to which an estimate is right within this factor
_MEASURED_BYTES = 1 << 26  # written to measure the time of a checkpoint


@dataclass(frozen=True)
class Need:
    """Bytes that a run needs, and bytes that are available; ``unknown`` is what the needed ones leave out."""

    needed: int
    available: int
    unknown: str = ""


def micro_batches(subject: Subject) -> list[tuple[int, list[int]]]:
    """Returns the micro-batches to measure: length in tokens and examples, the longest first."""
    size = subject.placement.per_device_train_batch_size
    if subject.features is None:  # the examples of a phase are packed to its length
        by_phase, first = [], 0
        for phase in subject.examples.phases:
            by_phase.append((phase.max_seq_length, list(range(first, first + size))))
            first += phase.steps * subject.recipe.train["global_train_batch_size"]
        return sorted(by_phase, reverse=True)
    return _choose_lengths(subject.features["train"], size)


def evaluated_batches(subject: Subject) -> tuple[Any, list[tuple[int, list[int]]]] | None:
    """Returns a data set to evaluate and batches of it to measure, as `micro_batches`; None without any."""
    arguments = subject.arguments
    size = arguments.per_device_eval_batch_size
    if subject.features is not None:
        others = [inputs for name, inputs in subject.features.items() if name != "train" and len(inputs)]
        largest = max(others, key=len, default=None)
        return None if largest is None else (largest, _choose_lengths(largest, size))
    if not subject.examples.evaluation:
        return None
    by_phase, first = [], 0
    for phase, examples in zip(subject.examples.phases, subject.examples.evaluation, strict=True):
        by_phase.append((phase.max_seq_length, list(range(first, first + min(size, len(examples))))))
        first += len(examples)
    return ConcatDataset(subject.examples.evaluation), sorted(by_phase, reverse=True)


def _choose_lengths(inputs: Any, size: int) -> list[tuple[int, list[int]]]:
    lengths = np.asarray(inputs["length"][:])
    order = np.argsort(lengths, kind="stable")
    ends = {int(share * (len(order) - size)) + size for share in (1.0, 0.5, 0.1)} if len(order) > size else {len(order)}
    batches = [order[max(end - size, 0) : end].tolist() for end in sorted(ends, reverse=True)]
    by_length = {int(lengths[rows].max()): rows for rows in batches}
    return sorted(by_length.items(), reverse=True)


def estimate_memory(subject: Subject) -> Need:
    """Estimates the memory of a training step on one device, for its longest input, with the speed-ups of the run."""
    trainer, length = subject.trainer, subject.recipe.data.max_seq_length
    with trainer.speed_ups.applied(subject.network):
        estimate = memory_of_run(trainer, subject.placement, length)
    unknown = UNKNOWN_ACTIVATIONS if estimate.activations is None else ""
    return Need(estimate.total, _find_available_memory(subject.placement.device), unknown)


def _find_available_memory(device: str) -> int:
    if device == "cuda":  # without what others use; what this process keeps is for the run
        return int(torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved())
    available = psutil.virtual_memory().available
    try:  # the limit of a container; what it uses includes copies of files, which the system gives back
        limit, used = ((_CGROUP / name).read_text().strip() for name in ("memory.max", "memory.current"))
        copies = dict(line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines())["inactive_file"]
        return available if limit == "max" else min(available, int(limit) - int(used) + int(copies))
    except (OSError, ValueError, KeyError):
        return available


def estimate_disk(subject: Subject) -> Need | None:
    """Estimates the disk space of the run directory; ``None`` without an output folder."""
    if subject.output_dir is None:
        return None
    weights = sum(parameter.nbytes for parameter in subject.network.parameters())
    needed = weights + count_checkpoints(subject) * checkpoint_size(subject)
    return Need(needed, free_space(subject.output_dir))


def estimate_store(subject: Subject) -> Need | None:
    """Estimates the disk space of a build of the tokenized corpus; ``None`` for fine-tuning and streams."""
    if subject.corpora is None or subject.corpora.facts["streamed"]:
        return None
    held: Any = subject.corpora.train
    # The build needs about twice the space of the store.
    size = round(held.store.bytes / subject.share_of_corpus)
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
        of_epoch = min(len(lengths), batch * subject.steps_of_epoch)  # the last batch may be smaller, or left out
        tokens = round(lengths.mean() * of_epoch * subject.passes)
    else:
        # The phases read the same corpus; the inputs of an epoch and those held out are counted at the first length.
        labels = None
        per_epoch = subject.trainer.train_dataset.parts[0].examples_per_epoch
        examples = {"train": round(per_epoch / subject.share_of_corpus)}
        if subject.examples.evaluation:
            examples["validation"] = count_held_out(subject)[0]
        tokens = sum(phase.steps * batch * phase.max_seq_length for phase in subject.examples.phases)
    needs, space, stored = estimate_memory(subject), estimate_disk(subject), estimate_store(subject)
    duration, unknown = estimate_seconds(subject)
    return {
        "device": subject.placement.device,
        "parameters": sum(parameter.numel() for parameter in subject.network.parameters()),
        "examples": examples,
        "labels": labels,
        "steps": subject.total_steps,
        "models": subject.models,
        "global_train_batch_size": batch,
        "epochs": None if subject.passes is None else round(subject.passes, 2),
        "learning_rate": subject.arguments.learning_rate,
        "scheduler": str(subject.arguments.lr_scheduler_type.value),
        "tokens": tokens,
        "seconds": None if duration is None else round(float(duration), 1),
        "seconds_unknown": unknown,
        "waiting": None if subject.trial is None else subject.trial.waiting,
        "memory_bytes": needs.needed,
        "memory_available_bytes": needs.available,
        "memory_unknown": needs.unknown,
        "checkpoints": count_checkpoints(subject),
        "disk_bytes": None if space is None else space.needed,
        "disk_free_bytes": None if space is None else space.available,
        "store_bytes": None if stored is None else stored.needed // 2,
    }


def count_checkpoints(subject: Subject) -> int:
    """Returns the number of checkpoints that are on the disk at the same time."""
    arguments = subject.arguments
    number, limit = count_saves(subject), arguments.save_total_limit
    # The new checkpoint is complete before an old one is removed.
    return number if limit is None else min(number, limit + 1)


def count_saves(subject: Subject) -> int:
    """Returns the number of checkpoints that the run writes; with ``save_strategy: best`` the largest possible one."""
    arguments = subject.arguments
    strategy = str(arguments.save_strategy.value)
    by_strategy = {"no": 0, "steps": _count_times(subject, arguments.save_steps), "best": count_evaluations(subject)}
    return by_strategy.get(strategy, count_epochs(subject))


def checkpoint_size(subject: Subject) -> int:
    """Returns the bytes of a checkpoint: the weights, and AdamW's moments of the trained ones."""
    parameters = list(subject.network.parameters())
    trained = sum(parameter.nbytes for parameter in parameters if parameter.requires_grad)
    return sum(parameter.nbytes for parameter in parameters) + _MOMENTS * trained


def count_epochs(subject: Subject) -> int:
    """Returns the number of epochs that the Trainer begins; the whole of a pre-training is one."""
    passes = None if subject.features is None else subject.passes
    return 1 if passes is None else max(1, math.ceil(passes))


def _count_times(subject: Subject, every: float) -> int:
    """Returns how often something happens every so many steps, or shares of all steps, and after the last step."""
    steps = subject.total_steps
    return math.ceil(steps / (every if every >= 1 else max(1, math.ceil(every * steps)))) if every else 1


def count_evaluations(subject: Subject) -> int:
    """Returns the number of evaluations during the training."""
    arguments = subject.arguments
    strategy = str(arguments.eval_strategy.value)
    if strategy == "no":
        return 0
    if strategy == "epoch":
        return count_epochs(subject)
    return _count_times(subject, arguments.eval_steps or arguments.logging_steps)


def count_held_out(subject: Subject) -> list[int]:
    """Returns the numbers of held-out examples of a pre-training, by phase."""
    most = subject.recipe.data.max_eval_samples or math.inf
    return [int(min(len(each) / subject.share_of_corpus, most)) for each in subject.examples.evaluation]


def estimate_seconds(subject: Subject) -> tuple[float | None, str]:
    """Estimates the duration of training, evaluations, predictions and checkpoints from the measured batches.

    Returns:
        Seconds, and an empty text; or ``None`` and the reason why there is no estimate.
    """
    trial = subject.trial
    if trial is None:
        return None, "no step was measured"
    if subject.num_processes > 1:
        return None, f"the run has {subject.num_processes} processes, and one was measured"
    if trial.steps.spread() > _MOST_SPREAD:
        return None, f"equal steps took up to {trial.steps.spread():.1f} times as long as others"
    training, evaluation = _estimate_training(subject, trial), _estimate_evaluations(subject, trial)
    return training + evaluation + count_saves(subject) * _estimate_checkpoint(subject), ""


def _estimate_training(subject: Subject, trial: Trial) -> float:
    """Estimates the steps of all models of a run, and those of the phases that precede them."""
    trainer, placement, steps = subject.trainer, subject.placement, subject.total_steps
    others = steps * trial.optimizer_seconds + trial.start_seconds
    if subject.features is None:
        of_phases = [phase.steps * trial.steps.of(phase.max_seq_length) for phase in subject.examples.phases]
        return sum(of_phases) * placement.gradient_accumulation_steps + others
    lengths = np.asarray(subject.features["train"]["length"][:])
    batches = [lengths[rows].max() for rows in trainer._get_train_sampler() if rows]
    accumulated = max(1, -(-len(batches) // placement.gradient_accumulation_steps))  # steps of an epoch
    of_batches = list(map(trial.steps.of, batches))
    mean = float(np.mean(list(map(trial.steps.of, lengths))))

    def of_phase(key: str, size: int) -> float:  # in batches of another number of rows
        step = mean * size / placement.per_device_train_batch_size + trial.optimizer_seconds
        return int(subject.recipe.train.get(key) or 0) * step

    of_contrast = of_phase(CONTRAST, size_of_contrast(subject.recipe, int(subject.config.num_labels)))
    of_model = sum(of_batches) * steps / accumulated + of_contrast + others
    return subject.models * of_model + of_phase(PAIRS, PAIRS_OF_BATCH)  # all models begin with the steps on pairs


def _estimate_evaluations(subject: Subject, trial: Trial) -> float:
    """Estimates the evaluations during and after the training, and the predictions."""
    speed, arguments = trial.evaluation, subject.arguments
    if speed is None:
        return 0.0
    size, times = arguments.per_device_eval_batch_size, count_evaluations(subject)
    at_the_end = arguments.load_best_model_at_end or not times  # unless the last of them was of the same weights
    if subject.features is None:  # each phase has its part of the evaluations, and the last one is at its length
        lengths = [phase.max_seq_length for phase in subject.examples.phases]
        batches = [number / size for number in count_held_out(subject)]
        shares = [phase.steps / subject.total_steps for phase in subject.examples.phases]
        parts = [times * share * number for share, number in zip(shares, batches, strict=True)]
        return sum(_multiply(speed, lengths, parts)) + at_the_end * batches[-1] * speed.of(lengths[-1])
    total = 0.0
    for name, inputs in subject.features.items():
        if name == "train" or not len(inputs):
            continue
        lengths = -np.sort(-np.asarray(inputs["length"][:]))  # the order of an evaluation
        heads, rows = lengths[::size], np.diff([*range(0, len(lengths), size), len(lengths)]) / size
        total += (times + at_the_end if name == "validation" else 1) * sum(_multiply(speed, heads, rows))
    return total


def _multiply(speed: Speed, lengths: Iterable[float], numbers: Iterable[float]) -> list[float]:
    return [speed.of(length) * number for length, number in zip(lengths, numbers, strict=True)]


def _estimate_checkpoint(subject: Subject) -> float:
    """Estimates the duration of a checkpoint by writing and hashing a temporary file, as a run does.

    The file is in the system's folder of such files, which may be on another disk than the run directory.
    """
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


@rule("memory", "trainer")
def memory_of_device(subject: Subject) -> Iterator[Finding]:
    """Compares the memory estimate with the memory of the device."""
    need = estimate_memory(subject)
    if need.needed > need.available:
        size = subject.placement.per_device_train_batch_size
        smaller = []
        if size > 1 and not getattr(subject.task, "joins_batch", False):  # whose loss compares the whole batch
            part = largest_divisor(size, size // 2)
            smaller.append(f"placement.per_device_train_batch_size={part} (the results stay the same)")
        if not subject.recipe.placement.gradient_checkpointing:
            smaller.append("placement.gradient_checkpointing=true")
        yield warning(
            "placement.per_device_train_batch_size",
            f"a step of {counted(size, 'sequence')} per device needs about {memory_size(need.needed)}, and the "
            f"{subject.placement.device} has {memory_size(need.available)} free; no forward and backward pass was made",
            f"set {', or '.join([*smaller, 'a smaller --max-seq-length'])}",
        )


@rule("disk", "trainer")
def disk_space(subject: Subject) -> Iterator[Finding]:
    """Compares the size of the run directory with the free disk space."""
    need = estimate_disk(subject)
    if need is not None and need.needed > need.available:
        number, smaller = count_checkpoints(subject), ""
        if number:
            best = " with train.load_best_model_at_end=false" if subject.arguments.load_best_model_at_end else ""
            fewer = "train.save_total_limit=2 or " if number > _FEWEST else ""
            smaller = f"set {fewer}train.save_strategy=no{best}, or "
        yield error(
            "--output-dir",
            f"the final weights and {counted(number, 'checkpoint')} need {readable_size(need.needed)}, and "
            f"{subject.output_dir} has {readable_size(need.available)} free",
            f"{smaller}give another --output-dir",
        )


@rule("store", "corpora", "tokenizer")
def store_space(subject: Subject) -> Iterator[Finding]:
    """Compares the size of the tokenized corpus with the free space of the cache."""
    need, data = estimate_store(subject), subject.recipe.data
    if need is None or need.needed <= need.available or data.is_stored():
        return
    splitter = find_splitter(data.sentence_splitter)
    encode = SentenceEncoder(subject.tokenizer, None if data.sentence_per_line else splitter)
    # The tokens of the whole corpus, of which a sample may be checked; the run builds nothing if it finds them.
    stored = cache_folder() / origin_key(store_origin(data.sources(), data.form(), encode, splitter))
    if not stored.exists():
        yield error(
            "HF_HOME",
            f"building the tokenized corpus needs {readable_size(need.needed)}, and the cache has "
            f"{readable_size(need.available)} free",
            "set HF_HOME to a folder with more space, or give --streaming",
        )


@rule("extra")
def extra_packages(subject: Subject) -> Iterator[Finding]:
    """Reports checks that are left out because a package is not installed."""
    left_out = {
        "datasketch": "near duplicates are not looked for, only exact ones",
        "ftfy.badness": "texts decoded with a wrong encoding are not looked for",
    }
    for module, what in left_out.items():
        if extra(module) is None:
            package = module.partition(".")[0]
            yield note("environment", f"{what}: the package {package} is not installed", INSTALL)
