"""Predictions of text classification and regression, and their metrics as functions of means over the examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.inference.facts import (
    Facts,
    are_rare,
    classes_in_words,
    interval_of,
    most_frequent,
    never_predicted,
    right_of_all,
    score_in_words,
)
from bertkit.inference.outcome import Outcome, TaskInference, task_inference
from bertkit.metrics.intervals import MeanDecomposition, terms_of
from bertkit.runtime.errors import DataError, RecipeError, shown
from bertkit.runtime.formats import amount
from bertkit.runtime.progress import counted
from bertkit.tasks.base import Task, one_array
from bertkit.tasks.classification.stock import StockClassification
from bertkit.tasks.classification.task import ClassificationTask
from bertkit.tasks.classification.text_classification import TextClassification
from bertkit.tasks.splits import Columns
from bertkit.tasks.windows import cut_rows

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


_FIELDS = (["text"], ["text", "text_pair"])
_HARDLY = 0.05  # part of the standard deviation of the true numbers


class TextInference(TaskInference):
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
        names = [name for name in examples if name != "labels"]
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

    def facts(self, outcome: Outcome) -> Facts:
        own, true = map(np.asarray, outcome.predictions_and_references())
        training = None if outcome.training is None else outcome.training.get("labels")
        if not len(true):
            return Facts()
        if self.task.problem_type == "regression":
            known = None if training is None else np.asarray(training, dtype=np.float64)
            return numbers_in_words(own, true, known, outcome.same_texts)
        names = self.task.settings.label_names
        known = None if training is None else np.asarray(training).astype(np.int64)
        if true.ndim == 2:
            return self._facts_of_labels(own, true, known, names, outcome.same_texts)
        counts = None if known is None else np.bincount(known, minlength=len(names))
        probabilities = self.task.probabilities(one_array(outcome.outputs))
        return classes_in_words(own, true, probabilities, names, counts, texts=outcome.same_texts)

    def _facts_of_labels(
        self,
        own: np.ndarray,
        true: np.ndarray,
        training: np.ndarray | None,
        names: Sequence[str],
        texts: np.ndarray,
    ) -> Facts:
        """Returns the facts of several labels per example; all arrays are of 0 and 1, (N, C)."""
        known = Counter(map(tuple, (true if training is None else training).tolist()))
        usual = np.array(most_frequent(known.elements()))
        labels = ", ".join(shown(names[c]) for c in np.flatnonzero(usual).tolist()) or "no label"
        is_tied = [*known.values()].count(max(known.values())) > 1
        which = "one of the most frequent combinations of labels" if is_tied else "the most frequent labels"
        guess = f"always guessing {labels}, {which} {'here' if training is None else 'in training'},"
        right = (own == true).all(axis=1)
        sentences, is_wide = right_of_all(
            right, guess=(guess, float((true == usual).all(axis=1).mean())), right_in=" in all labels", texts=texts
        )
        actual, predicted = true.sum(axis=0), own.sum(axis=0)
        never = never_predicted(names, actual, predicted, what=("label", "labels"))
        counts = actual if training is None else training.sum(axis=0)
        lacks_rare = are_rare(counts, (actual > 0) & (predicted == 0))
        return Facts((*sentences, *never), lacks_classes=bool(never), is_wide=is_wide, lacks_rare=lacks_rare)

    def terms(self, name: str, predictions: Sequence[Any], references: Sequence[Any]) -> MeanDecomposition | None:
        return terms_of(name, predictions, references)


class TableInference(TextInference):
    """Classification of the rows of tables, with thresholds of labels."""

    task: ClassificationTask
    column_settings = frozenset({"text_columns", "label_column", "label_separator"})

    def with_columns(self, columns: Mapping[str, Any]) -> Task:
        settings = self.task.settings
        names, trained = columns.get("text_columns") or settings.text_columns, settings.text_columns
        if trained and len(names) != len(trained):
            raise RecipeError(
                f"task.text_columns: {', '.join(names)}; {self.task.name} reads {counted(len(trained), 'column')} of "
                f"texts, such as {', '.join(trained)} in training"
            )
        labels = {columns.get("label_column", settings.label_column), "labels"} & set(names)
        if labels:
            raise RecipeError(f"task.text_columns: {min(labels)} is the name of the labels; give another column")
        return super().with_columns(columns)

    def with_threshold(self, threshold: float) -> Task:
        return self.task.with_threshold(threshold)


class StockInference(TableInference):
    """Classification by a checkpoint that does not record its columns."""

    def read_fields(self, fields: Mapping[str, str | Sequence[str]]) -> dict[str, list[str]]:
        """Converts ``text``, and for pairs ``text_pair``, to columns."""
        if sorted(fields) not in _FIELDS:
            raise DataError(f"{self.task.name}: expected text, or text and text_pair, got {', '.join(fields)}")
        columns = {name: [each] if isinstance(each, str) else list(each) for name, each in sorted(fields.items())}
        if len({len(texts) for texts in columns.values()}) > 1:
            texts, pairs = columns.values()
            raise DataError(f"{counted(len(texts), 'text')}, {counted(len(pairs), 'second text')}; expected as many")
        return columns


task_inference.register(TextClassification, TextInference)
task_inference.register(ClassificationTask, TableInference)
task_inference.register(StockClassification, StockInference)


# ---- numbers --------------------------------------------------------------------------------------------------------


def numbers_in_words(
    predicted: np.ndarray, true: np.ndarray, training: np.ndarray | None, texts: np.ndarray | None = None
) -> Facts:
    """Returns the facts of predicted numbers (N,).

    Args:
        predicted, true: (N,).
        training: numbers of the training examples; None if unknown.
        texts: as of `right_of_all`.
    """
    errors = np.abs(predicted - true)
    middle = float(np.median(true if training is None else training))
    of = "of these examples" if training is None else "of the training set"
    terms = MeanDecomposition(errors[:, None], lambda mean: mean, (0.0, np.inf))
    line = f"{score_in_words('The mean absolute error is', float(errors.mean()), interval_of(terms, texts))} of "
    line += f"{counted(len(true), 'example', form=',')}; always guessing {amount(middle, 4)}, the median {of}, gives "
    sentences = [f"{line}{float(np.abs(true - middle).mean()):.4f}."]
    own, expected = float(predicted.std()), float(true.std())
    if hardly_differ := own < _HARDLY * expected:
        sentences.append(
            f"The predictions hardly differ between examples: their standard deviation is {amount(own, 2)}, that "
            f"of the true numbers {amount(expected, 2)}."
        )
    return Facts(tuple(sentences), learnt_little=hardly_differ)
