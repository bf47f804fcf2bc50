"""Metrics of classification and regression as functions of means over the examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bertkit.inference.scored import Scored, scored
from bertkit.metrics.terms import Terms, terms_of
from bertkit.tasks.classification.text_classification import TextClassification


class ScoredClasses(Scored):
    """Metrics of class ids, labels and numbers."""

    def terms(self, name: str, predictions: Sequence[Any], references: Sequence[Any]) -> Terms | None:
        return terms_of(name, predictions, references)


@scored.register
def _(task: TextClassification) -> Scored:
    return ScoredClasses(task)
