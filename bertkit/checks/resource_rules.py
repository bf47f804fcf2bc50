"""Rules on what the run needs: memory, disk space and packages."""

from __future__ import annotations

from collections.abc import Iterator

from bertkit.checks.counts import checkpoints
from bertkit.checks.extras import missing_extras
from bertkit.checks.findings import Finding, error, warning
from bertkit.checks.plan import disk, memory, store
from bertkit.checks.registry import rule
from bertkit.checks.subject import Subject
from bertkit.files import readable_size
from bertkit.progress import counted, memory_size


@rule("memory", "trainer")
def memory_of_device(subject: Subject) -> Iterator[Finding]:
    """Compares the memory estimate with the memory of the device."""
    need = memory(subject)
    if need.needed > need.available:
        size = subject.placement.per_device_train_batch_size
        yield warning(
            "placement.per_device_train_batch_size",
            f"a step of {counted(size, 'sequence')} per device needs about {memory_size(need.needed)}, and the "
            f"{subject.placement.device} has {memory_size(need.available)}; no forward and backward pass was made",
            f"set placement.per_device_train_batch_size={max(1, size // 2)} (the results stay the same), "
            "placement.gradient_checkpointing=true, or a smaller --max-seq-length",
        )


@rule("disk", "trainer")
def disk_space(subject: Subject) -> Iterator[Finding]:
    """Compares the size of the run directory with the free disk space."""
    need = disk(subject)
    if need is not None and need.needed > need.available:
        kept = counted(checkpoints(subject), "checkpoint")
        yield error(
            "--output-dir",
            f"the final weights and {kept} need {readable_size(need.needed)}, and "
            f"{subject.output_dir} has {readable_size(need.available)} free",
            "set train.save_total_limit=1 or train.save_strategy=no, or give another --output-dir",
        )


@rule("store", "corpora")
def store_space(subject: Subject) -> Iterator[Finding]:
    """Compares the size of the tokenized corpus with the free space of the cache."""
    need = store(subject)
    if need is not None and need.needed > need.available:
        yield error(
            "HF_HOME",
            f"building the tokenized corpus needs {readable_size(need.needed)}, and the cache has "
            f"{readable_size(need.available)} free",
            "set HF_HOME to a folder with more space, or give --streaming",
        )


@rule("extra")
def extra_packages(subject: Subject) -> Iterator[Finding]:
    """Reports checks that are left out because a package is not installed."""
    yield from missing_extras()
