"""Hooks of a task that concern single examples: predictions beside references."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bertkit.errors import DataError
from bertkit.tasks.arrays import Outputs
from bertkit.tasks.splits import Columns


class PerExample:
    """Base class of `bertkit.tasks.base.Task` with the hooks of `bertkit.compare` and `bertkit.report`."""

    name: Any

    def predictions_and_references(
        self, outputs: Outputs, features: Columns, examples: Columns
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Returns predictions and references in the form of the metric, one of each per example.

        Args:
            outputs, features, examples: as for `bertkit.tasks.base.Task.decode`.

        Raises:
            DataError: the task does not define this method.
        """
        raise self._not_defined()

    def compute_metrics(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        """Computes the task's metrics of any selection of what `predictions_and_references` returns."""
        raise self._not_defined()

    def _not_defined(self) -> DataError:
        return DataError(
            f"{self.name}: the task does not define predictions_and_references and compute_metrics, which single "
            "examples need"
        )

    def to_labels(self, values: Sequence[Any]) -> list[Any]:
        """Returns predictions or references as plain data for files, with the names of classes.

        Args:
            values: one of both results of `predictions_and_references`.
        """
        return [value.item() if hasattr(value, "item") else value for value in values]
