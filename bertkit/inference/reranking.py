"""Predictions of rerankers, and their scores as functions of means over queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bertkit.inference.classification import PredictedClassification
from bertkit.inference.predicted import predicted
from bertkit.metrics.intervals import MeanDecomposition
from bertkit.metrics.ranking import ranking_terms
from bertkit.tasks.reranking import RerankingTask


class PredictedPairs(PredictedClassification):
    """Scores of a query and a passage."""

    task: RerankingTask
    column_settings = frozenset({"text_columns", "negative_columns", "label_column"})

    def terms(self, name: str, predictions: Sequence[Any], references: Sequence[Any]) -> MeanDecomposition | None:
        return ranking_terms(name, np.asarray(predictions))


predicted.register(RerankingTask, PredictedPairs)
