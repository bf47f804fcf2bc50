"""The tasks' sections, compared with hand-made examples and with the metrics."""

from __future__ import annotations

import numpy as np
import pytest

from bertkit import metrics
from bertkit.features.reporting.classification import class_sections, regression_sections
from bertkit.features.reporting.content import _score_by_length
from bertkit.features.reporting.ner import entity_sections, known_texts, span_mistakes
from bertkit.features.reporting.question_answering import answer_mistakes, question_sections, threshold_curve
from bertkit.features.reporting.reported import Mark, pieces
from bertkit.inference.outcome import Outcome
from bertkit.tasks.question_answering.decoding import Decoded, Span
from bertkit.tasks.registry import load_recipe, task_of_recipe
from tests.features.reporting.conftest import drawn

WORDS = [["Ada", "Lovelace", "in", "London"], ["the", "Times", "of", "Paris"], ["nothing", "here"]]
TRUE = [["B-PER", "I-PER", "O", "B-LOC"], ["B-ORG", "I-ORG", "O", "B-LOC"], ["O", "O"]]
OWN = [["B-PER", "O", "O", "B-LOC"], ["O", "B-ORG", "O", "B-ORG"], ["B-LOC", "O"]]


def parts(sections):
    return {part.title: part for section in sections for part in section.parts}


def test_entities_without_a_type_are_no_missing_ones():
    found = parts(entity_sections([["a", "b", "c"]], [["B", "O", "B"]], [["B", "B", "O"]], False, None))
    assert found["Types"].alt == "Confusion matrix of 2 classes: 1 of 3 entities on the diagonal."


def test_kinds_of_entity_errors_by_hand():
    """Two boundaries are wrong, a type is, one is spurious, one is right; "London" was in the training data."""
    found = parts(entity_sections(WORDS, TRUE, OWN, False, {"london"}))
    kinds = {"correct": 1, "wrong type": 1, "wrong boundary": 2, "wrong type and boundary": 0, "missing": 0}
    assert dict(found["Boundaries and types"].rows) == {**kinds, "spurious": 1}
    assert found["Entities by whether training had them"].rows == [
        ("seen in training", 1.0, 1),
        ("not seen in training", 0.0, 3),
    ]
    assert found["Most frequent spurious entities"].rows == [("nothing", "LOC", 1)]
    assert found["Most frequent spurious entities"].has_texts
    rows = {row[0]: row[1:] for row in found["Scores of each type"].rows}
    assert rows["LOC"] == (0.5, 0.5, 0.5, 2, 2)
    assert rows["ORG"] == (0.0, 0.0, 0.0, 1, 2)
    assert found["Types"].alt == "Confusion matrix of 4 classes: 3 of 5 entities on the diagonal."


def test_many_classes_of_few_examples_are_shown_in_groups():
    """One row of each of 30 classes: no table of 30 scores of 0 and 1, no confusions of one example each."""
    true, names = np.arange(30), [f"c{number}" for number in range(30)]
    own = np.where(true < 4, 29, true)
    found = parts(class_sections(own, np.eye(30)[own], true, names, np.full(30, 9)))
    assert "Scores of each class" not in found
    assert not {"Most frequent confusions", "ROC"} & set(found)
    groups = found["Classes by what is found"]
    assert groups.rows == [("none found", 4, 4, 9), ("all found", 26, 26, 9)]
    assert groups.note.startswith("Most classes have 1 example here")
    assert found["Classes with most errors"].rows == [
        ("c29", 1, 1, 5, 9),
        *((f"c{number}", 0, 1, 0, 9) for number in range(4)),
    ]


def test_a_few_classes_of_few_examples_keep_their_scores():
    true = np.array([0, 1, 2, 2])
    table = parts(class_sections(true, np.eye(3)[true], true, ["a", "b", "c"], None))["Scores of each class"]
    assert len(table.rows) == 3
    assert table.note.startswith("Most classes have 1 to 2 examples here")


def test_one_label_has_its_own_scores():
    """Not those of its absence, which scikit-learn lists first."""
    true, own = np.array([[1], [0], [0], [0]]), np.array([[1], [1], [0], [0]])
    [row] = parts(class_sections(own, own * 0.9, true, ["a"], None, ("label", "labels")))["Scores of each label"].rows
    assert row == ("a", 0.5, 1.0, pytest.approx(2 / 3), pytest.approx(0.5), 1, 2)


def test_sections_of_tags_count_words():
    true, own = np.arange(9), np.roll(np.arange(9), 1)
    names = [f"t{number}" for number in range(9)]
    found = parts(class_sections(own, np.eye(9)[own], true, names, None, ("tag", "tags"), "word"))
    assert found["Most frequent confusions"].columns == ("true", "predicted", "words", "share of the true tag")
    assert found["ROC"].note == "The 8 most frequent of 9 tags."


def test_mistakes_of_entities_mark_both_sides():
    sure = [np.full(len(row), 0.9 - number / 10) for number, row in enumerate(WORDS)]
    found = span_mistakes(WORDS, TRUE, OWN, sure, strict=False)
    assert [each.row for each in found] == [0, 1, 2]
    assert (found[0].true, found[0].predicted) == ("Ada Lovelace (PER)", "Ada (PER)")
    shown = [(piece.text, piece.style) for piece in pieces(*found[0].texts[0][1:])]
    assert shown == [("Ada", "both"), (" Lovelace", "true"), (" in London", "")]
    [plain, *_] = span_mistakes(WORDS, TRUE, OWN, sure, strict=None)
    assert (plain.true, plain.predicted) == ("Lovelace (I-PER)", "Lovelace (O)")
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


def test_the_threshold_curve_has_the_best_score():
    at, matches, f1s = threshold_curve(ANSWERS, DECODED)
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


def test_a_context_without_tokens_does_not_stretch_the_axis_of_thresholds():
    answers, given = [*ANSWERS, ANSWERS[1]], [*DECODED, Decoded((), 0.0, 0.0, 1.0)]
    found = parts(question_sections(["Where?"] * 5, answers, given, 0.0))
    low, high = drawn(found["Threshold of no answer"]).get_xlim()
    assert -5 < low < high < 7


def test_question_words_and_lengths():
    found = parts(question_sections(["In what city?", "Who's there?", "How long?", "Name it."], ANSWERS, DECODED, 0.0))
    words = {word: (f1, number) for word, _, f1, number in found["Scores by question word"].rows}
    assert words == {"what": (100, 1), "who": (0, 1), "how": (0, 1), "other": (100, 1)}
    lengths = found["Scores by length of the shortest answer"].rows
    assert [(row[0], *row[2:]) for row in lengths] == [("no answer", 50, 2), ("1", 50, 2)]


def test_equal_answers_are_not_wrong():
    """SQuAD 1.1 gives an F1 of 0 to two equal answers without words."""
    answers = [{"text": ["the"], "answer_start": [0]}]
    assert answer_mistakes(["Where?"], ["the end"], answers, [decoded("the", 2, 0)], None) == []


def test_a_confusion_matrix_has_shares_and_counts():
    labels, predicted = np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1])
    chart = parts(class_sections(predicted, np.eye(2)[predicted], labels, ["a", "b"], None))["Confusion matrix"]
    axes = drawn(chart)
    assert axes.images[0].get_array().tolist() == [[pytest.approx(2 / 3), pytest.approx(1 / 3)], [0, 1]]
    assert [text.get_text() for text in axes.texts] == ["2", "1", "0", "1"]


def test_a_confusion_matrix_says_what_is_not_in_it():
    """Rows of a class that is not in training count as wrong in the scores beside it."""
    labels, predicted = np.array([0, -1, 1, -1]), np.array([0, 0, 1, 1])
    chart = parts(class_sections(predicted, np.eye(2)[predicted], labels, ["a", "b"], None))["Confusion matrix"]
    assert chart.alt.endswith("2 of 2 examples on the diagonal.")
    assert chart.note.endswith(" Not in it: 2 examples of classes that are not in training.")


def test_rows_of_classes_that_are_all_not_in_training_have_no_confusion_matrix():
    labels, predicted = np.array([-1, -1]), np.array([0, 1])
    found = parts(class_sections(predicted, np.eye(2)[predicted], labels, ["a", "b"], None))
    assert "Confusion matrix" not in found
    assert [row[1:4] for row in found["Scores of each class"].rows] == [(0, 0, 0)] * 2


def test_curves_are_those_of_scikit_learn():
    labels, scores = np.array([0, 1, 0, 1]), np.array([0.1, 0.4, 0.5, 0.8])
    sections = class_sections((scores > 0.5) * 1, np.stack([1 - scores, scores], axis=1), labels, ["a", "b"], None)
    found = parts(sections)
    assert found["ROC"].alt == "ROC, AUC: b 0.750."
    [line] = drawn(found["ROC"]).get_lines()
    assert line.get_label() == "b · AUC 0.750"
    assert found["Precision and recall"].alt == "Precision and recall, AP: b 0.833."


def test_curves_of_labels_of_fasttext_are_named():
    """matplotlib takes names that begin with _ for those of lines without one."""
    labels, names = np.array([0, 1, 2, 0, 1, 2]), ["__label__a", "__label__b", "c"]
    found = parts(class_sections(labels, np.eye(3)[labels], labels, names, None))
    legend = [text.get_text() for text in drawn(found["ROC"]).get_legend().get_texts()]
    assert legend == ["__label__a · AUC 1.000", "__label__b · AUC 1.000", "c · AUC 1.000"]


def test_a_reliability_diagram_says_what_it_counts():
    labels = np.array([[1, 0], [0, 1], [1, 1]])
    sections = class_sections(labels, labels * 0.9, labels, ["a", "b"], None)
    axes = drawn(parts(sections)["Reliability of the probabilities"])
    assert "share of the labels" in [text.get_text() for text in axes.get_legend().get_texts()]
    assert sum(bar.get_height() for bar in axes.patches) == pytest.approx(1)


def test_a_reliability_diagram_shows_what_calibration_changed():
    labels = np.array([0, 1, 1])
    after, before = np.array([[0.7, 0.3], [0.4, 0.6], [0.8, 0.2]]), np.array([[0.99, 0.01], [0.05, 0.95], [1.0, 0.0]])
    sections = class_sections(after.argmax(axis=1), after, labels, ["a", "b"], None, before=before)
    chart = parts(sections)["Reliability of the probabilities"]
    assert chart.alt.endswith("error 0.5000, 0.3133 before calibration.")
    assert "before calibration, ECE 0.3133" in [text.get_text() for text in drawn(chart).get_legend().get_texts()]


def test_wrong_answers_are_marked_in_the_context():
    context = f"{'before ' * 100}Rome and {'between ' * 3}May {'after ' * 100}"
    answers = [{"text": ["May"], "answer_start": [context.index("May")]}]
    [mistake] = answer_mistakes(["When?"], [context], answers, [decoded("Rome", 4, 2, context.index("Rome"))], None)
    shown = pieces(*mistake.texts[1][1:])
    assert {piece.style: piece.text for piece in shown if piece.style} == {"true": "May", "predicted": "Rome"}
    assert sum(len(piece.text) for piece in shown) < len(context)


def test_long_texts_are_cut_around_the_first_mark():
    shown = pieces("a" * 5_000 + "HIT" + "b" * 5_000, [Mark(5_000, 5_003, "predicted", "X")])
    assert sum(len(piece.text) for piece in shown) < 800
    assert [(piece.text, piece.label) for piece in shown if piece.style] == [("HIT", "X")]
    assert shown[-1].text == " … (9,303 more characters)"


def test_undefined_correlations_are_no_nan():
    [section] = regression_sections(np.array([1.0, 1.0]), np.array([2e-5, 2e-5]))
    assert "Pearson undefined, Spearman undefined" in section.parts[0].alt
    assert dict(section.parts[2].rows)["Pearson's r"] == "undefined"


@pytest.mark.parametrize("passages", [1, 3])
def test_queries_of_several_passages_have_no_length(passages):
    """A group of pairs has parts of rankings, and the score of a query is that of its first pair."""
    pairs = [(f"film {query}", "word " * (1 + query + pair)) for query in range(12) for pair in range(passages)]
    task = task_of_recipe(load_recipe("finetune/reranking")).with_settings(text_columns=["query", "passage"])
    queries, texts = map(list, zip(*pairs, strict=True))
    labels = [float(number % passages == 0) for number in range(len(pairs))]
    examples = {"query": queries, "passage": texts}
    outcome = Outcome(task, np.arange(len(pairs))[:, None], {"labels": labels}, examples, "pairs.csv")
    assert (_score_by_length(outcome) is None) == (passages > 1)
