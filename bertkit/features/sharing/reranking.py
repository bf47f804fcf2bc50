"""Rerankers outside of bertkit."""

from __future__ import annotations

from bertkit.features.sharing.kinds import ADDRESS, Shared, shared
from bertkit.tasks.reranking import RerankingTask


@shared.register(RerankingTask)
class SharedReranking(Shared):
    """A cross-encoder."""

    def example(self) -> str:
        return (
            "from sentence_transformers import CrossEncoder\n\n"
            f'CrossEncoder("{ADDRESS}").predict([("who wrote Emma?", "Emma is a novel by Jane Austen.")])'
        )
