"""Predictions of multiple choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.inference.facts import Facts, right_of_all
from bertkit.inference.outcome import Outcome, TaskInference, task_inference
from bertkit.metrics.intervals import MeanDecomposition, terms_of
from bertkit.tasks.multiple_choice import MultipleChoiceTask
from bertkit.tasks.splits import Columns

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class ChoiceInference(TaskInference):
    """Choices of endings."""

    task: MultipleChoiceTask

    def format_prediction(self, prediction: Mapping[str, Any]) -> str:
        return f"{prediction['choice']}\t{prediction['probability']:.4f}"

    def cut_texts(self, examples: Columns, tokenizer: PreTrainedTokenizerBase) -> Columns:
        return self.task.cut_texts(examples, tokenizer)

    def facts(self, outcome: Outcome) -> Facts:
        own, true = map(np.asarray, outcome.predictions_and_references())
        choices = [len(endings) for endings in outcome.examples["endings"]]
        if not choices:
            return Facts()
        guess = "guessing at random", float(np.mean(1 / np.array(choices)))
        sentences, is_wide = right_of_all(own == true, guess=guess, texts=outcome.same_texts)
        return Facts(tuple(sentences), is_wide=is_wide)

    def terms(self, name: str, predictions: Sequence[Any], references: Sequence[Any]) -> MeanDecomposition | None:
        return terms_of(name, predictions, references)


task_inference.register(MultipleChoiceTask, ChoiceInference)
