"""Listener that passes a run on to its trackers, from the first step to the figures of its report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bertkit.recipe.load import Recipe
from bertkit.training.runs.listeners import EndOfRun, Listener, has_trackers

if TYPE_CHECKING:
    from transformers import TrainerCallback

    from bertkit.training.trainer import BertkitTrainer


class TrackingListener(Listener):
    """Passes a run on to its trackers."""

    place = 30  # figures of the report are added to the records
    takes = ("train.report_to",)
    leaves = "last entry of the trackers"

    def __init__(self, *run: Any):
        super().__init__(*run)
        from bertkit.features.tracking.tracking import Tracking

        self._tracking = Tracking(self.recipe, self.folder)

    @classmethod
    def wants(cls, recipe: Recipe, push_to_hub: str | None) -> bool:
        return has_trackers(recipe)

    def check(self) -> None:
        """Checks that the trackers exist and are installed; RecipeError if not."""
        self._tracking.check()

    def callbacks(self) -> Sequence[TrainerCallback]:
        return [self._tracking]

    def on_begin(self, trainer: BertkitTrainer, resume: bool) -> None:
        self._tracking.open(trainer, resume)

    def on_first_files(self) -> None:
        self._tracking.save()

    def on_end(self, end: EndOfRun) -> None:
        self._tracking.finish(end.metrics, end.folder / "figures")
