"""Labelled spans of words, for the rules of checks."""

from __future__ import annotations

from bertkit.checks.subject import Checked, checked
from bertkit.metrics.entities import find_entities
from bertkit.tasks.ner.task import NerTask
from bertkit.tasks.splits import Columns


@checked.register(NerTask)
class CheckedTags(Checked):
    """Entities, or plain tags, which are no spans."""

    relies_on_case = True

    def _tags(self, examples: Columns) -> list[list[str]]:
        return [[self.task.task.label_names[index] for index in labels] for labels in examples["labels"]]

    def spans(self, examples: Columns) -> list[list[tuple[str, int, int]]] | None:
        if "labels" not in examples or self.task.task.scheme == "plain":
            return None
        return [list(find_entities(tags)) for tags in self._tags(examples)]

    def classes(self, examples: Columns) -> list[list[str]] | None:
        """Returns the types of the entities of each sentence; for plain tags the tags of its words."""
        if "labels" not in examples:
            return None
        spans = self.spans(examples)
        if spans is None:
            return self._tags(examples)
        return [[kind for kind, _, _ in of_sentence] for of_sentence in spans]
