"""Predictions of multiple choice, and their metrics as functions of means, those of classification."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertkit.inference.classification import ScoredClasses
from bertkit.inference.predicted import Predicted, predicted
from bertkit.inference.scored import Scored, scored
from bertkit.tasks.multiple_choice import MultipleChoiceTask
from bertkit.tasks.splits import Columns

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class PredictedChoices(Predicted):
    """Choices of endings."""

    task: MultipleChoiceTask

    def cut_texts(self, examples: Columns, tokenizer: PreTrainedTokenizerBase) -> Columns:
        return self.task.cut_texts(examples, tokenizer)


predicted.register(MultipleChoiceTask, PredictedChoices)


@scored.register
def _(task: MultipleChoiceTask) -> Scored:
    return ScoredClasses(task)
