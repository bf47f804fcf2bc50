"""Metrics of token classification as functions of means over the sentences; its collapse, by words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from bertkit.inference.scored import Scored, collapse_of, scored
from bertkit.metrics.entities import find_entities
from bertkit.metrics.terms import Terms
from bertkit.tasks.arrays import Outputs
from bertkit.tasks.ner.task import NerTask
from bertkit.tasks.splits import Columns


@scored.register
def _(task: NerTask) -> Scored:
    return ScoredTags(task)


class ScoredTags(Scored):
    """Metrics of entities, or of plain tags."""

    def terms(self, name: str, predictions: Sequence[Any], references: Sequence[Any]) -> Terms | None:
        if self.task.task.scheme == "plain":
            return accuracy_terms(predictions, references)
        if name != "overall_f1":
            return None
        return f1_terms(self.task.to_labels(predictions), self.task.to_labels(references), self.task.task.strict)

    def collapse(self, outputs: Outputs, features: Columns, examples: Columns) -> str | None:
        """Compares the tags of words, since sentences differ in length."""
        sides = map(self.task.to_labels, self.task.predictions_and_references(outputs, features, examples))
        return collapse_of(*(chain.from_iterable(tags) for tags in sides))


def f1_terms(predicted: Sequence[Sequence[str]], true: Sequence[Sequence[str]], strict: bool) -> Terms:
    """Returns the entities of each sentence that are correct, predicted and true, (N, 3), and F1 as their function."""
    rows = []
    for own, expected in zip(predicted, true, strict=True):
        entities, references = set(find_entities(own, strict)), set(find_entities(expected, strict))
        rows.append((len(entities & references), len(entities), len(references)))

    def f1(correct: Any, predicted: Any, actual: Any) -> Any:
        return 2 * correct / np.maximum(predicted + actual, 1e-12)

    return Terms(np.array(rows, dtype=np.float64).reshape(-1, 3), f1, (0.0, 1.0))


def accuracy_terms(predicted: Sequence[Sequence[int]], true: Sequence[Sequence[int]]) -> Terms:
    """Returns the correct tags and the words of each sentence, (N, 2), and accuracy as their function."""
    rows = [
        (np.sum(np.asarray(own) == np.asarray(expected)), len(expected))
        for own, expected in zip(predicted, true, strict=True)
    ]
    return Terms(np.array(rows, dtype=np.float64).reshape(-1, 2), lambda correct, words: correct / words, (0.0, 1.0))
