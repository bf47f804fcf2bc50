"""Choices, for the rules of checks."""

from __future__ import annotations

from bertkit.checks.subject import Checked, checked
from bertkit.tasks.multiple_choice import MultipleChoiceTask
from bertkit.tasks.splits import Columns


@checked.register(MultipleChoiceTask)
class CheckedChoices(Checked):
    """The place of the right ending is the class."""

    def classes(self, examples: Columns) -> list[list[str]] | None:
        return [[f"ending {label}"] for label in examples["labels"]] if "labels" in examples else None
