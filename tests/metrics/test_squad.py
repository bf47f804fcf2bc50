"""Scores of SQuAD 1.1 against an independent reading of the official rules, and of 2.0 by hand, with its thresholds
against trying all of them."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertkit import metrics
from bertkit.metrics.squad import normalize_answer
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
    return metrics.compute("squad", predictions, references)


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


@pytest.mark.parametrize("answers", [["y", "x"], []])
def test_answers_may_be_an_array_as_in_pandas(answers):
    predictions = [{"id": "0", "prediction_text": "x", "no_answer_probability": 0.0}]
    array = {"id": "0", "answers": {"text": np.array(answers, dtype=object)}}
    expected = metrics.compute("squad_v2", predictions, [reference(0, answers)])
    assert metrics.compute("squad_v2", predictions, [array]) == expected
    if answers:
        assert metrics.compute("squad", predictions, [array]) == {"exact_match": 100.0, "f1": 100.0}


def test_what_cannot_be_scored_is_refused():
    with pytest.raises(DataError, match=r"1 of 2 questions have no answer .* '1'; squad_v2 scores such"):
        score(("x", ["x"]), ("y", []))
    with pytest.raises(DataError, match="nothing to score"):
        metrics.load("squad").compute(predictions=[], references=[])


ANSWERS = st.lists(st.sampled_from(["a", "b", "c", "the", "-", "é."]), max_size=4).map(" ".join)


@given(st.lists(st.tuples(ANSWERS, st.lists(ANSWERS, min_size=1, max_size=3)), min_size=1, max_size=5))
def test_scores_are_means_of_the_best_over_answers(pairs):
    f1 = [max(f1_by_hand(text, answer) for answer in answers) for text, answers in pairs]
    exact = [words_by_hand(text) in map(words_by_hand, answers) for text, answers in pairs]
    expected = {"exact_match": 100 * sum(exact) / len(pairs), "f1": 100 * sum(f1) / len(pairs)}
    assert score(*pairs) == pytest.approx(expected)


# ---- 2.0 ------------------------------------------------------------------------------------------------------------

Row = tuple[str, float, list[str]]  # predicted text, odds of no answer, answers


def score_v2(*rows: Row, **options: float) -> dict[str, float]:
    predictions = [
        {"id": str(index), "prediction_text": text, "no_answer_probability": odds}
        for index, (text, odds, _) in enumerate(rows)
    ]
    references = [reference(index, answers) for index, (*_, answers) in enumerate(rows)]
    return metrics.load("squad_v2").compute(predictions=predictions, references=references, **options)


def test_a_worked_set_of_2_0():
    """Right; half right (P 1, R 1/3: F1 1/2); unanswerable and left empty; unanswerable and answered."""
    rows: list[Row] = [
        ("park", 0.1, ["the park"]),
        ("red", 0.2, ["red brick house"]),
        ("", 0.9, []),
        ("blue", 0.6, []),
    ]
    found = score_v2(*rows)
    assert found == {
        "exact": 50.0,
        "f1": pytest.approx(62.5),
        "total": 4,
        "HasAns_exact": 50.0,
        "HasAns_f1": pytest.approx(75.0),
        "HasAns_total": 2,
        "NoAns_exact": 50.0,
        "NoAns_f1": 50.0,
        "NoAns_total": 2,
        # Two unanswerable ones are right with no answer at all; the first answer adds 1, the second 1/2 to F1 and
        # nothing to exact match, the fourth takes 1 away.
        "best_exact": 75.0,
        "best_exact_thresh": 0.1,
        "best_f1": 87.5,
        "best_f1_thresh": 0.2,
    }


def test_odds_above_threshold_mean_no_answer():
    rows: list[Row] = [("park", 0.5, ["park"]), ("park", 0.5, [])]
    assert [score_v2(*rows, no_answer_threshold=value)["exact"] for value in (0.5, 0.49)] == [50.0, 50.0]
    assert [score_v2(*rows, no_answer_threshold=value)["HasAns_exact"] for value in (0.5, 0.49)] == [100.0, 0.0]
    assert score_v2(("park", 1.5, ["park"]))["exact"] == 0.0  # the official default threshold is 1 for all odds


def test_scores_only_of_kinds_that_occur():
    assert not [name for name in score_v2(("x", 0.0, ["x"])) if name.startswith("NoAns")]
    assert not [name for name in score_v2(("x", 0.0, [])) if name.startswith("HasAns")]


def test_an_answer_that_is_all_articles_is_none():
    assert score_v2(("", 0.0, ["the"]))["exact"] == 100.0  # and yet the question counts as answerable
    assert score_v2(("", 0.0, ["the"]))["HasAns_total"] == 1
    assert score_v2(("the", 0.0, []))["f1"] == 100.0
    assert score_v2(("x", 0.0, ["the", "x"]))["exact"] == 100.0


def test_threshold_is_0_where_no_answer_is_best():
    found = score_v2(("x", -3.0, []), ("y", -2.0, ["z"]))
    assert (found["best_exact"], found["best_exact_thresh"]) == (50.0, 0.0)


def test_equal_odds_are_taken_one_by_one():
    """A quirk of the official scorer: the first alone would be best, though no threshold can say so."""
    found = score_v2(("x", 0.5, ["x"]), ("y", 0.5, []))
    assert (found["best_exact"], found["best_exact_thresh"]) == (100.0, 0.5)
    assert found["exact"] == 50.0


def test_odds_keep_their_digits():
    odds = -7.123456789012345
    assert score_v2(("x", odds, ["x"]))["best_f1_thresh"] == odds


def test_missing_prediction_is_left_out_in_2_0():
    metric = metrics.load("squad_v2")
    predictions = [{"id": key, "prediction_text": "x", "no_answer_probability": 0.0} for key in ("0", "9")]
    with pytest.warns(UserWarning, match=r"1 of 2 questions have no prediction, they are left out; .* '1'"):
        found = metric.compute(predictions=predictions, references=[reference(0, ["x"]), reference(1, [])])
    assert (found["exact"], found["best_exact"], found["total"]) == (100.0, 100.0, 1)
    with pytest.raises(DataError, match="no prediction has the id of a question"):
        metric.compute(predictions=predictions[1:], references=[reference(1, ["x"])])


ROWS = st.lists(
    st.tuples(st.sampled_from(["x", "x y", "z", ""]), st.sampled_from([["x"], ["x y"], []])), min_size=1, max_size=7
)


@settings(max_examples=30)
@given(rows=ROWS, data=st.data())
@pytest.mark.slow
def test_the_best_threshold_is_the_best_of_all(rows, data):
    odds = data.draw(st.permutations([-4.5, -3.0, -1.5, -0.25, 0.5, 0.75, 2.0]))[: len(rows)]
    given_rows = [(text, value, answers) for (text, answers), value in zip(rows, odds, strict=True)]
    found = score_v2(*given_rows)
    for name in ("exact", "f1"):
        tried = {value: score_v2(*given_rows, no_answer_threshold=value)[name] for value in [*odds, -9.0]}
        assert found[f"best_{name}"] == pytest.approx(max(tried.values()))
        threshold = found[f"best_{name}_thresh"]
        if threshold in odds:
            assert tried[threshold] == pytest.approx(found[f"best_{name}"])
        else:
            assert threshold == 0.0
            assert tried[-9.0] == pytest.approx(found[f"best_{name}"])
