"""Options of predictions and of vectors: one value each, the same for texts, for a file and for a folder of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal

from bertkit.inference.abstaining import promise
from bertkit.inference.outcome import task_inference
from bertkit.runtime.errors import RecipeError
from bertkit.runtime.options import Range, several
from bertkit.runtime.placement.inference import Precision
from bertkit.tasks.base import Task

Pooling = Literal["cls", "mean", "max"]
"""Pooling of the token vectors of a text to one vector."""
UNSURE = "unsure"
"""Label of predictions whose probability is too low."""


@dataclass(frozen=True)
class PredictOptions:
    """Options of predictions.

    Attributes:
        all_probabilities: give the probability of every label, not only of the ten most probable ones.
        threshold: probability from which a label is predicted; None for the thresholds of the checkpoint.
        unsure_below: label predictions of a class with a lower probability `UNSURE`: one number, or one for each class;
            None for no such label.
        text_columns: columns of a table to read; None for those of the training.
        aggregation: how a token classifier that bertkit did not write joins tokens to entities; None for its default.
        precision: as for `bertkit.load`.
        max_error: answer as many rows as possible so that at most this share of the answers is wrong, and label others
            `UNSURE`; None for no such promise. `with_thresholds` turns it into ``unsure_below``.
        by_class: keep ``max_error`` among the answers of each class.
    """

    all_probabilities: bool = False
    threshold: float | None = None
    unsure_below: float | Mapping[str, float] | None = None
    text_columns: str | Sequence[str] | None = None
    aggregation: str | None = None
    precision: Precision = "auto"
    max_error: float | None = None
    by_class: bool = False

    def configure(self, task: Task) -> Task:
        """Returns a task with these options.

        Raises:
            RecipeError: the task does not have one of them, or a value is out of its range.
        """
        if columns := list(map(str, several(self.text_columns))):
            task = task_inference(task).with_columns({"text_columns": columns})
        if self.all_probabilities:
            task = task_inference(task).with_all_probabilities()
        if self.threshold is not None:
            task = task_inference(task).with_threshold(self.threshold)
        if self.by_class and self.max_error is None:
            raise RecipeError("--by-class: is for --max-error; give it, or remove this")
        if self.max_error is not None:
            for name, other in (("--unsure-below", self.unsure_below), ("--threshold", self.threshold)):
                if other is not None:
                    raise RecipeError(f"--max-error: chooses from which probability to answer; remove {name}")
            self._check_unsure(task, "--max-error", self.max_error, Range(gt=0, lt=1))
        if self.unsure_below is not None:
            self._check_unsure(task, "--unsure-below", self.unsure_below, Range(gt=0, le=1))
        return task

    def _check_unsure(self, task: Task, flag: str, value: Any, expected: Range) -> None:
        if not isinstance(value, Mapping) and not (isinstance(value, Real) and float(value) in expected):
            raise RecipeError(f"{flag}: expected {expected}, got {value!r}")
        if getattr(task, "problem_type", None) != "single_label_classification":
            raise RecipeError(f"{flag}: {task.name} does not predict one class per input; remove it")
        if UNSURE in task.settings.label_names:
            raise RecipeError(f"{flag}: {task.name} has a class named {UNSURE!r} already; remove the option")

    def with_thresholds(self, checkpoint: str, task: Task) -> tuple[PredictOptions, Sequence[str]]:
        """Returns options with ``unsure_below`` in the place of ``max_error``, and what is to be said of it.

        Args:
            checkpoint: the run directory of the task.
            task: the task, as `configure` returns it.

        Raises:
            BertkitError: as `bertkit.inference.abstaining.promise`.
        """
        if self.max_error is None:
            return self, ()
        kept = promise(checkpoint, task.settings.label_names, self.max_error, self.by_class)
        return replace(self, unsure_below=kept.unsure_below, max_error=None, by_class=False), kept.lines

    def is_unsure(self, label: str, probability: float) -> bool:
        """Returns whether the prediction of a class is unsure, by ``unsure_below``."""
        if isinstance(self.unsure_below, Mapping):
            return probability < self.unsure_below[label]
        return self.unsure_below is not None and probability < self.unsure_below

    def mark_unsure(self, predictions: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Returns predictions with the label `UNSURE` where `is_unsure` says so.

        ``best_label`` is the predicted class in all of them. Without ``unsure_below`` they are as they are.

        >>> PredictOptions(unsure_below=0.6).mark_unsure([{"label": "sales", "probability": 0.4}])
        [{'label': 'unsure', 'best_label': 'sales', 'probability': 0.4}]
        """
        if self.unsure_below is None:
            return predictions
        return [
            {
                "label": UNSURE if self.is_unsure(each["label"], each["probability"]) else each["label"],
                "best_label": each["label"],
            }
            | {name: value for name, value in each.items() if name != "label"}
            for each in predictions
        ]


@dataclass(frozen=True)
class EmbedOptions:
    """Options of vectors of texts; see `bertkit.inference.loaded.LoadedCheckpoint.embed`.

    Attributes:
        text_column: of a table; None for one of a usual name, of a folder of tables for ``text``.
        pooling: over the tokens of a text; None for that of the checkpoint.
        layers: whose vectors are joined end to end.
        max_seq_length: tokens of a window; None for as many as the model reads, at most 512.
        stride: tokens that neighbouring windows of a long text share; None for a quarter of a window.
        precision: as for `bertkit.load`.
    """

    text_column: str | None = None
    pooling: Pooling | Literal["none"] | None = None
    layers: Sequence[int] = (-1,)
    max_seq_length: int | None = None
    stride: int | None = None
    precision: Precision = "auto"
