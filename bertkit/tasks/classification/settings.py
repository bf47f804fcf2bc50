"""Settings of the classification of a table: columns, labels, and decisions that are fitted to a validation set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from bertkit.data.tables import Table
from bertkit.data.tables.annotated import keep_accepted
from bertkit.data.tables.labels import Problem
from bertkit.metrics import MetricSettings
from bertkit.runtime.errors import did_you_mean
from bertkit.runtime.options import check_different, check_ranges, option, setting
from bertkit.tasks.classification.decisions import (
    MOST_CLASSES,
    MULTI_LABEL,
    OF_A_CLASS,
    SINGLE_LABEL,
    Temperature,
    Threshold,
    key_of_class,
)
from bertkit.tasks.classification.text_classification import TextData
from bertkit.tasks.table_data import TableData

METRICS = {
    "single_label": ("classification", "accuracy", SINGLE_LABEL),
    "multi_label": ("multi_label", "average_precision", MULTI_LABEL),  # F1 at 0.5 is 0 for long if labels are sparse
    "regression": ("regression", "pearson", ("pearson", "spearmanr")),
}
"""Problem → its name in ``bertkit.metrics``, the usual main metric, and the scores that may be it."""


@dataclass(frozen=True, kw_only=True)
class TaskSettings(MetricSettings):
    """Columns and labels. Values that are not set are derived from the training data and stored in the checkpoint."""

    name: str = setting("Name of the task in results.", default="classification")
    problem: Problem | None = option(
        "Kind of the labels; by default inferred from their values.", default=None, rare=True
    )
    text_columns: list[str] = option(
        "Text column, two for a pair; by default one with a usual name.", factory=list, flag="--text-column"
    )
    label_column: str | None = option(
        "Column of the class, the list of classes or the number; by default one with a usual name.", default=None
    )
    label_separator: str | None = option(
        "Separator of several classes in one field of a CSV or TSV file.", default=None, rare=True
    )
    label_names: list[str] = setting("The class names; an empty list uses those of the training data.", factory=list)
    main_metric: str | None = option(
        "Score by which the best checkpoint is chosen, such as `f1_macro` or `roc_auc`; by default accuracy, "
        "average precision for several labels, and Pearson's r for numbers.",
        default=None,
        rare=True,
    )
    threshold: Threshold | None = setting(
        "Probability from which a label is predicted, for several labels per row and for two classes: one "
        "number, a number for each label (others 0.5), or `tuned`, the one with the highest F1 on the validation "
        "set: one for all labels together, or one for each with `main_metric: f1_macro`. By default `tuned` for "
        "several labels per row, and 0.5 for two classes. Of two classes, the threshold is that of the second one.",
        default=None,
    )
    calibrate: bool | None = setting(
        "Divide the logits by a temperature that is fitted to the validation set (Guo et al. 2017). This "
        "changes probabilities, but not which label is the most probable. `null` does it if that set has at least "
        "50 examples.",
        default=None,
    )
    temperature: Temperature | None = setting(
        "The temperature, or one for each of several labels per row; `null` until it is fitted, and 1 if the weights "
        "of the last layer are divided by it.",
        default=None,
    )

    def __post_init__(self) -> None:
        if len(self.text_columns) > 2:
            raise ValueError(f"text_columns: expected one, or two for pairs, got {', '.join(self.text_columns)}")
        if len(set(self.text_columns)) < len(self.text_columns):
            raise ValueError(
                f"text_columns: expected two different columns for pairs, got {self.text_columns[0]} twice"
            )
        check_different("label_names", self.label_names)
        if self.label_separator == "":
            raise ValueError("label_separator: expected at least one character, such as ';', got ''")
        if self.label_separator is not None and self.problem not in (None, "multi_label"):
            raise ValueError(f"label_separator: {self.label_separator!r} is for several labels per row; remove it")
        if self.problem == "regression" and self.label_names:
            raise ValueError("label_names: numbers have no classes; remove them, or problem: regression")
        threshold, temperature = self.threshold, self.temperature
        if isinstance(threshold, str) and threshold != "tuned":
            raise ValueError(f"threshold: expected a number, tuned, or a number for each label, got {threshold!r}")
        if threshold is not None and not isinstance(threshold, str):
            numbers = threshold.values() if isinstance(threshold, Mapping) else [threshold]
            if not all(0 < number < 1 for number in numbers):
                raise ValueError(f"threshold: expected numbers between 0 and 1, got {threshold}")
        if temperature is not None:
            numbers = temperature.values() if isinstance(temperature, Mapping) else [temperature]
            if not all(number > 0 for number in numbers):
                raise ValueError(f"temperature: expected numbers greater than 0, got {temperature}")
        check_ranges(self)

    @property
    def metric(self) -> str:
        """Name of the metric in ``bertkit.metrics``."""
        return METRICS[self.problem or "single_label"][0]

    @property
    def score_to_compare(self) -> str:
        """Name of the score by which checkpoints are compared: ``main_metric``, or that of the problem."""
        problem, given = self.problem or "single_label", self.main_metric
        if given is None:
            return METRICS[problem][1]
        name, _, score = given.rpartition("_")  # the form of earlier versions, which their checkpoints have
        is_of_class = given not in METRICS[problem][2] and name in self.label_names and score in OF_A_CLASS
        return key_of_class(name, score) if is_of_class else given

    # ---- what the problem and the classes of the data exclude --------------------------------------------------------

    def fault_of_main_metric(self) -> str:
        """Returns what is wrong with a main metric that is not a score of the problem; empty for one that is."""
        known, score = [*METRICS[self.problem or "single_label"][2]], self.score_to_compare
        if len(self.label_names) <= MOST_CLASSES:
            known += [key_of_class(name, of_class) for name in self.label_names for of_class in OF_A_CLASS]
        if score in known:
            return ""
        return (
            f"task.main_metric: {self.main_metric!r} is not a score of this task; expected one of "
            f"{', '.join(known)}{did_you_mean(score, known)}"
        )

    def why_no_threshold(self) -> str:
        """Returns why the problem and its classes have no threshold; empty if they have one."""
        problem, classes = self.problem or "single_label", len(self.label_names)
        if problem == "regression":
            return "task.threshold: numbers have no labels; remove it"
        if problem == "single_label" and classes > 2:
            return (
                f"task.threshold: for two classes, or for several labels per row; this task has {classes} classes, and "
                "the most probable one is predicted; remove it"
            )
        return ""

    def faults_of_classes(self) -> list[str]:
        """Returns the faults of settings that depend on the problem and the classes."""
        problem = self.problem or "single_label"
        faults = []
        if problem == "regression":
            given = [name for name in ("calibrate", "temperature") if getattr(self, name)]
            faults += [f"task.{name}: numbers have no labels; remove it" for name in given]
        if (self.threshold or 0.5) != 0.5 and (fault := self.why_no_threshold()):
            faults.append(fault)
        elif problem == "single_label" and isinstance(self.threshold, Mapping) and len(self.threshold) > 1:
            faults.append("task.threshold: of two classes, only one has a threshold; remove the other")
        for name in ("threshold", "temperature"):
            of_labels = getattr(self, name) if isinstance(getattr(self, name), Mapping) else {}
            if unknown := [label for label in of_labels if label not in self.label_names]:
                near = did_you_mean(unknown[0], self.label_names)
                faults.append(f"task.{name}: {unknown[0]!r} is no label of the training data{near}")
        return faults


@dataclass(frozen=True, kw_only=True)
class DataSettings(TextData, TableData):
    """Sources of the rows, and treatment of long texts."""

    kept: ClassVar[tuple[str, ...]] = (*TextData.kept, *TableData.kept)

    def _table(self, place: str) -> Table:
        return keep_accepted(super()._table(place))
