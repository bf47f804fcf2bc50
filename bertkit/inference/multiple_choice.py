"""Metrics of multiple choice as functions of means over the examples: those of classification."""

from __future__ import annotations

from bertkit.inference.classification import ScoredClasses
from bertkit.inference.scored import Scored, scored
from bertkit.tasks.multiple_choice import MultipleChoiceTask


@scored.register
def _(task: MultipleChoiceTask) -> Scored:
    return ScoredClasses(task)
