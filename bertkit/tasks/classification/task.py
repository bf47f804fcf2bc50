"""Classification of anybody's own table: one class a row, several, or a number, for a text or a pair of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from bertkit.errors import DataError, noted, raise_all
from bertkit.tables import Table
from bertkit.tables.columns import label_column, text_columns
from bertkit.tables.labels import (
    Problem,
    class_ids,
    class_names,
    class_sets,
    is_missing,
    named,
    problem_of,
    separated,
    texts,
)
from bertkit.tables.splitting import repeated
from bertkit.tasks.arrays import Outputs
from bertkit.tasks.classification.text_classification import ProblemType, TextClassification, TextData
from bertkit.tasks.splits import Columns, Split
from bertkit.tasks.table_data import TableData, TableTask, write_numbered

_METRICS = {
    "single_label": ("classification", "accuracy"),
    "multi_label": ("multi_label", "f1_micro"),
    "regression": ("regression", "pearson"),
}


@dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """What a table's columns are. What is left open here is found in the training data, and kept in the checkpoint.

    Attributes:
        name: what results call it.
        problem: one class a row, several, or a number; ``None`` tells by the form of the labels.
        text_columns: one column, or two of pairs; none are found by their usual names.
        label_column: of the class, the list of classes or the number; ``None`` is found by its usual name.
        label_separator: what parts several classes in one field of a CSV or TSV file.
        label_names: the classes; none are those of the training data.
    """

    name: str = "classification"
    problem: Problem | None = None
    text_columns: list[str] = field(default_factory=list)
    label_column: str | None = None
    label_separator: str | None = None
    label_names: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if len(self.text_columns) > 2:
            raise ValueError(f"text_columns: expected one, or two of pairs, got {', '.join(self.text_columns)}")
        if len(set(self.text_columns)) < len(self.text_columns):
            raise ValueError(f"text_columns: expected two of pairs, got {self.text_columns[0]} twice")
        if self.label_separator is not None and (not self.label_separator or self.problem not in (None, "multi_label")):
            raise ValueError(f"label_separator: {self.label_separator!r} is for several labels a row; leave it out")
        if self.problem == "regression" and self.label_names:
            raise ValueError("label_names: numbers have no classes; leave them out, or problem: regression")

    @property
    def metric(self) -> str:
        """A name of ``bertkit.metrics``."""
        return _METRICS[self.problem or "single_label"][0]


@dataclass(frozen=True, kw_only=True)
class DataSettings(TextData, TableData):
    """Where the rows come from, and what happens to long texts."""

    kept: ClassVar[tuple[str, ...]] = (*TextData.kept, *TableData.kept)


class ClassificationTask(TableTask, TextClassification):
    """Classes, several classes or a number for the texts of a table."""

    kind = "classification"
    settings = TaskSettings
    data_settings = DataSettings
    task: TaskSettings
    data: DataSettings

    @property
    def main_metric(self) -> str:  # type: ignore[override]
        return _METRICS[self.task.problem or "single_label"][1]

    @property
    def problem_type(self) -> ProblemType:
        if self.task.problem == "regression":
            return "regression"
        return "multi_label_classification" if self.task.problem == "multi_label" else "single_label_classification"

    def load(self, splits: Sequence[str] | None = None) -> tuple[Self, dict[str, Split]]:
        splits = self.splits if splits is None else splits
        tables = self.data.tables(splits)
        if not tables:
            return self, {}
        first = next(iter(tables))  # the training set, where it is read
        task = self._with_columns(tables[first]) if first == "train" or not self._settled else self
        tables = {name: task._readable(table) for name, table in tables.items()}
        faults: list[str] = []
        if not task._settled:
            task = task._with_classes(tables[first], faults)
        found: dict[str, Split] = {}
        for name, table in tables.items():
            with noted(faults):
                found[name] = task._split_of(name, table)
        raise_all(faults)
        labels = found["train"].examples["labels"][:] if "train" in found else []
        task, found = task._with_validation(splits, found, labels if task.task.problem == "single_label" else None)
        if "train" in found and "validation" in found:
            found["validation"] = task._compared(found["train"], found["validation"])
        return task, task._limited(splits, found)

    @property
    def _settled(self) -> bool:
        """Whether nothing is open any more, as in a checkpoint; then a test set may lack the column of the labels."""
        task = self.task
        classes = task.label_names or task.problem == "regression"
        return bool(task.problem and task.text_columns and task.label_column and classes)

    def _with_columns(self, table: Table) -> Self:
        """Returns the task with the names of the table's columns."""
        names = list(table.columns)
        label = label_column(names, self.task.label_column, table.source)
        text = text_columns(names, self.task.text_columns, label, table.source)
        if "labels" in text:
            raise DataError(f"{table.source}: a column of texts cannot be named 'labels'; rename it")
        return self.with_settings(text_columns=text, label_column=label)

    def _readable(self, table: Table) -> Table:
        """The table with classes by their names, and lists where a row has several."""
        column = str(self.task.label_column)
        if column not in table.columns:  # a test set may lack it; elsewhere it will be missed
            return table
        if self.task.label_separator is not None:
            return separated(table, column, self.task.label_separator)
        return named(table, column)

    def _with_classes(self, table: Table, faults: list[str]) -> Self:
        """Returns the task with the problem and the classes of the training data; faults of all labels are added."""
        label = str(self.task.label_column)
        values = table.columns[label]
        problem = self.task.problem or problem_of(values)
        if problem == "regression" and self.task.label_names:
            problem = "single_label"  # numbers that were given as the names of classes
        if problem == "regression":
            return self.with_settings(problem=problem)
        classes = self.task.label_names or list(table.class_names.get(label, ())) or class_names(values)
        if problem == "single_label" and len(classes) == 1:
            faults.append(f"{table.source}: every row has the label {classes[0]!r}; expected at least two classes")
        elif not classes:
            faults.append(f"{table.source}: no row has a label in {label!r}")
        return self.with_settings(problem=problem, label_names=classes)

    def _split_of(self, name: str, table: Table) -> Split:
        """The examples of a table: its texts, and ``labels`` unless it is a test set without."""
        from datasets import Dataset

        columns: dict[str, list[Any]] = {}
        faults: list[str] = []
        for column in self.task.text_columns:
            with noted(faults):
                columns[column] = texts(table, column)
        if name != "test" or self._has_labels(table):
            with noted(faults):
                columns["labels"] = self._labels(table)
        raise_all(faults)
        return Split(Dataset.from_dict(columns), table.source, table.fingerprint)

    def _has_labels(self, table: Table) -> bool:
        """Whether a test set has labels: a column that is empty throughout is none."""
        values = table.columns.get(str(self.task.label_column), ())
        return not all(value == [] or is_missing(value) for value in values)

    def _labels(self, table: Table) -> list[Any]:
        column = str(self.task.label_column)
        if self.task.problem == "regression":
            return table.numbers(column)
        ids = class_sets if self.task.problem == "multi_label" else class_ids
        return ids(table, column, self.task.label_names)

    def _compared(self, train: Split, validation: Split) -> Split:
        """The validation set, with a note of the rows whose texts also stand in the training set."""
        columns = self.task.text_columns
        both = repeated(*([split.examples[column][:] for column in columns] for split in (train, validation)))
        if not both:
            return validation
        first = validation.examples[both[0]][columns[0]]
        note = (
            f"warning: the texts of {len(both)} of {len(validation.examples)} rows also stand in the training set, "
            f"which makes the scores too good; the first is {first[:60]!r}"
        )
        return replace(validation, notes=(*validation.notes, note))

    def write_predictions(
        self, split: str, outputs: Outputs, features: Columns, examples: Columns, folder: Path
    ) -> Path:
        return write_numbered(folder, self.decode(outputs, features, examples))
