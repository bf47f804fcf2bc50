"""Rerankers over HTTP and on a page: the score of a pair in (0, 1)."""

from __future__ import annotations

from bertkit.features.serving.classification import ServedClassification
from bertkit.features.serving.served import served
from bertkit.tasks.reranking import RerankingTask


@served.register(RerankingTask)
class ServedReranking(ServedClassification):
    """Scores of a query and a passage."""

    usual_function = "sigmoid"

    def _label_names(self) -> list[str]:
        return ["relevance"]
