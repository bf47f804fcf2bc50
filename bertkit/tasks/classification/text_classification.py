"""Base class for classification and regression of a text or a pair of texts (BERT §4.1); see `glue` and `task`.

The model reads [CLS] A [SEP] B [SEP]; a linear layer reads the pooled [CLS].

Dimension letters: N inputs, B examples of a batch, W windows of a batch, S tokens, C classes.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from bertkit import metrics
from bertkit.data.reading.row_files import GIVE_TEXT_COLUMN, missing_column
from bertkit.data.tables.labels import texts
from bertkit.model.checkpoint.encoders import label_fields
from bertkit.runtime.errors import DataError, RecipeError
from bertkit.runtime.options import option
from bertkit.tasks.base import (
    Outputs,
    PerExampleTask,
    Task,
    labels_of,
    one_array,
    padded,
    softmax,
    texts_of,
    truncation_hint,
)
from bertkit.tasks.classification.decisions import sigmoid
from bertkit.tasks.splits import Columns, WindowedData
from bertkit.tasks.windows import cut_rows, encode_in_windows

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from bertkit.data.tables import Table

MOST_PROBABLE = 10
"""Labels whose probabilities a prediction holds, unless it is asked for all."""

NOT_IN_TRAINING = "(not in training)"
"""Name of the true class of a row whose class no training row has, for readers; its id is `IGNORE_INDEX`."""

ProblemType = Literal["single_label_classification", "multi_label_classification", "regression"]


@dataclass(frozen=True, kw_only=True)
class TextData(WindowedData):
    """The ``data`` block of text classification."""

    kept: ClassVar[tuple[str, ...]] = (*WindowedData.kept, "long_text", "pooling")

    max_seq_length: int = option(
        "Maximum number of tokens of an input; longer inputs are truncated and counted. 0: 128, or those of the "
        "longest training text, up to 512.",
        default=128,
        ge=0,
        le=2**20,
    )
    long_text: Literal["cut", "chunk"] = option(
        "Treatment of texts of more than `max_seq_length` tokens: `cut` truncates them; `chunk` encodes "
        "overlapping windows of that length and pools their [CLS] vectors for one prediction per text, trained "
        "end to end.",
        default="cut",
        rare=True,
    )
    pooling: Literal["mean", "max"] | None = option(
        "Pooling of the windows of a text; `mean` by default.", default=None, rare=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if 0 < self.max_seq_length < 3:  # [CLS], a token and [SEP]
            raise ValueError(f"max_seq_length: expected 3 to {2**20}, or 0, got {self.max_seq_length}")
        if self.long_text == "cut":
            for name in ("stride", "pooling"):
                if getattr(self, name) is not None:
                    raise ValueError(
                        f"{name}: {getattr(self, name)!r} needs long_text: chunk; set it, or remove {name}"
                    )
        elif self.max_seq_length:
            self.check_overlap()


class TextClassification(PerExampleTask):
    """Classification or regression of a text or a pair of texts.

    Its ``settings`` have ``name``, ``text_columns`` (one or two), ``label_names`` (none for regression),
    ``label_column`` and ``metric``.

    Attributes:
        all_probabilities: whether predictions hold the probability of every label, however many there are.
    """

    head = "BertForSequenceClassification"
    pipeline_tag = "text-classification"
    data: TextData
    all_probabilities: bool = False

    @property
    def problem_type(self) -> ProblemType:
        """Problem type of the labels, as in transformers' configuration."""
        return "single_label_classification" if self.settings.label_names else "regression"

    def config(self) -> dict[str, Any]:
        if not self.settings.text_columns:
            raise ValueError("task.text_columns: none; the data or a complete checkpoint name one or two")
        names = self.settings.label_names or [self.settings.label_column]
        return {**label_fields(names), "problem_type": self.problem_type}

    # ---- encode -----------------------------------------------------------------------------------------------------

    def encode(self, examples: Columns, tokenizer: PreTrainedTokenizerBase) -> dict[str, list[Any]]:
        texts = [list(examples[column]) for column in self.settings.text_columns]
        features = self._windows(texts, tokenizer) if self.data.long_text == "chunk" else self._cut(texts, tokenizer)
        if "labels" in examples:
            features["labels"] = list(examples["labels"])
        return features

    def _cut(self, texts: list[list[str]], tokenizer: PreTrainedTokenizerBase) -> dict[str, list[Any]]:
        whole = dict(tokenizer(*texts, truncation=False, padding=False, return_token_type_ids=True, verbose=False))
        full_lengths = [len(ids) for ids in whole["input_ids"]]
        long = [row for row, length in enumerate(full_lengths) if length > self.data.max_seq_length]
        if long:
            rows = cut_rows([[column[row] for column in texts] for row in long], tokenizer, self.data.max_seq_length)
            cut = tokenizer(
                *map(list, zip(*rows, strict=True)),
                truncation=True,
                max_length=self.data.max_seq_length,
                padding=False,
                return_token_type_ids=True,
            )
            for name, column in whole.items():
                for row, values in zip(long, cut[name], strict=True):
                    column[row] = values
        return {**whole, "length": [len(ids) for ids in whole["input_ids"]], "full_length": full_lengths}

    def _windows(self, texts: list[list[str]], tokenizer: PreTrainedTokenizerBase) -> dict[str, list[Any]]:
        """Encodes texts in windows; every column except the lengths holds a list of windows per text."""
        if len(texts) != 1:
            raise RecipeError(
                f"data.long_text: chunk is for single texts, and {self.name} has pairs "
                f"({', '.join(self.settings.text_columns)}); remove it"
            )
        encoded = encode_in_windows(texts[0], tokenizer, self.data.max_seq_length, self.data.overlap)
        features: dict[str, list[Any]] = {
            name: [[window[name] for window in text.inputs] for text in encoded] for name in encoded[0].inputs[0]
        }
        features["length"] = [sum(map(len, windows)) for windows in features["input_ids"]]
        return {**features, "full_length": features["length"]}

    def collate(
        self, rows: Sequence[Mapping[str, Any]], tokenizer: PreTrainedTokenizerBase, inputs: Sequence[str]
    ) -> dict[str, Tensor]:
        """Collates as `Task.collate`; windows are (W, S), with ``window_counts`` (B,) int64, the windows of each
        text."""
        if self.data.long_text == "cut":
            return super().collate(rows, tokenizer, inputs)
        import torch

        windows = [
            dict(zip(inputs, window, strict=True))
            for row in rows
            for window in zip(*(row[name] for name in inputs), strict=True)
        ]
        counts = torch.tensor([len(row["input_ids"]) for row in rows])
        return labels_of(rows) | {"window_counts": counts} | dict(padded(windows, tokenizer, inputs))

    def prepare(self, model: PreTrainedModel) -> None:
        if self.data.long_text == "chunk":
            from bertkit.tasks.classification.pooling import pool_windows

            pool_windows(model, self.data.pooling or "mean")

    # ---- decode → score ---------------------------------------------------------------------------------------------

    def decode(self, outputs: Outputs, features: Columns, examples: Columns) -> list[dict[str, Any]]:
        """Converts logits (N, C) to predictions.

        Single-label: ``label``, its ``probability``, and ``probabilities``. Multi-label: ``labels`` and
        ``probabilities``. Regression: ``score``. `predicted` determines the labels. ``probabilities`` holds all labels
        in the order of their ids if they are at most `MOST_PROBABLE` or the task has ``all_probabilities``; otherwise
        the most probable ones and every predicted label, the most probable first.
        """
        logits, names = one_array(outputs), self.settings.label_names
        if self.problem_type == "regression":
            return [{"score": float(value)} for value in logits[:, 0]]
        predicted, probabilities = self.predicted(logits), self.probabilities(logits)
        if self.problem_type == "multi_label_classification":
            labels_of_rows = list(map(np.flatnonzero, predicted))
            return [
                {"labels": [names[label] for label in labels], "probabilities": self._named(row, labels)}
                for labels, row in zip(labels_of_rows, probabilities, strict=True)
            ]
        return [
            {"label": names[label], "probability": float(row[label]), "probabilities": self._named(row)}
            for label, row in zip(predicted, probabilities, strict=True)
        ]

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """Computes the probabilities of the labels, (N, C)."""
        return sigmoid(logits) if self.problem_type == "multi_label_classification" else softmax(logits)

    def predicted(self, logits: np.ndarray) -> np.ndarray:
        """Returns the predicted class ids (N,), or for several labels 1 for each predicted label, (N, C) int64.

        These are the most probable class, or the labels with a probability of at least 0.5.
        """
        if self.problem_type == "multi_label_classification":
            return (logits >= 0).astype(np.int64)
        return logits.argmax(axis=-1)

    @property
    def has_thresholds(self) -> bool:
        """Returns whether the most probable label may differ from the predicted one."""
        return self.problem_type == "multi_label_classification"

    def with_all_probabilities(self) -> Self:
        """Returns a copy of the task whose predictions hold the probability of every label."""
        changed = copy.copy(self)
        changed.all_probabilities = True
        return changed

    @property
    def leaves_out_labels(self) -> bool:
        """Returns whether predictions hold the probabilities of some labels only, which differ between rows."""
        return not self.all_probabilities and len(self.settings.label_names) > MOST_PROBABLE

    def _named(self, probabilities: np.ndarray, predicted: Sequence[int] | np.ndarray = ()) -> dict[str, float]:
        """Returns those of the probabilities (C,) that a prediction holds, by label: if some are left out, the highest
        and those of the predicted labels."""
        kept = np.arange(len(probabilities))
        if self.leaves_out_labels:
            kept = largest(probabilities, MOST_PROBABLE, also=predicted)
        names = [self.settings.label_names[label] for label in kept]
        return dict(zip(names, map(float, probabilities[kept]), strict=True))

    def predictions_and_references(self, outputs: Outputs, features: Columns, examples: Columns) -> tuple[Any, Any]:
        """Returns class ids (N,), 0 and 1 per class (N, C), or numbers (N,)."""
        logits, labels = one_array(outputs), np.asarray(features["labels"])
        predictions = logits[:, 0] if self.problem_type == "regression" else self.predicted(logits)
        if self.problem_type == "multi_label_classification":
            labels = labels.astype(np.int64, copy=False)
        return predictions, labels

    def compute_metrics(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        return metrics.compute(self.settings.metric, predictions, references)

    def to_labels(self, values: Sequence[Any]) -> list[Any]:
        names = self.settings.label_names
        if self.problem_type == "multi_label_classification":
            return [[names[label] for label in np.flatnonzero(row)] for row in values]
        return [(names[int(value)] if value >= 0 else NOT_IN_TRAINING) if names else float(value) for value in values]

    def read_input(self, lines: Sequence[str], first: int = 1) -> dict[str, list[str]]:
        columns = self.settings.text_columns
        if len(columns) == 1:
            return {columns[0]: list(lines)}
        pairs = [line.split("\t") for line in lines]
        for number, pair in enumerate(pairs, first):
            if len(pair) != 2 or not all(text.strip() for text in pair):
                given = lines[number - first][:60]
                raise DataError(f"input {number}: expected two texts separated by a tab, none empty, got {given!r}")
        return {column: [pair[position] for pair in pairs] for position, column in enumerate(columns)}

    def columns_of(self, table: Table) -> dict[str, list[str]]:
        table = table.with_names(self.settings.text_columns)
        for column in self.settings.text_columns:
            if column not in table.columns:
                raise DataError(f"{table.source}: {missing_column(column, table.columns, GIVE_TEXT_COLUMN)}")
        return {column: list(texts(table, column)) for column in self.settings.text_columns}


def largest(values: np.ndarray, number: int, also: Sequence[int] | np.ndarray = ()) -> np.ndarray:
    """Returns the indices of the largest values and of others, those of the largest first; of equal values, the first
    ones.

    Args:
        values: (C,), without NaN.
        number: how many; all if there are fewer.
        also: indices that are returned too if their values are not among the largest.

    >>> largest(np.array([0.1, 0.4, 0.1, 0.4]), 3)
    array([1, 3, 0])
    >>> largest(np.array([0.1, 0.4, 0.1, 0.4]), 2, also=[3, 2])
    array([1, 3, 2])
    """
    candidates = np.arange(len(values))
    if number < len(values):
        candidates = np.flatnonzero(values >= np.partition(values, -number)[-number])  # more than `number` if equal
    found = candidates[np.argsort(-values[candidates], kind="stable")[:number]]
    others = np.setdiff1d(np.asarray(also, dtype=np.int64), found)
    return np.concatenate([found, others[np.argsort(-values[others], kind="stable")]])


@texts_of.register(TextClassification)
def _(task: TextClassification, examples: Columns) -> dict[str, list[str]]:
    return {column: list(examples[column]) for column in task.settings.text_columns}


@truncation_hint.register(TextClassification)
def _(task: TextClassification) -> str:
    if len(task.settings.text_columns) == 1 and task.data.long_text == "cut":
        longer = "a larger --max-seq-length cuts less if the encoder reads more"
        return f"{longer}, --long-text chunk cuts nothing; both take longer"
    return truncation_hint.dispatch(Task)(task)
