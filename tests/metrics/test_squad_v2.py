"""SQuAD 2.0's scores: every branch of the official scorer by hand, and its thresholds against trying all of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertkit import metrics
from bertkit.runtime.errors import DataError

Row = tuple[str, float, list[str]]  # predicted text, odds of no answer, answers


def score(*rows: Row, **options: float) -> dict[str, float]:
    predictions, references = [], []
    for index, (text, odds, answers) in enumerate(rows):
        predictions.append({"id": str(index), "prediction_text": text, "no_answer_probability": odds})
        references.append(reference(index, answers))
    return metrics.load("squad_v2").compute(predictions=predictions, references=references, **options)


def reference(key: object, answers: list[str]) -> dict[str, Any]:
    return {"id": str(key), "answers": {"text": answers, "answer_start": [0] * len(answers)}}


def test_a_worked_set():
    """Right; half right (P 1, R 1/3: F1 1/2); unanswerable and left empty; unanswerable and answered."""
    rows: list[Row] = [
        ("park", 0.1, ["the park"]),
        ("red", 0.2, ["red brick house"]),
        ("", 0.9, []),
        ("blue", 0.6, []),
    ]
    found = score(*rows)
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
    assert [score(*rows, no_answer_threshold=value)["exact"] for value in (0.5, 0.49)] == [50.0, 50.0]
    assert [score(*rows, no_answer_threshold=value)["HasAns_exact"] for value in (0.5, 0.49)] == [100.0, 0.0]
    assert score(("park", 1.5, ["park"]))["exact"] == 0.0  # the official default threshold is 1 for all odds


def test_scores_only_of_kinds_that_occur():
    assert not [name for name in score(("x", 0.0, ["x"])) if name.startswith("NoAns")]
    assert not [name for name in score(("x", 0.0, [])) if name.startswith("HasAns")]


def test_an_answer_that_is_all_articles_is_none():
    assert score(("", 0.0, ["the"]))["exact"] == 100.0  # and yet the question counts as answerable
    assert score(("", 0.0, ["the"]))["HasAns_total"] == 1
    assert score(("the", 0.0, []))["f1"] == 100.0
    assert score(("x", 0.0, ["the", "x"]))["exact"] == 100.0


def test_threshold_is_0_where_no_answer_is_best():
    found = score(("x", -3.0, []), ("y", -2.0, ["z"]))
    assert (found["best_exact"], found["best_exact_thresh"]) == (50.0, 0.0)


def test_equal_odds_are_taken_one_by_one():
    """A quirk of the official scorer: the first alone would be best, though no threshold can say so."""
    found = score(("x", 0.5, ["x"]), ("y", 0.5, []))
    assert (found["best_exact"], found["best_exact_thresh"]) == (100.0, 0.5)
    assert found["exact"] == 50.0


def test_odds_keep_their_digits():
    odds = -7.123456789012345
    assert score(("x", odds, ["x"]))["best_f1_thresh"] == odds


def test_missing_prediction_is_left_out():
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
    found = score(*given_rows)
    for name in ("exact", "f1"):
        tried = {value: score(*given_rows, no_answer_threshold=value)[name] for value in [*odds, -9.0]}
        assert found[f"best_{name}"] == pytest.approx(max(tried.values()))
        threshold = found[f"best_{name}_thresh"]
        if threshold in odds:
            assert tried[threshold] == pytest.approx(found[f"best_{name}"])
        else:
            assert threshold == 0.0
            assert tried[-9.0] == pytest.approx(found[f"best_{name}"])
