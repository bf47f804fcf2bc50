"""Listener that writes ``report.html`` of a finished run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from bertkit.recipe.load import Recipe
from bertkit.training.runs.listeners import EndOfRun, Listener

if TYPE_CHECKING:
    from bertkit.inference.outcome import Outcome


class ReportListener(Listener):
    """Writes the report, and leaves its main figure and table to the model card."""

    place = 10
    leaves = "report"
    again = "bertkit report {}"

    @classmethod
    def wants(cls, recipe: Recipe, push_to_hub: str | None) -> bool:
        return bool(recipe.train.get("report", True))

    def on_end(self, end: EndOfRun) -> None:
        from bertkit.features.reporting.report import report_finished_run

        end.for_later["report"] = report_finished_run(end.folder, end.outcome)

    def complete(self, outcome: Callable[[], Outcome]) -> None:
        from bertkit.features.reporting.report import REPORT, report_finished_run

        if not (self.folder / REPORT).is_file():
            report_finished_run(self.folder, outcome())
