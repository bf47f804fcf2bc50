"""Predictions of text classification and regression, and their metrics as functions of means over the examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bertkit.errors import DataError, RecipeError
from bertkit.inference.predicted import Predicted, predicted
from bertkit.metrics.intervals import MeanDecomposition, terms_of
from bertkit.progress import counted
from bertkit.tasks.base import Task
from bertkit.tasks.classification.stock import StockClassification
from bertkit.tasks.classification.task import ClassificationTask
from bertkit.tasks.classification.text_classification import TextClassification
from bertkit.tasks.splits import Columns
from bertkit.tasks.windows import cut_rows

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


_FIELDS = (["text"], ["text", "text_pair"])


class PredictedClassification(Predicted):
    """Labels of texts or pairs, or numbers."""

    task: TextClassification

    def __init__(self, task: TextClassification):
        super().__init__(task)
        self.leaves_out_labels = task.leaves_out_labels

    @property
    def needs_transformers(self) -> bool:
        return self.task.data.long_text == "chunk"

    def with_all_probabilities(self) -> Task:
        return self.task.with_all_probabilities()

    def cut_texts(self, examples: Columns, tokenizer: PreTrainedTokenizerBase) -> Columns:
        if self.task.data.long_text == "chunk":
            return examples
        names = self._columns_of_texts(examples)
        texts = list(zip(*(examples[name] for name in names), strict=True))
        rows = cut_rows(texts, tokenizer, self.task.data.max_seq_length)
        return {**examples, **{name: [row[at] for row in rows] for at, name in enumerate(names)}}

    def format_prediction(self, prediction: Mapping[str, Any]) -> str:
        if "score" in prediction:
            return f"{prediction['score']:.4f}"
        if "labels" in prediction:
            probabilities = [f"{prediction['probabilities'][label]:.4f}" for label in prediction["labels"]]
            return f"{', '.join(prediction['labels'])}\t{', '.join(probabilities)}"
        return f"{prediction['label']}\t{prediction['probability']:.4f}"

    def _columns_of_texts(self, examples: Columns) -> Sequence[str]:
        names: Sequence[str] = self.task.task.text_columns
        return names

    def terms(self, name: str, predictions: Sequence[Any], references: Sequence[Any]) -> MeanDecomposition | None:
        return terms_of(name, predictions, references)


class PredictedTables(PredictedClassification):
    """Classification of the rows of tables, with thresholds of labels."""

    task: ClassificationTask
    column_settings = frozenset({"text_columns", "label_column"})

    def with_columns(self, columns: Mapping[str, Any]) -> Task:
        settings = self.task.task
        names, trained = columns.get("text_columns") or settings.text_columns, settings.text_columns
        if trained and len(names) != len(trained):
            raise RecipeError(
                f"task.text_columns: {', '.join(names)}; {self.task.name} reads {counted(len(trained), 'column')} of "
                f"texts, such as {', '.join(trained)} in training"
            )
        labels = {columns.get("label_column", settings.label_column), "labels"} & set(names)
        if labels:
            raise RecipeError(f"task.text_columns: {min(labels)} is the column of the labels; give another")
        return super().with_columns(columns)

    def with_threshold(self, threshold: float) -> Task:
        return self.task.with_threshold(threshold)


class PredictedStockClassification(PredictedTables):
    """Classification by a checkpoint that does not record its columns."""

    def _columns_of_texts(self, examples: Columns) -> Sequence[str]:
        return [name for name in examples if name != "labels"]

    def read_fields(self, fields: Mapping[str, str | Sequence[str]]) -> dict[str, list[str]]:
        """Converts ``text``, and for pairs ``text_pair``, to columns."""
        if sorted(fields) not in _FIELDS:
            raise DataError(f"{self.task.name}: expected text, or text and text_pair, got {', '.join(fields)}")
        columns = {name: [each] if isinstance(each, str) else list(each) for name, each in sorted(fields.items())}
        if len({len(texts) for texts in columns.values()}) > 1:
            texts, pairs = columns.values()
            raise DataError(f"{len(texts)} texts, {len(pairs)} second texts; expected as many")
        return columns


predicted.register(TextClassification, PredictedClassification)
predicted.register(ClassificationTask, PredictedTables)
predicted.register(StockClassification, PredictedStockClassification)
