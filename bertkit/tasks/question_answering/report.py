"""Sections of the report of question answering: scores by question and answer, and the threshold of no answer.

Scores of single questions are those of SQuAD's official scorers, in [0, 1]. N is the number of questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit.metrics.squad import best, exact, f1, f1_or_both_empty, normalized
from bertkit.progress import counted
from bertkit.tasks.question_answering.decoding import Decoded, answer_at
from bertkit.tasks.report_charts import GREY, bar_chart
from bertkit.tasks.report_parts import PREDICTED, TRUE, Chart, DataTable, Mark, Mistake, Section, surest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_QUESTION_WORDS = ("what", "which", "who", "whose", "when", "where", "why", "how")
_LENGTHS = ((1, 1), (2, 2), (3, 4), (5, 8), (9, 1 << 30))  # words of an answer
_NO_ANSWER = "(no answer)"
_CONTEXT = 160  # characters on both sides of the marked answers


def question_scores(
    texts: Sequence[str], answers: Sequence[Mapping[str, Any]], may_be_unanswerable: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Computes exact match and F1 of each question, (N,) each.

    Args:
        texts: predicted texts; empty for no answer.
        answers: the answers of each question, ``text`` empty for none.
        may_be_unanswerable: score by the rules of SQuAD 2.0 instead of 1.1.
    """
    scores = []
    for text, given in zip(texts, answers, strict=True):
        known = list(given["text"])
        if may_be_unanswerable:
            known = [each for each in known if normalized(each)] or [""]
        score = f1_or_both_empty if may_be_unanswerable else f1
        if may_be_unanswerable and not text and given["text"]:  # nothing to compare, not even with "the"
            scores.append((0.0, 0.0))
        else:
            scores.append((best(exact, text, known), best(score, text, known)))
    both = np.array(scores, dtype=np.float64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def question_sections(
    questions: Sequence[str],
    answers: Sequence[Mapping[str, Any]],
    decoded: Sequence[Decoded],
    threshold: float | None,
) -> list[Section]:
    """Returns the sections; arguments as for `answer_mistakes`."""
    is_new = threshold is not None
    matches, f1s = question_scores([answer_at(each, threshold) for each in decoded], answers, is_new)
    answerable = np.array([bool(each["text"]) for each in answers])
    groups: list[tuple[str, np.ndarray]] = [("all questions", np.ones(len(answers), dtype=bool))]
    if is_new:
        groups += [("with an answer", answerable), ("without an answer", ~answerable)]
    parts: list[Chart | DataTable] = [
        DataTable(
            "Scores by answerability" if is_new else "Scores",
            ("questions", "exact match in %", "F1 in %", "number"),
            [
                (name, float(100 * matches[rows].mean()), float(100 * f1s[rows].mean()), int(rows.sum()))
                for name, rows in groups
                if rows.any()
            ],
            for_card=True,
        )
    ]
    words = np.array([_question_word(question) for question in questions])
    by_word = [(word, words == word) for word in (*_QUESTION_WORDS, "other")]
    parts.append(_bars("question-words", "F1 by question word", by_word, f1s, "question word"))
    lengths = np.array([min((len(text.split()) for text in each["text"]), default=0) for each in answers])
    by_length = [("no answer", lengths == 0)] if is_new else []
    by_length += [
        (
            f"{low}" if low == high else f"{low}–{high}" if high < 1 << 20 else f"{low} or more",
            (lengths >= low) & (lengths <= high),
        )
        for low, high in _LENGTHS
    ]
    parts.append(_bars("answer-length", "F1 by length of the shortest answer", by_length, f1s, "words of the answer"))
    sections = [Section("Questions", parts)]
    if threshold is not None and len(answers):
        odds = np.array([each.null_odds for each in decoded])
        sections.append(Section("No answer", [_curve(answers, decoded, odds, threshold), _odds(odds, answerable)]))
    return sections


def _question_word(question: str) -> str:
    """Returns the first word of a question that is a question word, or ``other``."""
    words = (word.strip("'\"’“(),?").lower() for word in question.split())
    return next((word for word in words if word in _QUESTION_WORDS), "other")


def _bars(name: str, title: str, groups: Sequence[tuple[str, np.ndarray]], f1s: np.ndarray, what: str) -> Chart:
    bars = [(group, float(100 * f1s[rows].mean()), int(rows.sum())) for group, rows in groups if rows.any()]
    return bar_chart(name, title, bars, labels=(what, "F1 in %"), highest=100)


def threshold_curve(
    answers: Sequence[Mapping[str, Any]], decoded: Sequence[Decoded], odds: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the scores at each threshold of no answer.

    Returns:
        Thresholds in ascending order, exact match and F1 in per cent, (N + 1,) each; the first one predicts no answer
        for every question.
    """
    scores = question_scores([answer_at(each, None) for each in decoded], answers, may_be_unanswerable=True)
    none = np.array([float(not each["text"]) for each in answers])
    order = np.argsort(odds, kind="stable")
    at = np.concatenate([[odds[order[0]] - 1e-6], odds[order]])
    curves = [100 * (none.sum() + np.cumsum([0.0, *(values - none)[order]])) / len(none) for values in scores]
    return at, curves[0], curves[1]


def _curve(
    answers: Sequence[Mapping[str, Any]], decoded: Sequence[Decoded], odds: np.ndarray, threshold: float
) -> Chart:
    at, matches, f1s = threshold_curve(answers, decoded, odds)
    highest = int(np.argmax(f1s))

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        low, high = np.quantile(at, [0.005, 0.995])
        low, high = min(low, threshold), max(high, threshold)
        edge = 0.02 * (high - low) + 1e-6
        ends = [min(at[0], low - edge), *at, max(at[-1], high + edge)]  # nothing changes beyond the thresholds
        for values, name, line in ((f1s, "F1", "-"), (matches, "exact match", "--")):
            axes.plot(ends, [values[0], *values, values[-1]], label=name, linestyle=line, drawstyle="steps-post")
        axes.axvline(threshold, color=GREY, linestyle=":", label=f"threshold of the scores, {threshold:g}")
        axes.plot([at[highest]], [f1s[highest]], marker="o", color="C1", linestyle="", label="highest F1")
        axes.set(xlabel="threshold: score of no answer − score of the best span", ylabel="in %")
        axes.set(xlim=(low - edge, high + edge), ylim=(0, 102))
        axes.legend(fontsize=8)

    alt = f"Scores by threshold of no answer; the highest F1 is {f1s[highest]:.2f} at {at[highest]:.3f}."
    return Chart("no-answer-threshold", "Threshold of no answer", alt, draw, (4.8, 3.3), note=alt, for_card=True)


def _odds(odds: np.ndarray, answerable: np.ndarray) -> Chart:
    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        low, high = np.quantile(odds, [0.005, 0.995])
        bins = np.linspace(low, max(high, low + 1e-6), 40).tolist()
        axes.hist(np.clip(odds[answerable], low, high), bins, alpha=0.55, label="with an answer", color="C0")
        axes.hist(
            *(np.clip(odds[~answerable], low, high), bins),
            alpha=0.55,
            label="without an answer",
            color="C1",
            hatch="//",
            edgecolor="white",
        )
        axes.axvline(0, color=GREY, linestyle=":", label="no answer and best span are equal")
        axes.set(xlabel="score of no answer − score of the best span", ylabel="questions")
        axes.legend(fontsize=8)

    wrong = int((odds[answerable] > 0).sum()), int((odds[~answerable] <= 0).sum())
    alt = (
        f"Score of no answer minus that of the best span: no answer scores higher for {wrong[0]:,} of "
        f"{counted(int(answerable.sum()), 'question', form=',')} with an answer, and the best span for {wrong[1]:,} of "
        f"{int((~answerable).sum()):,} without."
    )
    return Chart("no-answer-odds", "Where no answer and the best span cross", alt, draw, (4.8, 3.3), note=alt)


def answer_mistakes(
    questions: Sequence[str],
    contexts: Sequence[str],
    answers: Sequence[Mapping[str, Any]],
    decoded: Sequence[Decoded],
    threshold: float | None,
) -> list[Mistake]:
    """Returns the surest answers without a word in common with a right one, or that should not be there.

    Args:
        questions, contexts, answers: the examples.
        decoded: decoded answers to each question.
        threshold: threshold of no answer; None if every question has an answer.
    """
    texts = [answer_at(each, threshold) for each in decoded]
    matches, f1s = question_scores(texts, answers, threshold is not None)
    found = []
    for row in np.flatnonzero((f1s == 0) & (matches == 0)).tolist():  # F1 of two equal answers "A" is 0
        each, given = decoded[row], answers[row]
        spans = list(dict.fromkeys(zip(given["answer_start"], given["text"], strict=True)))[:3]
        marks = [Mark(start, start + len(text), TRUE, "") for start, text in spans]
        if texts[row]:
            sureness = each.spans[0].probability
            marks.append(Mark(each.spans[0].start, each.spans[0].end, PREDICTED, ""))
        else:
            sureness = each.null_probability
        excerpt, marks = _excerpt(contexts[row], marks)
        true = " / ".join(dict.fromkeys(given["text"])) or _NO_ANSWER
        shown = [("question", questions[row], ()), ("context", excerpt, marks)]
        found.append(Mistake(row, float(sureness), true, texts[row] or _NO_ANSWER, shown))
    return surest(found)


def _excerpt(context: str, marks: Sequence[Mark]) -> tuple[str, list[Mark]]:
    """Returns the part of a context around its marks, and the marks in it."""
    if not marks:
        return context[: 2 * _CONTEXT] + ("…" if len(context) > 2 * _CONTEXT else ""), []
    begin = max(min(mark.start for mark in marks) - _CONTEXT, 0)
    end = min(max(mark.end for mark in marks) + _CONTEXT, len(context))
    before, after = "…" if begin else "", "…" if end < len(context) else ""
    shift = len(before) - begin
    moved = [Mark(mark.start + shift, mark.end + shift, mark.side, mark.label) for mark in marks]
    return f"{before}{context[begin:end]}{after}", moved
