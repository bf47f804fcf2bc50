"""Similarity on a page: two texts, which a request joins by a tab."""

from __future__ import annotations

from collections.abc import Sequence

from bertkit.features.serving.served import Served, served
from bertkit.tasks.similarity.task import SimilarityTask
from bertkit.tasks.splits import Columns


@served.register(SimilarityTask)
class ServedSimilarity(Served):
    """The cosine of a text to another one."""

    fields: Sequence[str] = ("text", "other text")

    def input_of(self, texts: Sequence[str]) -> str:
        return "\t".join(text.replace("\t", " ") for text in texts)

    def texts_of(self, examples: Columns, row: int) -> list[str]:
        return list(examples["texts"][row][:2])
