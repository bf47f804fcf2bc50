"""Trainer extensions by placement: several processes, FSDP, XLA, out-of-memory retries."""

from __future__ import annotations

from typing import TypeVar

from bertkit.placement.processes import failing_together
from bertkit.placement.resolve import Placement
from bertkit.training.trainer import BertkitTrainer

T = TypeVar("T", bound=BertkitTrainer)


class JointTrainer(BertkitTrainer):
    """BertkitTrainer for DDP; if the first process cannot write a checkpoint, the others do not wait for it."""

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        with failing_together():
            super().save_model(output_dir, _internal_call)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        with failing_together():
            super()._save_optimizer_and_scheduler(output_dir)


def trainer_class(core: type[T], placement: Placement) -> type[T]:
    """Returns the Trainer class of a placement: the core class with the extensions that the placement needs.

    Args:
        core: base class for losses and batches, the same in every placement.
        placement: placement of the run.
    """
    parts: list[type[BertkitTrainer]] = []
    if placement.device == "xla":  # steps are executed lazily, so they cannot be retried
        from bertkit.training.placements.xla import XlaTrainer

        parts.append(XlaTrainer)
    else:
        from bertkit.training.placements.oom_retry import MemorySavingTrainer

        parts.append(MemorySavingTrainer)
    if placement.strategy == "fsdp":
        from bertkit.training.placements.fsdp import ShardedTrainer

        parts.append(ShardedTrainer)
    elif placement.strategy == "ddp":
        parts.append(JointTrainer)
    return type(core.__name__, (*parts, core), {})
