"""Classification of any table: accuracy and macro F1, worked by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertkit import metrics


def test_a_rare_class_weighs_as_much_as_a_frequent_one():
    """Class 0: 2·6/(8+6). Class 2: never right, though true twice. Class 5: right. Classes 1, 3 and 4 do not occur."""
    scores = metrics.load("classification").compute(
        predictions=[0, 0, 0, 0, 0, 0, 0, 0, 5], references=[0, 0, 0, 0, 0, 0, 2, 2, 5]
    )
    assert scores == pytest.approx({"accuracy": 7 / 9, "f1_macro": (12 / 14 + 0 + 1) / 3})


def test_all_right_is_1_however_few_classes_occur():
    scores = metrics.load("classification").compute(predictions=[3, 3], references=[3, 3])
    assert scores == {"accuracy": 1.0, "f1_macro": 1.0}


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-1, 2), st.integers(-1, 2)), min_size=1, max_size=12))
def test_scores_are_their_definitions_for_any_few_examples(pairs):
    predictions, references = zip(*pairs, strict=True)
    f1 = []
    for each in {*predictions, *references}:
        right = sum(pair == (each, each) for pair in pairs)
        f1.append(2 * right / (predictions.count(each) + references.count(each)))
    scores = metrics.load("classification").compute(predictions=predictions, references=references)
    accuracy = sum(predicted == actual for predicted, actual in pairs) / len(pairs)
    assert scores == pytest.approx({"accuracy": accuracy, "f1_macro": sum(f1) / len(f1)}, rel=1e-12)
