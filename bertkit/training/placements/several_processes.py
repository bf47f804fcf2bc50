"""Checkpoints of several processes with whole weights, which the first one writes: a full disk ends all of them."""

from __future__ import annotations

from bertkit.placement.collective import failing_together
from bertkit.training.trainer import BertkitTrainer


class JointTrainer(BertkitTrainer):
    """BertkitTrainer for DDP; if the first process cannot write a checkpoint, the others do not wait for it."""

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        with failing_together():
            super().save_model(output_dir, _internal_call)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        with failing_together():
            super()._save_optimizer_and_scheduler(output_dir)
