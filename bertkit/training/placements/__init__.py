"""Trainers of placements that need more than the one of `bertkit.training.trainer`: FSDP and XLA."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bertkit.runtime.placement.resolve import Placement
    from bertkit.training.trainer import BertkitTrainer


def trainer_class(placement: Placement) -> type[BertkitTrainer]:
    """Returns the Trainer class of a placement."""
    if placement.device == "xla":
        from bertkit.training.placements.xla import XlaTrainer

        return XlaTrainer
    if placement.strategy == "fsdp":
        from bertkit.training.placements.fsdp import ShardedTrainer

        return ShardedTrainer
    from bertkit.training.trainer import BertkitTrainer

    return BertkitTrainer
