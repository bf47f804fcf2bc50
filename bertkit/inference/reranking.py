"""Predictions of rerankers, and their scores as functions of means over queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bertkit.inference.classification import TextInference
from bertkit.inference.facts import Facts, collapse_of
from bertkit.inference.outcome import Outcome, TaskInference, task_inference
from bertkit.metrics.intervals import MeanDecomposition
from bertkit.metrics.ranking import queries_of, ranking_terms
from bertkit.runtime.progress import counted
from bertkit.tasks.base import Outputs
from bertkit.tasks.reranking import RerankingTask
from bertkit.tasks.splits import Columns


class RerankingInference(TextInference):
    """Scores of a query and a passage."""

    task: RerankingTask
    column_settings = frozenset({"text_columns", "negative_columns", "label_column"})
    example = "pair"

    def collapse(self, outputs: Outputs, features: Columns, examples: Columns) -> str | None:
        """As `TaskInference.collapse`, of the scores: that all rankings are perfect is no fault."""
        return collapse_of((each["score"],) for each in self.task.decode(outputs, features, examples))

    def facts(self, outcome: Outcome) -> Facts:
        return TaskInference.facts(self, outcome)  # rankings have no classes

    def terms(self, name: str, predictions: Sequence[Any], references: Sequence[Any]) -> MeanDecomposition | None:
        return ranking_terms(name, np.asarray(predictions))

    def count_units(self, name: str, predictions: Sequence[Any], references: Sequence[Any]) -> str:
        return counted(queries_of(predictions), "query", form=",")


task_inference.register(RerankingTask, RerankingInference)
