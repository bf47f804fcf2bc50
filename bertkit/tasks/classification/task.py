"""Classification of texts or text pairs from user tables: single-label, multi-label, or regression."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from bertkit.data.tables import Table
from bertkit.data.tables.annotated import keep_answered, split_labels, unwrap_labels
from bertkit.data.tables.classes import (
    class_ids,
    class_sets,
    has_class,
    is_missing,
    other_classes_in_words,
    other_spellings,
    rows_of_other_classes,
)
from bertkit.data.tables.columns import label_and_text_columns
from bertkit.data.tables.labels import Labels, decide, labelled, texts
from bertkit.data.tables.splits import find_repeated
from bertkit.data.tables.table import to_number
from bertkit.metrics import expected_calibration_error
from bertkit.runtime.errors import DataError, RecipeError, noted, quoted, raise_all, shortened, shown
from bertkit.runtime.progress import counted
from bertkit.tasks.base import Outputs, one_array
from bertkit.tasks.classification.decisions import (
    best_temperatures,
    best_threshold,
    class_scores,
    key_of_class,
)
from bertkit.tasks.classification.settings import DataSettings as DataSettings
from bertkit.tasks.classification.settings import TaskSettings as TaskSettings
from bertkit.tasks.classification.text_classification import ProblemType, TextClassification
from bertkit.tasks.splits import Columns, ColumnsOf, Split
from bertkit.tasks.table_data import TableTask

_ENOUGH = 50  # validation examples that a temperature is fitted to unless the settings say so


class ClassificationTask(TableTask, TextClassification):
    """Single-label or multi-label classification, or regression, on the texts of a table."""

    kind = "classification"
    Settings = TaskSettings
    data_settings = DataSettings
    can_score_by_folds = True
    settings: TaskSettings
    data: DataSettings

    @property
    def main_metric(self) -> str:  # type: ignore[override]
        return self.settings.score_to_compare

    @property
    def problem_type(self) -> ProblemType:
        if self.settings.problem == "regression":
            return "regression"
        return "multi_label_classification" if self.settings.problem == "multi_label" else "single_label_classification"

    def load(self, splits: Sequence[str] | None = None) -> tuple[Self, dict[str, Split]]:
        splits = self.splits if splits is None else splits
        return self.load_tables(self.data.tables(splits), splits)

    def load_tables(self, tables: Mapping[str, Table], splits: Sequence[str]) -> tuple[Self, dict[str, Split]]:
        """Returns what `load` does, of tables that have been read: use, such as ``train``, → table."""
        if not tables:
            return self, {}
        first = next(iter(tables))  # the training set, if it is read
        task, choice = self, tuple[str, ...]()
        if not self._settled or (first == "train" and self._needs_labels("train")):
            has_both = first if self._needs_labels(first) or "validation" not in tables else "validation"
            task, choice = self._learn_columns(tables[has_both])
        tables = {name: task.readable(table) for name, table in tables.items()}
        faults, decided = list[str](), None
        if not task._settled or (first == "train" and task._has_labels(tables[first])):
            task, decided = task._learn_classes(tables[first], faults)
        faults += task.settings.faults_of_classes()
        # Checkpoints do not store further metrics, and the score of such a one is known after an evaluation.
        if not self._settled and not self.settings.metrics and (fault := task.settings.fault_of_main_metric()):
            faults.append(fault)
        found: dict[str, Split] = {}
        for name, table in tables.items():
            with noted(faults):
                found[name] = task._split_of(name, table)
        raise_all(faults)
        if decided is not None:
            split, line, line_of = found[first], decided.line, decided.line_of
            split = replace(split, line_on_labels=lambda part: line_of(part["labels"]))
            found[first] = replace(split, labels=line, notes=(*choice, line, *split.notes))
        if "validation" in splits and "validation" not in found:
            task, found = task.hold_out(found)
        elif "train" in found and "validation" in found:
            found["validation"] = task._compared(found["train"], found["validation"])
        return task, task.limit_splits(splits, found)

    def hold_out(self, splits: Mapping[str, Split]) -> tuple[Self, dict[str, Split]]:
        labels, train = None, splits["train"]
        if self.settings.problem == "single_label" and "labels" in train.examples.column_names:
            labels = train.examples["labels"][:]  # for a stratified validation set
        task, found = self._with_validation(["validation"], dict(splits), labels)
        return task, found | {"validation": task._compared(found["train"], found["validation"])}

    @property
    def _settled(self) -> bool:
        """Returns whether all settings are set, as in a checkpoint; a test set may then lack the label column."""
        given = self.settings
        classes = given.label_names or given.problem == "regression"
        return bool(given.problem and given.text_columns and given.label_column and classes)

    def _learn_columns(self, table: Table) -> tuple[Self, tuple[str, ...]]:
        """Returns a copy of the task with the column names of the table, and a note on those that no setting names."""
        given = self.settings
        label, text = label_and_text_columns(table, given.label_column, given.text_columns)
        if "labels" in text:
            raise DataError(f"{table.source}: a column of texts cannot be named 'labels'; rename it")
        chosen = [] if given.text_columns else [f"texts in {quoted(text)}"]
        chosen += [] if given.label_column else [f"labels in {label!r}"]
        notes = (f"columns: {', '.join(chosen)}",) if chosen else ()
        return self.with_settings(text_columns=text, label_column=label), notes

    def readable(self, table: Table) -> Table:
        """Returns the table without rows that are marked as having no label, with the columns under their names in
        training, class ids replaced with names, and several classes of a row as lists."""
        column = str(self.settings.label_column)
        table = table.with_names([*self.settings.text_columns, column])
        if column not in table.columns:  # allowed for a test set; reported later for other splits
            return table
        table = keep_answered(table, column)
        if self.settings.label_separator is not None:
            return split_labels(table, column, self.settings.label_separator)
        return unwrap_labels(labelled(table, column), column, self.settings.problem)

    def _learn_classes(self, table: Table, faults: list[str]) -> tuple[Self, Labels]:
        """Returns a copy of the task with the problem and classes of the training data, and what was decided on them;
        errors are added to ``faults``."""
        label = str(self.settings.label_column)
        values = table.columns[label]
        given = self.settings.label_names or list(table.class_names.get(label, ()))
        decided = decide(table, label, self.settings.problem, given)
        problem, names = decided.problem, decided.names
        if problem == "regression":
            numbers = set(map(to_number, values))
            if len(numbers) == 1 and math.isfinite(*numbers):
                faults.append(f"{table.source}: every row has the number {shown(values[0])}; expected at least two")
        elif problem == "single_label" and len(names) == 1:
            what = "task.label_names: only" if self.settings.label_names else f"{table.source}: every row has the label"
            faults.append(f"{what} {names[0]!r}; expected at least two classes")
        elif not names:
            faults.append(f"{table.source}: no row has a label in {label!r}")
        # Of few rows or rare labels no probability may reach 0.5, and nothing would be predicted.
        threshold = "tuned" if problem == "multi_label" and self.settings.threshold is None else self.settings.threshold
        return self.with_settings(problem=problem, label_names=names, threshold=threshold), decided

    def _split_of(self, name: str, table: Table) -> Split:
        """Builds the examples of a table: its texts, and ``labels``, which a test set may lack."""
        columns: dict[str, Sequence[Any]] = {}
        faults: list[str] = []
        label, names, problem = str(self.settings.label_column), self.settings.label_names, self.settings.problem
        needs_labels = self._needs_labels(name)
        needed = [*self.settings.text_columns, *([label] if needs_labels else [])]
        if missing := [column for column in needed if column not in table.columns]:
            raise DataError(
                f"{table.source}: no column {' or '.join(map(repr, missing))}; available: {quoted(table.columns)}; "
                "rename those that are meant, or name them: `bertkit evaluate` has --text-column and --label-column"
            )
        for column in self.settings.text_columns:
            with noted(faults):
                columns[column] = texts(table, column)
        others: dict[int, list[str]] = {}
        if name != "train" and problem != "regression" and label in table.columns:
            others = rows_of_other_classes(table, label, names)
        line = other_classes_in_words(table, others, names) if others else ""
        are_all = bool(others) and len(others) == len(table)
        if are_all and problem == "multi_label":
            are_all = not has_class(table, label, names)
        if are_all and needs_labels:
            faults.append(f"{table.source}: {line}; expected {quoted(names, 10)}")
        elif needs_labels or (self._has_labels(table) and not are_all):
            with noted(faults):
                if problem == "regression":
                    columns["labels"] = table.numbers(label)
                else:
                    read = class_sets if problem == "multi_label" else class_ids
                    columns["labels"] = read(table, label, names, others)
        raise_all(faults)
        notes = [] if name == "train" else [other_spellings(table.columns.get(label, ()), names)]
        if line:
            counted_as = "they count as wrong"
            if problem == "multi_label":
                counted_as = "such labels are left out, so the scores are too high"
            notes.append(f"warning: {line}; {'so no row is scored' if are_all else counted_as}")
        doubts = {"labels-in-one-split": line} if line else {}
        return Split.of_table(columns, table, tuple(filter(None, notes)), doubts)

    def _has_labels(self, table: Table) -> bool:
        """Returns whether a table has a label in at least one row."""
        values = table.columns.get(str(self.settings.label_column), ())
        return not all(value == [] or is_missing(value) for value in values)

    def _compared(self, train: Split, validation: Split) -> Split:
        """Returns the validation set, with a note on the rows whose texts also occur in the training set."""
        columns = self.settings.text_columns
        rows, held = ColumnsOf(train.examples), ColumnsOf(validation.examples)
        both = find_repeated([rows.each(column) for column in columns], [held[column] for column in columns])
        if not both:
            return validation
        first = validation.examples[both[0]][columns[0]]
        note = (
            f"warning: the texts of {len(both)} of {counted(len(validation.examples), 'row')} are also in the training "
            f"set, so the scores are too high; the first is {first[:60]!r}"
        )
        return replace(validation, notes=(*validation.notes, note))

    # ---- decode → score ---------------------------------------------------------------------------------------------

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        return super().probabilities(logits if self.temperatures is None else logits / self.temperatures)

    @property
    def temperatures(self) -> np.ndarray | None:
        """What the logits are divided by: one number for all, (1,), or one for each label, (C,); None if not fitted."""
        fitted = self.settings.temperature
        if isinstance(fitted, Mapping):
            return np.array([fitted.get(name, 1.0) for name in self.settings.label_names])
        return None if fitted is None else np.array([fitted])

    def temperatures_in_weights(self, results: Mapping[str, float]) -> np.ndarray | None:
        """Returns what the weights of the last layer are divided by, from the results of a run.

        Args:
            results: those of the evaluation that the temperatures were fitted to, ``eval_…``.

        Returns:
            As `temperatures`; None if the weights are as they were trained.
        """
        if self.temperatures is None or np.any(self.temperatures != 1):
            return None
        return self.with_settings(temperature=None).learn_from(results)[0].temperatures

    @property
    def has_thresholds(self) -> bool:
        return super().has_thresholds or (self.settings.threshold or 0.5) not in (0.5, "tuned")

    def predicted(self, logits: np.ndarray) -> np.ndarray:
        """Returns the labels as `TextClassification.predicted`, with the thresholds of the task."""
        threshold = self.settings.threshold or 0.5
        if threshold in (0.5, "tuned"):
            return super().predicted(logits)
        names, probabilities = self.settings.label_names, self.probabilities(logits)
        given = threshold if isinstance(threshold, Mapping) else dict.fromkeys(names, float(threshold))
        if self.settings.problem == "multi_label":
            return (probabilities >= [given.get(name, 0.5) for name in names]).astype(np.int64)
        first, second = names
        from_second = given[second] if second in given else 1 - given[first]
        return (probabilities[:, 1] >= from_second).astype(np.int64)

    def score(self, outputs: Outputs, features: Columns, examples: Columns) -> dict[str, float]:
        """Computes the metric of the task and `class_scores`, with the fitted temperature and thresholds.

        If they are not fitted yet, they are fitted to these outputs and are part of the result: ``temperature``, or
        ``class/NAME/temperature`` of several labels, and ``class/NAME/threshold``. With a temperature that is fitted
        here or asked for by ``calibrate``, so is the expected calibration error, ``ece``, and that before calibration,
        ``ece_uncalibrated``, unless the temperature is in the weights.
        """
        if self.settings.problem == "regression":
            return super().score(outputs, features, examples)
        logits, labels = one_array(outputs), np.asarray(features["labels"], np.int64)
        task, fitted = self._fitted(logits, labels)
        scores = super(ClassificationTask, task).score(outputs, features, examples)
        probabilities = task.probabilities(logits)
        scores |= class_scores(task.predicted(logits), probabilities, labels, task.settings.label_names)
        if self.settings.calibrate or task.settings.temperature != self.settings.temperature:
            scores["ece"] = expected_calibration_error(probabilities, labels)
            if np.any(task.temperatures != 1):  # with 1 it is in the weights, whose outputs are calibrated already
                scores["ece_uncalibrated"] = expected_calibration_error(super().probabilities(logits), labels)
        return scores | fitted

    def _fitted(self, logits: np.ndarray, labels: np.ndarray) -> tuple[Self, dict[str, float]]:
        """Returns the task with temperature and thresholds fitted to outputs, if they are not yet, and their values."""
        task, fitted = self, dict[str, float]()
        if labels.ndim == 1:  # rows of classes that are not in training have no right prediction
            logits, labels = logits[labels >= 0], labels[labels >= 0]
        calibrates = len(labels) >= _ENOUGH if self.settings.calibrate is None else self.settings.calibrate
        if calibrates and len(labels) and self.settings.temperature is None:
            found = best_temperatures(logits, labels).tolist()
            if labels.ndim == 2:
                of_labels = dict(zip(self.settings.label_names, found, strict=True))
                task = task.with_settings(temperature=of_labels)
                fitted |= {key_of_class(name, "temperature"): value for name, value in of_labels.items()}
            else:
                task = task.with_settings(temperature=found[0])
                fitted["temperature"] = found[0]
        if self.settings.threshold == "tuned":
            names, probabilities = self.settings.label_names, task.probabilities(logits)
            if labels.ndim == 1:
                tuned = {names[1]: best_threshold(labels, probabilities[:, 1])}
            elif self.settings.main_metric == "f1_macro":
                tuned = {
                    name: best_threshold(labels[:, label], probabilities[:, label]) for label, name in enumerate(names)
                }
            else:
                # A label of few rows has no threshold of its own: those of 28 labels, from 300 rows of GoEmotions, gave
                # each text 8 labels and a micro F1 of 0.14; one for all gave 1.3 labels and 0.38.
                tuned = dict.fromkeys(names, best_threshold(labels.ravel(), probabilities.ravel()))
            task = task.with_settings(threshold=tuned)
            fitted |= {key_of_class(name, "threshold"): value for name, value in tuned.items()}
        return task, fitted

    def learn_from(self, evaluation: Mapping[str, float]) -> tuple[Self, str | None]:
        def fitted(value: str) -> dict[str, float]:
            keys = {name: f"eval_{key_of_class(name, value)}" for name in self.settings.label_names}
            return {name: evaluation[key] for name, key in keys.items() if key in evaluation}

        changes: dict[str, Any] = {}
        if self.settings.temperature is None and (found := evaluation.get("eval_temperature") or fitted("temperature")):
            changes["temperature"] = found
        if self.settings.threshold == "tuned":
            changes["threshold"] = fitted("threshold")
        if not changes:
            return self, None
        listed = []
        for value, found in changes.items():
            of_labels = list(found.items()) if isinstance(found, Mapping) else [("", found)]
            if len({number for _, number in of_labels}) == 1 < len(of_labels):
                of_labels = [("all labels", of_labels[0][1])]
            listed += [
                f"{value} of {name} {number:.4g}" if name else f"{value} {number:.4g}" for name, number in of_labels
            ]
        rows = "predictions for all rows" if self.data.scores_all_rows else "validation set"
        return self.with_settings(**changes), f"fitted to the {rows}: {shortened(', '.join(listed), 300)}"

    def with_threshold(self, threshold: float) -> Self:
        """Returns a copy of the task that predicts a label from this probability on.

        Raises:
            RecipeError: the value is not valid.
        """
        try:
            changed = self.with_settings(threshold=threshold)
        except ValueError as error:
            raise RecipeError(f"--{error}") from error
        faults = [fault] if (fault := self.settings.why_no_threshold()) else changed.settings.faults_of_classes()
        if faults:
            raise RecipeError(f"--{faults[0].removeprefix('task.')}")
        return changed
