"""Hooks of a task that concern single examples: classes, groups, and predictions beside references."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from bertkit.errors import DataError, did_you_mean
from bertkit.tasks.arrays import Outputs
from bertkit.tasks.splits import Columns, FineTuningData

if TYPE_CHECKING:
    from datasets import Dataset


class PerExample:
    """Base class of `bertkit.tasks.base.Task` with the hooks of `bertkit.tasks.folds`, `bertkit.compare` and
    `bertkit.report`."""

    data: FineTuningData
    name: Any

    def strata(self, examples: Dataset) -> Sequence[Hashable] | None:
        """Returns the class of each example, for folds with the same shares of classes; ``None`` if there are none.

        By default the integers of the column ``labels``.
        """
        labels = examples["labels"][:] if "labels" in examples.column_names else []
        return labels if labels and all(isinstance(label, int) for label in labels) else None

    def groups(self, examples: Dataset) -> Sequence[Hashable]:
        """Returns the group of each training example, its value in ``data.group_column``; a group stays in one fold.

        Raises:
            DataError: the column does not exist.
        """
        column = str(self.data.group_column)
        known = examples.column_names
        if column not in known:
            raise DataError(
                f"data.group_column: the training data of {self.name} have no column {column!r}; expected one of "
                f"{', '.join(known)}{did_you_mean(column, known)}"
            )
        return list(map(str, examples[column][:]))

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
