"""Predictions of question answering: questions by name, files of SQuAD; metrics as functions of means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.data.tables import Table
from bertkit.data.tables.objects import with_words
from bertkit.data.tables.typed_rows import JSON
from bertkit.inference.facts import Facts, right_of_all
from bertkit.inference.outcome import Outcome, TaskInference, task_inference
from bertkit.metrics.intervals import MeanDecomposition, mean_terms
from bertkit.metrics.squad import question_scores
from bertkit.runtime.errors import DataError
from bertkit.runtime.progress import counted
from bertkit.tasks.question_answering.questions import read_questions
from bertkit.tasks.question_answering.task import QuestionAnsweringTask
from bertkit.tasks.splits import Columns
from bertkit.tasks.windows import first_part

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class AnswerInference(TaskInference):
    """Answers to questions, with the questions: contexts may be long and shared by many questions."""

    task: QuestionAnsweringTask
    column_settings = frozenset({"id_column", "question_column", "context_column", "answers_column"})
    needs_transformers = False
    example = "question"

    def read_file(self, path: Path) -> Table | None:
        """Reads a file in SQuAD's nested JSON format."""
        return read_questions(path) if path.suffix.lower() == JSON else None

    def read_fields(self, fields: Mapping[str, str | Sequence[str]]) -> dict[str, list[str]]:
        """Converts ``question`` and ``context`` to columns; a context that is a text is that of all questions."""
        if fields.keys() != {"question", "context"}:
            raise DataError(f"{self.task.name}: expected question and context, got {', '.join(fields)}")
        questions, contexts = (
            [value] if isinstance(value, str) else list(value) for value in (fields["question"], fields["context"])
        )
        for name, texts in (("question", questions), ("context", contexts)):
            with_words(texts, name)
        if isinstance(fields["context"], str):
            contexts *= len(questions)
        if len(questions) != len(contexts):
            raise DataError(
                f"{counted(len(questions), 'question')}, {counted(len(contexts), 'context')}; expected one context for "
                "each question, or a text, not a list, for all"
            )
        return {"question": questions, "context": contexts}

    def cut_texts(self, examples: Columns, tokenizer: PreTrainedTokenizerBase) -> Columns:
        """Cuts the questions; contexts are read to their end."""
        questions = first_part(examples["question"], tokenizer, self.task.data.max_query_length)
        return {**examples, "question": questions}

    def format_prediction(self, prediction: Mapping[str, Any]) -> str:
        return f"{prediction['answer'] or '(no answer)'}\t{prediction['probability']:.4f}"

    def columns_beside(self, columns: Columns) -> Columns:
        return {"question": columns["question"]}

    def facts(self, outcome: Outcome) -> Facts:
        terms = self.terms("exact", *outcome.predictions_and_references())
        if terms is None or not len(terms.values):
            return Facts()
        guess = None
        if self.task.settings.version_2_with_negative:
            has_none = [not each["answers"]["text"] for each in outcome.predictions_and_references()[1]]
            guess = "always answering that there is no answer", float(np.mean(has_none))
        sentences, is_wide = right_of_all(terms.values[:, 0] == 1, "answer", guess, texts=outcome.same_texts)
        return Facts(tuple(sentences), is_wide=is_wide)

    def terms(self, name: str, predictions: Sequence[Any], references: Sequence[Any]) -> MeanDecomposition | None:
        if name not in ("exact", "exact_match", "f1"):
            return None
        has_negative = self.task.settings.version_2_with_negative
        texts = [each["prediction_text"] for each in self.for_metrics(predictions, references)[0]]
        scores = question_scores(texts, [each["answers"] for each in references], has_negative)
        return mean_terms(scores[name == "f1"], 100.0)

    def to_labels(self, values: Sequence[Any]) -> list[Any]:
        """Returns the predictions as `for_metrics`, without a text where no answer is predicted, or the references."""
        are_references = any("answers" in each for each in values)
        return list(values if are_references else self.for_metrics(values, values)[0])

    def for_metrics(self, predictions: Any, references: Any) -> tuple[Any, Any]:
        """Returns the dictionaries of ``squad``, or of ``squad_v2`` if questions may have no answer.

        In the latter the text is empty where the run predicts no answer, and ``no_answer_probability`` is then more
        than 0.5: the logistic function of the difference of the scores from the threshold.
        """
        if not self.task.settings.version_2_with_negative:
            return predictions, references
        from scipy.special import expit

        differences = [
            each["no_answer_probability"] - self.task.settings.null_score_diff_threshold for each in predictions
        ]
        texts = [
            "" if difference > 0 else each["prediction_text"]
            for each, difference in zip(predictions, differences, strict=True)
        ]
        rows = zip(predictions, texts, expit(differences).tolist(), strict=True)
        return [
            {**each, "prediction_text": text, "no_answer_probability": probability} for each, text, probability in rows
        ], references


task_inference.register(QuestionAnsweringTask, AnswerInference)
