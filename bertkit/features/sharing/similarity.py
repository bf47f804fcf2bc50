"""Sentence embeddings outside of bertkit: the files by which sentence-transformers loads them, and their limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bertkit.features.sharing.kinds import ADDRESS, Shared, shared
from bertkit.features.sharing.sentence_embedding import module_files
from bertkit.tasks.similarity.task import SimilarityTask

if TYPE_CHECKING:
    from transformers import PreTrainedConfig


@shared.register(SimilarityTask)
class SharedSimilarity(Shared):
    """An encoder with its pooling."""

    def files_of_others(self, config: PreTrainedConfig) -> dict[str, Any]:
        """Returns the modules of sentence-transformers."""
        return module_files(self.task.settings.pooling, False, config.hidden_size, self.task.data.max_seq_length)

    def example(self) -> str:
        return (
            "from sentence_transformers import SentenceTransformer\n\n"
            f'SentenceTransformer("{ADDRESS}").encode(["a gripping film"])'
        )

    def stock_note(self) -> str:
        return (
            f"this is an encoder without a head: the vector of a text is its {self.task.settings.pooling} pooling, "
            "which sentence-transformers computes, and plain transformers does not"
        )

    def onnx_obstacle(self) -> str:
        return (
            "compares the vectors of several texts; export it with --to sentence-transformers, which has an ONNX "
            "backend"
        )
