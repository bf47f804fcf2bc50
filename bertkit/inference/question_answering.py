"""Metrics of question answering as functions of means over the questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bertkit.inference.scored import Scored, scored
from bertkit.metrics.squad import question_scores
from bertkit.metrics.terms import Terms, mean_terms
from bertkit.tasks.question_answering.task import QuestionAnsweringTask


@scored.register
def _(task: QuestionAnsweringTask) -> Scored:
    return ScoredAnswers(task)


class ScoredAnswers(Scored):
    """Exact match and F1 of the answers, in per cent."""

    def terms(self, name: str, predictions: Sequence[Any], references: Sequence[Any]) -> Terms | None:
        if name not in ("exact", "exact_match", "f1"):
            return None
        threshold = self.task._threshold
        texts = [
            "" if threshold is not None and each["no_answer_probability"] > threshold else each["prediction_text"]
            for each in predictions
        ]
        scores = question_scores(texts, [each["answers"] for each in references], threshold is not None)
        return mean_terms(scores[name == "f1"], 100.0)
