"""The tasks' sections, compared with hand-made examples and with the metrics."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from bertkit import metrics
from bertkit.metrics.entities import count_entities
from bertkit.reporting.texts import pieces
from bertkit.tasks.classification.report import class_sections
from bertkit.tasks.ner.report import entity_mistakes, entity_sections, f1_terms, known_texts
from bertkit.tasks.question_answering.decoding import Decoded, Span
from bertkit.tasks.question_answering.report import answer_mistakes, question_sections, threshold_curve
from bertkit.tasks.report_parts import Mark

WORDS = [["Ada", "Lovelace", "in", "London"], ["the", "Times", "of", "Paris"], ["nothing", "here"]]
TRUE = [["B-PER", "I-PER", "O", "B-LOC"], ["B-ORG", "I-ORG", "O", "B-LOC"], ["O", "O"]]
OWN = [["B-PER", "O", "O", "B-LOC"], ["O", "B-ORG", "O", "B-ORG"], ["B-LOC", "O"]]


def drawn(chart):
    """The axes of a chart."""
    figure = Figure()
    chart.draw(figure)
    return figure.axes[0]


def parts(sections):
    return {part.title: part for section in sections for part in section.parts}


def test_kinds_of_entity_errors_by_hand():
    """Two boundaries are wrong, a type is, one is invented, one is right; "London" was in the training data."""
    found = parts(entity_sections(WORDS, TRUE, OWN, False, {"london"}))
    assert "1 right, 1 wrong type, 2 wrong boundary, 0 wrong type and boundary, 0 missed, 1 invented" in (
        found["Boundaries and types"].alt
    )
    assert found["Entities by whether training had them"].rows == [
        ("seen in training", 1.0, 1),
        ("not seen in training", 0.0, 3),
    ]
    assert found["Most frequent invented entities"].rows == [("nothing", "LOC", 1)]
    assert found["Most frequent invented entities"].has_texts
    rows = {row[0]: row[1:] for row in found["Scores of each type"].rows}
    assert rows["LOC"] == (0.5, 0.5, 0.5, 2, 2)
    assert rows["ORG"] == (0.0, 0.0, 0.0, 1, 2)


def test_the_terms_of_f1_are_those_of_seqeval():
    values, function, *_ = f1_terms(OWN, TRUE, strict=False)
    score = metrics.compute("seqeval", OWN, TRUE)["overall_f1"]
    assert float(function(*values.mean(axis=0))) == pytest.approx(score)
    assert values.sum(axis=0).tolist() == [
        sum(each[position] for each in count_entities(OWN, TRUE).values()) for position in range(3)
    ]


def test_mistakes_of_entities_mark_both_sides():
    sure = [np.full(len(row), 0.9 - number / 10) for number, row in enumerate(WORDS)]
    found = entity_mistakes(WORDS, TRUE, OWN, sure, strict=False)
    assert [each.row for each in found] == [0, 1, 2]
    assert (found[0].true, found[0].predicted) == ("Ada Lovelace (PER); London (LOC)", "Ada (PER); London (LOC)")
    shown = [(piece.text, piece.style) for piece in pieces(*found[0].texts[0][1:])]
    assert shown == [("Ada", "both"), (" Lovelace", "true"), (" in ", ""), ("London", "both")]
    assert known_texts(WORDS, TRUE, False) == {"ada lovelace", "london", "the times", "paris"}


def decoded(text: str, score: float, null: float, start: int = 0) -> Decoded:
    return Decoded((Span(text, start, start + len(text), score, 0.0, 0.9),), null, 0.0, 0.05)


ANSWERS = [
    {"text": ["Paris"], "answer_start": [4]},
    {"text": [], "answer_start": []},
    {"text": ["in May", "May"], "answer_start": [0, 3]},
    {"text": [], "answer_start": []},
]
DECODED = [decoded("Paris", 5, 1, 4), decoded("Rome", 4, 2), decoded("May", 1, 3), decoded("x", 0, 6)]


def test_the_threshold_curve_has_the_best_score_of_the_metric():
    odds = np.array([each.null_odds for each in DECODED])
    at, matches, f1s = threshold_curve(ANSWERS, DECODED, odds)
    predictions = [
        {"id": str(n), "prediction_text": each.spans[0].text, "no_answer_probability": each.null_odds}
        for n, each in enumerate(DECODED)
    ]
    references = [{"id": str(n), "answers": each} for n, each in enumerate(ANSWERS)]
    scores = metrics.compute("squad_v2", predictions, references, no_answer_threshold=0.0)
    assert max(matches) == pytest.approx(scores["best_exact"])
    assert max(f1s) == pytest.approx(scores["best_f1"])
    assert at[np.argmax(f1s)] == pytest.approx(scores["best_f1_thresh"])
    table = parts(question_sections(["Where?"] * 4, ANSWERS, DECODED, 0.0))["Scores by answerability"]
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["all questions"] == pytest.approx((scores["exact"], scores["f1"], 4))
    assert rows["with an answer"] == pytest.approx((scores["HasAns_exact"], scores["HasAns_f1"], 2))
    assert rows["without an answer"] == pytest.approx((scores["NoAns_exact"], scores["NoAns_f1"], 2))


def test_question_words_and_lengths():
    found = parts(question_sections(["In what city?", "Who?", "How long?", "Name it."], ANSWERS, DECODED, 0.0))
    alt = found["F1 by question word"].alt
    assert all(word in alt for word in ("what 100.000 (1)", "who 0.000 (1)", "how 0.000 (1)", "other 100.000 (1)"))
    assert "no answer 50.000 (2); 1 50.000 (2)" in found["F1 by length of the shortest answer"].alt


def test_no_answer_to_an_answer_of_articles_is_wrong():
    """The official scorer of SQuAD 2.0 gives 0 to no answer where there is one, though "the" has no words."""
    answers = [{"text": ["the"], "answer_start": [0]}]
    [silent] = [decoded("a", 1, 2)]
    given = [{"id": "0", "prediction_text": "a", "no_answer_probability": silent.null_odds}]
    scores = metrics.compute("squad_v2", given, [{"id": "0", "answers": answers[0]}], no_answer_threshold=0.0)
    [row, _] = parts(question_sections(["Where?"], answers, [silent], 0.0))["Scores by answerability"].rows
    assert row[1:3] == (scores["exact"], scores["f1"]) == (0.0, 0.0)


def test_equal_answers_are_not_wrong():
    """SQuAD 1.1 gives an F1 of 0 to two equal answers without words."""
    answers = [{"text": ["the"], "answer_start": [0]}]
    assert answer_mistakes(["Where?"], ["the end"], answers, [decoded("the", 2, 0)], None) == []


def test_the_threshold_of_the_scores_is_in_its_chart():
    chart = parts(question_sections(["Where?"] * 4, ANSWERS, DECODED, -20.0))["Threshold of no answer"]
    axes = drawn(chart)
    low, high = axes.get_xlim()
    assert low < -20 < high
    assert axes.get_ylim()[0] == 0
    assert all(line.get_xdata()[0] <= low for line in axes.get_lines()[:2])  # the scores there are drawn


FREQUENCIES = [((11, 14, 44), "linear"), ((2, 50, 900), "log"), ((0, 5, 9), "linear")]


@pytest.mark.parametrize(("frequency", "scale"), FREQUENCIES)
def test_frequencies_of_classes_have_ticks(frequency, scale):
    labels, names = np.array([0, 1, 2]), ["a", "b", "c"]
    sections = class_sections(labels, np.eye(3), labels, names, np.array(frequency))
    axes = drawn(parts(sections)["F1 by frequency of the class"])
    assert axes.get_xscale() == scale
    low, high = axes.get_xlim()
    assert len([tick for tick in axes.get_xticks() if low <= tick <= high]) >= 3
    assert axes.get_ylim()[0] == 0


def test_a_reliability_diagram_says_what_it_counts():
    labels = np.array([[1, 0], [0, 1], [1, 1]])
    sections = class_sections(labels, labels * 0.9, labels, ["a", "b"], None)
    below = drawn(parts(sections)["Reliability of the probabilities"]).figure.axes[1]
    assert below.get_ylabel() == "labels"
    assert sum(bar.get_height() for bar in below.patches) == labels.size


def test_wrong_answers_keep_their_marks_in_the_excerpt():
    context = f"{'before ' * 100}Rome and {'between ' * 3}May {'after ' * 100}"
    answers = [{"text": ["May"], "answer_start": [context.index("May")]}]
    [found] = answer_mistakes(["When?"], [context], answers, [decoded("Rome", 4, 2, context.index("Rome"))], None)
    _, text, marks = found.texts[1]
    assert {mark.side: text[mark.start : mark.end] for mark in marks} == {"true": "May", "predicted": "Rome"}
    assert text.startswith("…")
    assert text.endswith("…")


def test_long_texts_are_cut_around_the_first_mark():
    shown = pieces("a" * 5_000 + "HIT" + "b" * 5_000, [Mark(5_000, 5_003, "predicted", "X")])
    assert sum(len(piece.text) for piece in shown) < 800
    assert [(piece.text, piece.label) for piece in shown if piece.style] == [("HIT", "X")]
    assert shown[-1].text == " … (9,303 more characters)"
