"""Question answering over HTTP and on a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from bertkit.features.serving.requests import Strict
from bertkit.features.serving.served import Mark, Served, View, served
from bertkit.inference.outcome import task_inference
from bertkit.tasks.base import Outputs
from bertkit.tasks.question_answering.decoding import Decoded, answer_at
from bertkit.tasks.question_answering.task import QuestionAnsweringTask
from bertkit.tasks.splits import Columns

_LONGEST_ANSWER = 128  # tokens; the scores of all spans of a text are in memory


class Question(Strict):
    """One input: a question, and the text that contains its answer."""

    question: str
    context: str


class Parameters(Strict):
    """The ``parameters`` of a request.

    Attributes:
        top_k: number of answers to each question. More than 1 gives a list of them: at most the checkpoint's
            ``n_best_size`` spans, and no answer if it is possible. ``None`` and 1 give one answer, not in a list.
        max_answer_len: maximum tokens of an answer; ``None`` is the value of the checkpoint.
        handle_impossible_answer: whether a question may have no answer; ``None`` as the checkpoint was trained.
    """

    top_k: Annotated[int, Field(ge=1)] | None = None
    max_answer_len: Annotated[int, Field(ge=1, le=_LONGEST_ANSWER)] | None = None
    handle_impossible_answer: bool | None = None


class ServedAnswers(Served):
    """Extractive question answering."""

    task: QuestionAnsweringTask
    input_type = Question
    parameters = Parameters
    fields = ("question", "context")
    shows = "marks"
    reads_whole_texts = True

    def input_of(self, texts: Sequence[str]) -> Question:
        return Question(question=texts[0], context=texts[1])

    def columns(self, inputs: Sequence[Question]) -> dict[str, list[Any]]:
        return task_inference(self.task).read_fields(
            {name: [getattr(each, name) for each in inputs] for name in self.fields}
        )

    def answers(self, outputs: Outputs, features: Columns, examples: Columns, parameters: Parameters) -> list[Any]:
        """Returns ``answer``, ``score``, ``start`` and ``end`` for each question, or a list of them.

        No answer is the empty text at 0, as in transformers.
        """
        changes: dict[str, Any] = {}
        if parameters.max_answer_len is not None:
            changes["max_answer_length"] = parameters.max_answer_len
        if parameters.handle_impossible_answer is not None:
            changes["version_2_with_negative"] = parameters.handle_impossible_answer
            if not parameters.handle_impossible_answer:
                changes |= {"null_score_diff_threshold": 0.0, "predict_threshold": None}
        task = self.task.with_settings(**changes)
        answers = [
            _rank_answers(each, task.decision_threshold) for each in task.decoded_spans(outputs, features, examples)
        ]
        several = parameters.top_k is not None and parameters.top_k > 1
        return [each[: parameters.top_k] if several else each[0] for each in answers]

    def view(self, prediction: Mapping[str, Any], texts: Sequence[str]) -> View:
        """Marks the answer in the context."""
        if not prediction["answer"]:
            return View(f"no answer ({prediction['probability']:.4f})", text=texts[1])
        mark = Mark(prediction["start"], prediction["end"], f"{prediction['probability']:.4f}")
        return View(prediction["answer"], text=texts[1], marks=[mark])


served.register(QuestionAnsweringTask, ServedAnswers)


def _rank_answers(decoded: Decoded, threshold: float | None) -> list[dict[str, Any]]:
    """Returns the answers to a question; the first one is that of `bertkit predict`."""
    answers: list[dict[str, Any]] = [
        {"answer": span.text, "score": span.probability, "start": span.start, "end": span.end} for span in decoded.spans
    ]
    if threshold is None and answers:
        return answers
    nothing = {"answer": "", "score": decoded.null_probability, "start": 0, "end": 0}
    if not answer_at(decoded, threshold):
        return [nothing, *answers]
    answers.append(nothing)
    return answers[:1] + sorted(answers[1:], key=lambda answer: -answer["score"])
