"""Cross-validated heads and the choice among them."""

from __future__ import annotations

import numpy as np
import pytest

from bertkit.features.choosing.measuring import STRENGTHS, Head, choose_head, cross_validate
from bertkit.runtime.progress import unreported


def accuracy(predictions, references):
    return float(np.mean(np.asarray(predictions) == np.asarray(references)))


def test_the_luckiest_of_many_heads_is_not_the_score():
    generator = np.random.default_rng(0)
    references, folds = generator.integers(0, 2, 200), np.arange(200) % 5
    predictions = {
        Head(layer, "mean", strength): generator.integers(0, 2, 200)
        for layer in range(100)
        for strength in (100.0, 10.0)
    }
    predicted, _, by_layer = choose_head(predictions, references, folds, accuracy)
    assert max(by_layer["mean"]) > 0.57  # of the best of 200 that know nothing
    assert accuracy(predicted, references) < 0.55


def test_embeddings_are_scored_but_not_chosen():
    references, folds = np.arange(40) % 2, np.arange(40) // 10
    half = np.where(np.arange(40) % 4 == 0, 1, references)  # a quarter is wrong
    predictions = {
        Head(layer, "mean", strength): references if layer == 0 else half for layer in (0, 1) for strength in STRENGTHS
    }
    predicted, best, by_layer = choose_head(predictions, references, folds, accuracy)
    assert by_layer["mean"] == [1.0, 0.75]
    assert best.layer == 1
    assert predicted == half.tolist()


@pytest.mark.parametrize(("problem", "classes"), [("class", 2), ("labels", 2), ("number", 1)])
def test_labels_of_a_fold_do_not_reach_its_predictions(problem, classes):
    generator = np.random.default_rng(0)
    vectors, folds = {"mean": generator.normal(size=(2, 60, 4)).astype(np.float32)}, np.arange(60) % 3
    targets = (vectors["mean"][1, :, 0] > 0).astype(np.int64)
    given = {"class": targets, "labels": np.stack([targets, 1 - targets], axis=1), "number": targets.astype(float)}[
        problem
    ]
    changed = given.copy()
    changed[folds == 1] = 1 - changed[folds == 1]
    one, two = (
        cross_validate(vectors, each, folds, classes, unreported)[Head(1, "mean", 10.0)] for each in (given, changed)
    )
    assert one.shape == (60, classes)
    assert np.array_equal(one[folds == 1], two[folds == 1])
    assert not np.allclose(one[folds == 0], two[folds == 0])
    predicted = one.argmax(axis=1) if problem == "class" else one[:, 0] > (0 if problem == "labels" else 0.5)
    assert accuracy(predicted, targets) > 0.85


def test_a_class_without_examples_is_never_predicted():
    vectors = {"mean": np.random.default_rng(0).normal(size=(1, 30, 3)).astype(np.float32)}
    targets, folds = np.array([0, 2] * 15), np.arange(30) % 3
    logits = cross_validate(vectors, targets, folds, 4, unreported)[Head(0, "mean", 10.0)]
    assert not np.isin(logits.argmax(axis=1), [1, 3]).any()
    assert np.isfinite(logits[:, [0, 2]]).all()


def test_a_head_for_one_class_predicts_it():
    vectors = {"mean": np.ones((1, 6, 2), np.float32)}
    logits = cross_validate(vectors, np.ones(6, np.int64), np.arange(6) % 2, 2, unreported)
    assert (logits[Head(0, "mean", 100.0)].argmax(axis=1) == 1).all()
