"""Remarks on predictions: what is said, in which number, and when nothing is said."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bertkit.reporting.charts import not_finite, still_falls
from bertkit.reporting.classification import (
    class_sections,
    hardly_different,
    near_chance,
    never_predicted,
    regression_sections,
)
from bertkit.reporting.ner import entity_sections


@pytest.mark.parametrize(
    ("true", "predicted", "expected"),
    [
        ((3, 1, 0), (4, 0, 0), ["1 of 3 classes is never predicted: 'b' (1 example)."]),
        ((3, 1, 2), (6, 0, 0), ["2 of 3 classes are never predicted: 'b' (1 example), 'c' (2 examples)."]),
        ((3, 1, 2), (4, 1, 1), []),
    ],
)
def test_classes_that_are_never_predicted(true, predicted, expected):
    assert never_predicted("abc", np.array(true), np.array(predicted), what=("class", "classes")) == expected


def test_many_classes_are_not_all_listed():
    names = [f"c{number}" for number in range(12)]
    [remark] = never_predicted(names, np.ones(12, int), np.zeros(12, int), what=("class", "classes"))
    assert remark.endswith("'c7' (1 example) and 4 more.")


@pytest.mark.parametrize(("top", "is_said"), [(0.26, True), (0.35, True), (0.45, False), (0.99, False)])
def test_probabilities_near_chance(top, is_said):
    rest = (1 - top) / 3
    assert bool(near_chance(np.array([[top, rest, rest, rest]] * 5))) == is_said


def test_numbers_that_hardly_differ():
    true = np.array([-2.0, 0.0, 1.0, 2.5])
    assert hardly_different(0.2 + 0.001 * true, true)
    assert not hardly_different(0.2 + 0.3 * true, true)
    assert not hardly_different(np.ones(3), np.ones(3))


def test_sections_have_the_remarks_of_their_task():
    labels, names = np.array([0, 0, 1, 2]), ["a", "b", "c"]
    sure, unsure = np.eye(3)[[0, 0, 0, 2]], np.full((4, 3), 1 / 3)
    said = [
        [remark for section in class_sections(labels * 0, each, labels, names, None) for remark in section.remarks]
        for each in (sure, unsure)
    ]
    assert [len(remarks) for remarks in said] == [1, 2]
    own, given = np.array([[1, 0], [1, 0]]), np.array([[1, 1], [1, 0]])
    [several, _] = class_sections(own, np.ones((2, 2)), given, names[:2], None, ("label", "labels"))
    assert several.remarks == ["1 of 2 labels is never predicted: 'b' (1 example)."]
    assert regression_sections(np.array([0.2, 0.2001]), np.array([0.0, 5.0]))[0].remarks
    words, true, own = [["in", "Rome", "Ann"]], [["O", "B-LOC", "B-PER"]], [["O", "B-LOC", "O"]]
    assert entity_sections(words, true, own, False, None)[0].remarks == [
        "1 of 2 types is never predicted: 'PER' (1 example)."
    ]
    tags, own = np.array([0, 1, 1]), np.array([0, 0, 0])
    tag_section, _ = class_sections(own, np.eye(2)[own], tags, ["NOUN", "VERB"], None, ("tag", "tags"), "word")
    assert tag_section.remarks == ["1 of 2 tags is never predicted: 'VERB' (2 words)."]
    assert tag_section.title == "Tags"
    assert "1 of 3 words" in tag_section.parts[0].alt


def test_values_that_are_not_finite_are_said():
    norms, losses = [1.0, math.inf, 2.0, math.nan], [1.0, math.nan, 0.5]
    history = [{"step": 10 * step, "grad_norm": value} for step, value in enumerate(norms, start=1)]
    history += [{"step": 10 * step, "eval_loss": value} for step, value in enumerate(losses, start=1)]
    assert not_finite(history) == [
        "The gradient norm was not finite in 2 of 4 logs, first at step 20; its curve leaves this out.",
        "The validation loss was not finite in 1 of 3 logs, first at step 20; its curve leaves this out.",
    ]
    assert not_finite(history[:1]) == []


@pytest.mark.parametrize(
    ("losses", "is_said"),
    [
        ((1.4, 1.13, 0.89), True),
        ((1.4, 0.89, 1.13), False),
        ((0.7, 0.0140, 0.0136), False),  # the last part of a long way
        ((1.3853, 1.3845), False),  # it does not learn
        ((0.9,), False),
        ((), False),
    ],
)
def test_a_loss_that_still_falls_is_said(losses, is_said):
    assert bool(still_falls(losses)) == is_said
