"""Predictions of similarity, and its scores as functions of means over queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bertkit.inference.facts import collapse_of
from bertkit.inference.outcome import TaskInference, task_inference
from bertkit.metrics.intervals import MeanDecomposition, mean_terms, terms_of
from bertkit.metrics.ranking import SCORES, queries_of, ranking_terms
from bertkit.runtime.progress import counted
from bertkit.tasks.base import Outputs
from bertkit.tasks.similarity.task import TRIPLET_ACCURACY, SimilarityTask
from bertkit.tasks.splits import Columns


class SimilarityInference(TaskInference):
    """Cosines of texts."""

    task: SimilarityTask
    column_settings = frozenset({"text_columns", "label_column"})

    def format_prediction(self, prediction: Mapping[str, Any]) -> str:
        return "\t".join(f"{each:.4f}" for each in prediction.get("similarities", [prediction["similarity"]]))

    def collapse(self, outputs: Outputs, features: Columns, examples: Columns) -> str | None:
        """As `TaskInference.collapse`, of the cosines: that all rankings are perfect is no fault."""
        return collapse_of((round(each["similarity"], 6),) for each in self.task.decode(outputs, features, examples))

    def terms(self, name: str, predictions: Sequence[Any], references: Sequence[Any]) -> MeanDecomposition | None:
        rows = np.asarray(predictions)
        if rows.ndim == 1:
            return terms_of(name, rows, references)
        return mean_terms(rows[:, -1]) if name == TRIPLET_ACCURACY else ranking_terms(name, rows[:, :-1])

    @property
    def example(self) -> str:  # type: ignore[override]
        has_negatives = self.task.settings.form == "triplets"
        return "triplet" if has_negatives else "pair"

    def count_units(self, name: str, predictions: Sequence[Any], references: Sequence[Any]) -> str:
        if name not in SCORES:
            return super().count_units(name, predictions, references)
        return counted(queries_of(predictions), "query", form=",")


task_inference.register(SimilarityTask, SimilarityInference)
