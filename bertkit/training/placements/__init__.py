"""Trainer extensions by placement: several processes, FSDP, XLA, out-of-memory retries."""

from __future__ import annotations

from typing import Any, TypeVar

from bertkit.placement.resolve import Placement
from bertkit.training.trainer import BertkitTrainer

T = TypeVar("T", bound=BertkitTrainer)


def trainer_class(core: type[T], placement: Placement) -> type[T]:
    """Returns the Trainer class of a placement: the core class with the extensions that the placement needs.

    Args:
        core: base class for losses and batches, the same in every placement.
        placement: placement of the run.
    """
    parts: list[type[BertkitTrainer]] = []
    members: dict[str, Any] = {}
    if placement.device == "xla":  # steps are executed lazily, so they cannot be retried
        from bertkit.training.placements.xla import XlaTrainer

        parts.append(XlaTrainer)
        members["autocast"] = placement.autocast_on_xla
    else:
        from bertkit.training.placements.oom_retry import MemorySavingTrainer

        parts.append(MemorySavingTrainer)
    if placement.strategy == "fsdp":
        from bertkit.training.placements.fsdp import ShardedTrainer

        parts.append(ShardedTrainer)
    elif placement.strategy == "ddp":
        from bertkit.training.placements.several_processes import JointTrainer

        parts.append(JointTrainer)
    return type(core.__name__, (*parts, core), members)
