"""Predictions of multiple choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bertkit.inference.predicted import Predicted, predicted
from bertkit.metrics.intervals import MeanDecomposition, terms_of
from bertkit.tasks.multiple_choice import MultipleChoiceTask
from bertkit.tasks.splits import Columns

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class PredictedChoices(Predicted):
    """Choices of endings."""

    task: MultipleChoiceTask

    def format_prediction(self, prediction: Mapping[str, Any]) -> str:
        return f"{prediction['choice']}\t{prediction['probability']:.4f}"

    def cut_texts(self, examples: Columns, tokenizer: PreTrainedTokenizerBase) -> Columns:
        return self.task.cut_texts(examples, tokenizer)

    def terms(self, name: str, predictions: Sequence[Any], references: Sequence[Any]) -> MeanDecomposition | None:
        return terms_of(name, predictions, references)


predicted.register(MultipleChoiceTask, PredictedChoices)
