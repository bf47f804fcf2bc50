"""Classification over HTTP and on a page, see `bertkit.tasks.served`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from bertkit.errors import DataError
from bertkit.tasks.arrays import MOST_PROBABLE, Outputs, largest, one_array, softmax
from bertkit.tasks.classification.decisions import sigmoid
from bertkit.tasks.served import Served, View
from bertkit.tasks.splits import Columns


@dataclass(frozen=True)
class TextPair:
    """One input: a text, or for pairs two."""

    text: str
    text_pair: str | None = None


@dataclass(frozen=True)
class Parameters:
    """The ``parameters`` of a request.

    Attributes:
        top_k: number of labels in an answer, the most probable; ``None`` is 10, and all that are predicted.
        function_to_apply: function from logits to scores; ``None`` is that of `bertkit predict`.
    """

    top_k: int | None = None
    function_to_apply: Literal["sigmoid", "softmax", "none"] | None = None

    def __post_init__(self) -> None:
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k: expected at least 1, got {self.top_k}")


class ServedClassification(Served):
    """Hooks of text classification and regression."""

    api_input = str | TextPair
    api_parameters = Parameters
    api_nests: ClassVar[bool] = True
    task: Any
    problem_type: Any
    probabilities: Any
    predicted: Any

    @property
    def has_thresholds(self) -> bool:
        """Returns whether the most probable label may differ from the predicted one."""
        return bool(self.problem_type == "multi_label_classification")

    def api_columns(self, inputs: Sequence[Any]) -> dict[str, list[Any]]:
        return self.classified_columns([_texts(each, len(self.served_columns)) for each in inputs])

    @property
    def served_columns(self) -> Sequence[str]:
        """Returns the names of the texts of an input: one, or two for pairs."""
        return list(self.task.text_columns)

    def classified_columns(self, rows: Sequence[Sequence[str]]) -> dict[str, list[Any]]:
        names = self.served_columns
        for number, row in enumerate(rows, start=1):
            if len(row) != len(names):
                form = '{"text": …, "text_pair": …}' if len(names) == 2 else "a text"
                raise DataError(f"input {number}: expected {form}, since this checkpoint reads {' and '.join(names)}")
        return {name: [row[position] for row in rows] for position, name in enumerate(names)}

    def api_answers(self, outputs: Outputs, features: Columns, examples: Columns, parameters: Any) -> list[Any]:
        """Returns for each example ``label`` and ``score`` of the best labels in descending order.

        With thresholds, and for multi-label problems, ``predicted`` says which labels `bertkit predict` gives; without
        ``top_k`` all of these are in the answer.
        """
        logits = one_array(outputs)
        names = self.task.label_names or [self.task.label_column]
        scores = self._scores(logits, parameters.function_to_apply)
        of_rows = self._predicted_labels(logits) if self.has_thresholds else [np.arange(0)] * len(scores)
        answers = []
        for row, predicted in zip(scores, of_rows, strict=True):
            best = largest(row, parameters.top_k or MOST_PROBABLE, also=() if parameters.top_k else predicted)
            answers.append([{"label": names[label], "score": float(row[label])} for label in best])
            if self.has_thresholds:
                for label, answer in zip(best, answers[-1], strict=True):
                    answer["predicted"] = bool(label in predicted)
        return answers

    def _scores(self, logits: np.ndarray, function: str | None) -> np.ndarray:
        if function == "none" or (function is None and self.problem_type == "regression"):
            return logits
        if function is None:
            scores: np.ndarray = self.probabilities(logits)
            return scores
        return sigmoid(logits) if function == "sigmoid" else softmax(logits)

    def _predicted_labels(self, logits: np.ndarray) -> list[np.ndarray]:
        predicted = self.predicted(logits)
        return [np.flatnonzero(row) for row in predicted] if predicted.ndim == 2 else list(predicted[:, None])

    @property
    def classifies_texts(self) -> bool:
        return True

    @property
    def ranks_texts(self) -> bool:
        return len(self.served_columns) == 2 and len(self.task.label_names) <= 1

    @property
    def page_fields(self) -> Sequence[str]:
        return self.served_columns

    @property
    def page_shows(self) -> Literal["line", "bars", "marks"]:
        return "line" if self.problem_type == "regression" else "bars"

    def page_columns(self, texts: Sequence[str]) -> dict[str, list[Any]]:
        return {name: [text] for name, text in zip(self.served_columns, texts, strict=True)}

    def view(self, prediction: Mapping[str, Any], texts: Sequence[str]) -> View:
        if "score" in prediction:
            return View(f"{prediction['score']:.4f}")
        bars = dict(sorted(prediction["probabilities"].items(), key=lambda each: -each[1]))
        title = prediction["label"] if "label" in prediction else ", ".join(prediction["labels"]) or "no label"
        return View(title, bars)


def _texts(given: Any, columns: int) -> list[str]:
    if isinstance(given, str):
        return given.split("\t") if columns == 2 else [given]
    return [given.text] if given.text_pair is None else [given.text, given.text_pair]
