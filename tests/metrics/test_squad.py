"""SQuAD 1.1's scores, by hand and against an independent reading of the official rules."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertkit import metrics
from bertkit.metrics.squad import exact, f1, f1_or_both_empty, normalize_answer
from bertkit.runtime.errors import DataError

PUNCTUATION = set("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")


def words_by_hand(answer: str) -> list[str]:
    """Letter by letter: an article counts where no letter, digit or underscore of any script stands beside it."""
    kept = "".join(sign for sign in answer.lower() if sign not in PUNCTUATION)
    parts = re.split(r"(\W)", kept)
    return "".join(" " if part in ("a", "an", "the") else part for part in parts).split()


def f1_by_hand(prediction: str, answer: str) -> float:
    left, right = Counter(words_by_hand(prediction)), Counter(words_by_hand(answer))
    both = sum(min(left[word], right[word]) for word in left)
    return 2 * both / (left.total() + right.total()) if both else 0.0


def score(*pairs: tuple[str, list[str]]) -> dict[str, float]:
    predictions = [{"id": str(index), "prediction_text": text} for index, (text, _) in enumerate(pairs)]
    references = [reference(index, answers) for index, (_, answers) in enumerate(pairs)]
    return metrics.load("squad").compute(predictions=predictions, references=references)


def reference(key: object, answers: list[str]) -> dict[str, Any]:
    return {"id": str(key), "answers": {"text": answers, "answer_start": [0] * len(answers)}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("The Park", "park"),
        ("a  an\tthe", ""),
        ("Eiffel-Tower", "eiffeltower"),
        ("U.S.A.", "usa"),
        ("“Été” – l’an", "“été” – l’"),  # only ASCII's punctuation goes; ’ is no letter, so that "an" is an article
        ("theatre", "theatre"),
        ("A+", ""),
        ("$5,000.00", "500000"),
        ("x\u00a0y", "x y"),
        ("İ", "i\u0307"),  # lower case of it has two characters
        ("¿la?", "¿la"),
    ],
)
def test_answers_are_normalized_as_the_official_scorer_does(given, expected):
    assert normalize_answer(given) == expected


@given(st.text(st.sampled_from("aAnthe TH-.'’é_1\u00a0\u0301中"), max_size=14))
def test_normalization_is_that_of_the_rules(text):
    assert normalize_answer(text).split() == words_by_hand(text)


@given(*[st.text(st.sampled_from("ab the.-é"), max_size=12)] * 2)
def test_f1_is_that_of_the_rules(prediction, answer):
    assert f1(prediction, answer) == pytest.approx(f1_by_hand(prediction, answer))
    assert exact(prediction, answer) == (words_by_hand(prediction) == words_by_hand(answer))
    both_empty = not words_by_hand(prediction) and not words_by_hand(answer)
    assert f1_or_both_empty(prediction, answer) == (1.0 if both_empty else f1(prediction, answer))


def test_worked_scores():
    """Exact of the second answer; two of three words (P 1, R 2/3); nothing. F1: 1, 4/5, 0."""
    found = score(("The park", ["garden", "park!"]), ("red house", ["red brick house"]), ("x", ["y"]))
    assert found == {"exact_match": pytest.approx(100 / 3), "f1": pytest.approx(100 * 1.8 / 3)}


def test_articles_alone_are_equal_without_common_word():
    assert score(("the", ["a"])) == {"exact_match": 100.0, "f1": 0.0}


def test_missing_prediction_counts_as_wrong():
    predictions = [{"id": "0", "prediction_text": "x"}, {"id": "9", "prediction_text": "x"}]
    with pytest.warns(UserWarning, match=r"1 of 2 questions have no prediction, they count as wrong; .* '1'"):
        found = metrics.load("squad").compute(
            predictions=predictions, references=[reference(0, ["x"]), reference(1, ["x"])]
        )
    assert found == {"exact_match": 50.0, "f1": 50.0}


def test_what_cannot_be_scored_is_refused():
    with pytest.raises(DataError, match=r"1 of 2 questions have no answer .* '1'; squad_v2 scores such"):
        score(("x", ["x"]), ("y", []))
    with pytest.raises(DataError, match="nothing to score"):
        metrics.load("squad").compute(predictions=[], references=[])


@settings(max_examples=20)
@given(st.lists(st.tuples(st.text("ab ", max_size=4), st.lists(st.text("ab ", max_size=4), min_size=1)), min_size=1))
def test_scores_are_means_of_the_best_over_answers(pairs):
    best = [max(f1_by_hand(text, answer) for answer in answers) for text, answers in pairs]
    assert score(*pairs)["f1"] == pytest.approx(100 * sum(best) / len(best))
