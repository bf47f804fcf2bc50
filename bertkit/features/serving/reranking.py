"""Rerankers over HTTP and on a page: the score of a pair in (0, 1)."""

from __future__ import annotations

import numpy as np

from bertkit.features.serving.classification import ServedClassification
from bertkit.features.serving.served import served
from bertkit.tasks.classification.decisions import sigmoid
from bertkit.tasks.reranking import RerankingTask


@served.register(RerankingTask)
class ServedReranking(ServedClassification):
    """Scores of a query and a passage."""

    def _scores(self, logits: np.ndarray, function: str | None) -> np.ndarray:
        return sigmoid(logits) if function is None else super()._scores(logits, function)

    def _label_names(self) -> list[str]:
        return ["relevance"]
