"""Reports of question answering: scores by question and answer, and the threshold of no answer.

Scores of single questions are those of SQuAD's official scorers, in [0, 1]. N is the number of questions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.features.reporting.charts import GREY
from bertkit.features.reporting.reported import (
    PREDICTED,
    TRUE,
    Cell,
    Chart,
    DataTable,
    Mark,
    Mistake,
    Reported,
    Section,
    most_confident,
    reported,
)
from bertkit.inference.outcome import Outcome
from bertkit.metrics.squad import question_scores
from bertkit.tasks.question_answering.decoding import Decoded, answer_at
from bertkit.tasks.question_answering.task import QuestionAnsweringTask

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_QUESTION_WORDS = ("what", "which", "who", "whose", "when", "where", "why", "how")
_LENGTHS = {"1": (1, 1), "2": (2, 2), "3–4": (3, 4), "5–8": (5, 8), "9 or more": (9, 1 << 30)}  # words of an answer
_NO_ANSWER = "(no answer)"


@reported.register(QuestionAnsweringTask)
class ReportedAnswers(Reported):
    """Scores by question and answer, the threshold of no answer, and mistakes marked in their contexts."""

    def sections(self, outcome: Outcome) -> list[Section]:
        examples, decoded = outcome.examples, self._decode(outcome)
        return question_sections(examples["question"], examples["answers"], decoded, self.task.score_threshold)

    def mistakes(self, outcome: Outcome) -> list[Mistake]:
        questions, contexts, answers = (outcome.examples[name] for name in ("question", "context", "answers"))
        return answer_mistakes(questions, contexts, answers, self._decode(outcome), self.task.score_threshold)

    def _decode(self, outcome: Outcome) -> list[Decoded]:
        decoded: list[Decoded] = self.task.decoded_spans(outcome.outputs, outcome.features, outcome.examples)
        return decoded


def question_sections(
    questions: Sequence[str],
    answers: Sequence[Mapping[str, Any]],
    decoded: Sequence[Decoded],
    threshold: float | None,
) -> list[Section]:
    """Returns the sections; arguments as for `answer_mistakes`."""
    may_have_none = threshold is not None
    scores = question_scores([answer_at(each, threshold) for each in decoded], answers, may_have_none)
    answerable = np.array([bool(each["text"]) for each in answers])
    split = [re.findall("[a-z]+", question.lower()) for question in questions]  # "What's" is what
    words = np.array([next((word for word in of_one if word in _QUESTION_WORDS), "other") for of_one in split])
    lengths = np.array([min((len(text.split()) for text in each["text"]), default=0) for each in answers])
    of_questions = {"all questions": np.ones(len(answers), dtype=bool)}
    if may_have_none:
        of_questions |= {"with an answer": answerable, "without an answer": ~answerable}
    by_word = {word: words == word for word in (*_QUESTION_WORDS, "other")}
    by_length = {"no answer": lengths == 0} if may_have_none else {}
    by_length |= {name: (lengths >= low) & (lengths <= high) for name, (low, high) in _LENGTHS.items()}
    title = "Scores by answerability" if may_have_none else "Scores"
    parts = [
        _score_groups(title, "questions", of_questions, scores, for_card=True),
        _score_groups("Scores by question word", "question word", by_word, scores),
        _score_groups("Scores by length of the shortest answer", "words of the answer", by_length, scores),
    ]
    sections = [Section("Questions", parts)]
    if threshold is not None:
        sections.append(Section("No answer", [_draw_thresholds(answers, decoded, threshold)]))
    return sections


def _score_groups(
    title: str, what: str, groups: Mapping[str, np.ndarray], scores: tuple[np.ndarray, ...], for_card: bool = False
) -> DataTable:
    """Returns the mean scores of groups of questions, given as name → whether each question belongs to it."""
    rows: list[tuple[Cell, ...]] = [
        (name, *(float(100 * values[belongs].mean()) for values in scores), int(belongs.sum()))
        for name, belongs in groups.items()
        if belongs.any()
    ]
    return DataTable(title, (what, "exact match in %", "F1 in %", "number"), rows, for_card=for_card)


def threshold_curve(
    answers: Sequence[Mapping[str, Any]], decoded: Sequence[Decoded]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the scores at each threshold of no answer.

    Returns:
        Thresholds in ascending order, exact match and F1 in per cent, (N + 1,) each; the first one predicts no answer
        for every question.
    """
    scores = question_scores([answer_at(each, None) for each in decoded], answers, may_be_unanswerable=True)
    odds = np.array([each.null_odds for each in decoded])
    none = np.array([float(not each["text"]) for each in answers])
    order = np.argsort(odds, kind="stable")
    at = np.concatenate([[odds[order[0]] - 1e-6], odds[order]])
    curves = [100 * (none.sum() + np.cumsum([0.0, *(values - none)[order]])) / len(none) for values in scores]
    return at, curves[0], curves[1]


def _draw_thresholds(answers: Sequence[Mapping[str, Any]], decoded: Sequence[Decoded], threshold: float) -> Chart:
    at, matches, f1s = threshold_curve(answers, decoded)
    highest = int(np.argmax(f1s))

    def draw(axes: Axes) -> None:
        # A context without tokens has no span, and odds far beyond those of the others.
        shown = [threshold, *(each.null_odds for each in decoded if each.spans)]
        low, high = np.quantile(shown, [0.005, 0.995])
        low, high = min(low, threshold), max(high, threshold)
        edge = 0.02 * (high - low) + 1e-6
        ends = [min(at[0], low - edge), *at, max(at[-1], high + edge)]  # nothing changes beyond the thresholds
        for values, name, line in ((f1s, "F1", "-"), (matches, "exact match", "--")):
            axes.plot(ends, [values[0], *values, values[-1]], label=name, linestyle=line, drawstyle="steps-post")
        axes.axvline(threshold, color=GREY, linestyle=":", label=f"threshold of the scores, {threshold:g}")
        axes.plot([at[highest]], [f1s[highest]], "C1o", label="highest F1")
        axes.set(xlabel="threshold: score of no answer − score of the best span", ylabel="in %")
        axes.set(xlim=(low - edge, high + edge), ylim=(0, 102))
        axes.legend()

    alt = f"Scores by threshold of no answer; the highest F1 is {f1s[highest]:.2f} at {at[highest]:.3f}."
    return Chart("no-answer-threshold", "Threshold of no answer", alt, draw, (4.8, 3.3), alt, for_card=True)


def answer_mistakes(
    questions: Sequence[str],
    contexts: Sequence[str],
    answers: Sequence[Mapping[str, Any]],
    decoded: Sequence[Decoded],
    threshold: float | None,
) -> list[Mistake]:
    """Returns the most confident wrong answers: without a word in common with a right one, or where there is none; or
    no answer where there is one.

    Args:
        questions, contexts, answers: the examples.
        decoded: decoded answers to each question.
        threshold: threshold of no answer; None if every question has an answer.
    """
    texts = [answer_at(each, threshold) for each in decoded]
    matches, f1s = question_scores(texts, answers, threshold is not None)
    mistakes = []
    for row in np.flatnonzero((f1s == 0) & (matches == 0)).tolist():  # F1 of two equal answers "A" is 0
        known, confidence = answers[row], decoded[row].null_probability
        spans = list(dict.fromkeys(zip(known["answer_start"], known["text"], strict=True)))[:3]
        marks = [Mark(start, start + len(text), TRUE) for start, text in spans]
        if texts[row]:
            span = decoded[row].spans[0]
            confidence = span.probability
            marks.append(Mark(span.start, span.end, PREDICTED))
        columns = [("question", questions[row], ()), ("context", contexts[row], marks)]
        true = " / ".join(dict.fromkeys(known["text"])) or _NO_ANSWER
        mistakes.append(Mistake(row, float(confidence), true, texts[row] or _NO_ANSWER, columns))
    return most_confident(mistakes)
