"""Text classification and regression over HTTP and on a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from bertkit.features.serving.requests import Strict
from bertkit.features.serving.served import Served, View, served
from bertkit.inference.options import UNSURE
from bertkit.runtime.errors import DataError
from bertkit.tasks.base import Outputs, one_array, softmax
from bertkit.tasks.classification.decisions import sigmoid
from bertkit.tasks.classification.stock import StockClassification
from bertkit.tasks.classification.text_classification import MOST_PROBABLE, TextClassification, largest
from bertkit.tasks.splits import Columns


class TextPair(Strict):
    """One input: a text, or for pairs two."""

    text: str
    text_pair: str | None = None


class Parameters(Strict):
    """The ``parameters`` of a request.

    Attributes:
        top_k: number of labels in an answer, the most probable; ``None`` is 10, and all that are predicted.
        function_to_apply: function from logits to scores; ``None`` is that of `bertkit predict`.
    """

    top_k: Annotated[int, Field(ge=1)] | None = None
    function_to_apply: Literal["sigmoid", "softmax", "none"] | None = None


class ServedClassification(Served):
    """Classification of texts or pairs, and regression."""

    task: TextClassification
    input_type = str | TextPair
    parameters = Parameters
    nests = True
    classifies_texts = True
    usual_function: Literal["sigmoid"] | None = None  # from logits to scores; None is that of the task

    def __init__(self, task: TextClassification):
        super().__init__(task)
        self.fields = list(task.settings.text_columns)
        self.shows = "line" if task.problem_type == "regression" else "bars"
        self.reads_whole_texts = task.data.long_text == "chunk"
        self.ranks_texts = len(self.fields) == 2 and len(task.settings.label_names) <= 1

    def input_of(self, texts: Sequence[str]) -> TextPair:
        return TextPair(**dict(zip(TextPair.model_fields, texts, strict=False)))

    def columns(self, inputs: Sequence[str | TextPair]) -> dict[str, list[Any]]:
        rows = []
        for each in inputs:
            if isinstance(each, str):
                rows.append(each.split("\t") if len(self.fields) == 2 else [each])
            else:
                rows.append([each.text] if each.text_pair is None else [each.text, each.text_pair])
        return self._by_column(rows)

    def _by_column(self, rows: Sequence[Sequence[str]]) -> dict[str, list[str]]:
        for number, row in enumerate(rows, start=1):
            if len(row) != len(self.fields):
                form = '{"text": …, "text_pair": …}' if len(self.fields) == 2 else "a text"
                names = " and ".join(self.fields)
                raise DataError(f"input {number}: expected {form}, since this checkpoint reads {names}")
        return {name: [row[position] for row in rows] for position, name in enumerate(self.fields)}

    def answers(self, outputs: Outputs, features: Columns, examples: Columns, parameters: Parameters) -> list[Any]:
        """Returns for each example ``label`` and ``score`` of the best labels in descending order.

        With thresholds, for multi-label problems, and where predictions may be unsure, ``predicted`` says which labels
        `bertkit predict` gives; without ``top_k`` all of these are in the answer.
        """
        logits, names = one_array(outputs), self._label_names()
        function = parameters.function_to_apply or self.usual_function
        if function == "none" or (function is None and self.task.problem_type == "regression"):
            scores = logits
        elif function is None:
            scores = self.task.probabilities(logits)
        else:
            scores = sigmoid(logits) if function == "sigmoid" else softmax(logits)
        of_rows = [np.arange(0)] * len(scores)
        says_predicted = self.task.has_thresholds or self.options.unsure_below is not None
        if says_predicted:
            of_rows = self._label_ids(logits)
        answers = []
        for row, predicted in zip(scores, of_rows, strict=True):
            best = largest(row, parameters.top_k or MOST_PROBABLE, also=() if parameters.top_k else predicted)
            answers.append([{"label": names[label], "score": float(row[label])} for label in best])
            if says_predicted:
                for label, answer in zip(best, answers[-1], strict=True):
                    answer["predicted"] = bool(label in predicted)
        return answers

    def _label_ids(self, logits: np.ndarray) -> list[np.ndarray]:
        """Returns the ids of the labels of each row that `bertkit predict` gives; none of a row that is unsure."""
        labels = self.task.predicted(logits)  # of one class each, or a column for each label
        if labels.ndim == 2:
            return [np.flatnonzero(row) for row in labels]
        names, rows = self._label_names(), self.task.probabilities(logits)
        return [
            labels[:0] if self.options.is_unsure(names[label], float(row[label])) else np.array([label])
            for row, label in zip(rows, labels, strict=True)
        ]

    def _label_names(self) -> Sequence[str]:
        # A stock regression records no column; transformers names its output so.
        return self.task.settings.label_names or [self.task.settings.label_column or "LABEL_0"]

    def view(self, prediction: Mapping[str, Any], texts: Sequence[str]) -> View:
        if "score" in prediction:
            return View(f"{prediction['score']:.4f}")
        bars = dict(sorted(prediction["probabilities"].items(), key=lambda each: -each[1]))
        title = prediction["label"] if "label" in prediction else ", ".join(prediction["labels"]) or "no label"
        if title == UNSURE and prediction.get("best_label", UNSURE) != UNSURE:
            title = f"{UNSURE}; the most probable is {prediction['best_label']}"
        return View(title, bars)


class ServedStockClassification(ServedClassification):
    """Classification by a checkpoint that does not record its columns: nothing says that it reads no pairs."""

    task: StockClassification

    def __init__(self, task: StockClassification):
        super().__init__(task)
        self.fields = ["text", "text_pair"] if task.reads_pairs else ["text"]
        self.ranks_texts = len(task.settings.label_names) <= 1

    def _by_column(self, rows: Sequence[Sequence[str]]) -> dict[str, list[str]]:
        if all(len(row) == 2 for row in rows):
            return {"text": [row[0] for row in rows], "text_pair": [row[1] for row in rows]}
        return super()._by_column(rows)


served.register(TextClassification, ServedClassification)
served.register(StockClassification, ServedStockClassification)
