"""Classes of classification, for the rules of checks."""

from __future__ import annotations

from bertkit.checks.subject import Checked, checked
from bertkit.tasks.classification.text_classification import TextClassification
from bertkit.tasks.splits import Columns


@checked.register(TextClassification)
class CheckedClassification(Checked):
    """Classes of one label or several; a regression has none."""

    def classes(self, examples: Columns) -> list[list[str]] | None:
        names, problem = self.task.task.label_names, self.task.problem_type
        if "labels" not in examples or problem == "regression":
            return None
        if problem == "single_label_classification":
            return [[names[label]] for label in examples["labels"]]
        return [[name for name, chosen in zip(names, row, strict=True) if chosen] for row in examples["labels"]]
