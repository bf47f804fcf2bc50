"""Predictions of similarity, and its scores as functions of means over queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bertkit.inference.predicted import Predicted, predicted
from bertkit.metrics.intervals import MeanDecomposition, terms_of
from bertkit.metrics.ranking import ranking_terms
from bertkit.tasks.similarity.task import SimilarityTask


class PredictedSimilarity(Predicted):
    """Cosines of texts."""

    task: SimilarityTask
    column_settings = frozenset({"text_columns", "label_column"})

    def format_prediction(self, prediction: Mapping[str, Any]) -> str:
        return "\t".join(f"{each:.4f}" for each in prediction.get("similarities", [prediction["similarity"]]))

    def terms(self, name: str, predictions: Sequence[Any], references: Sequence[Any]) -> MeanDecomposition | None:
        rows = np.asarray(predictions)
        return terms_of(name, rows, references) if rows.ndim == 1 else ranking_terms(name, rows[:, :-1])


predicted.register(SimilarityTask, PredictedSimilarity)
