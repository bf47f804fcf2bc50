"""Predictions of similarity, and its scores as functions of means over queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.inference.facts import collapse_of
from bertkit.inference.outcome import TaskInference, task_inference
from bertkit.metrics.intervals import MeanDecomposition, mean_terms, terms_of
from bertkit.metrics.ranking import SCORES, queries_of, ranking_terms
from bertkit.runtime.progress import counted
from bertkit.tasks.base import Outputs
from bertkit.tasks.batches import grouped
from bertkit.tasks.similarity.task import TRIPLET_ACCURACY, SimilarityTask
from bertkit.tasks.splits import Columns
from bertkit.tasks.windows import cut_rows

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class SimilarityInference(TaskInference):
    """Cosines of texts."""

    task: SimilarityTask
    column_settings = frozenset({"text_columns", "label_column"})

    def cut_texts(self, examples: Columns, tokenizer: PreTrainedTokenizerBase) -> Columns:
        """Cuts each text by itself, as it is encoded."""
        rows = examples["texts"]
        cut = cut_rows([[text] for row in rows for text in row], tokenizer, self.task.data.max_seq_length)
        return {**examples, **grouped({"texts": [text for (text,) in cut]}, list(map(len, rows)))}

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
