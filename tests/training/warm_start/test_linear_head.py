"""Linear heads on frozen vectors."""

from __future__ import annotations

import numpy as np
import pytest

from bertkit.training.warm_start.linear_head import fit_by_folds, fit_head

ROWS = 240


@pytest.fixture
def vectors():
    """Vectors whose numbers have very different scales and places."""
    generator = np.random.default_rng(0)
    return generator.normal(size=(ROWS, 6)) * [1, 10, 0.1, 1, 1, 100] + [0, 50, 0, -3, 0, 1000]


def targets_of(problem, vectors):
    sides = (vectors[:, :2] > np.median(vectors[:, :2], axis=0)).astype(np.int64)
    return {"two": sides[:, 0], "four": 2 * sides[:, 0] + sides[:, 1], "labels": sides, "number": vectors[:, 1] / 10}[
        problem
    ]


@pytest.mark.parametrize(("problem", "outputs"), [("two", 2), ("four", 4), ("labels", 2), ("number", 1)])
def test_a_head_of_vectors_as_they_are_tells_what_decides(problem, outputs, vectors):
    targets = targets_of(problem, vectors)
    logits = fit_head(vectors[:180], targets[:180], outputs, 1.0).logits(vectors[180:])
    assert logits.shape == (60, outputs)
    expected = targets[180:]
    if problem == "number":
        assert np.abs(logits[:, 0] - expected).mean() < 0.1
    else:
        predicted = logits > 0 if problem == "labels" else logits.argmax(axis=1)
        assert (predicted == expected).mean() > 0.9


@pytest.mark.parametrize("outputs", [3, 4])
def test_a_class_without_rows_is_never_the_most_probable(outputs, vectors):
    targets = targets_of("two", vectors)  # of more classes
    logits = fit_head(vectors, targets, outputs, 1.0).logits(vectors)
    assert set(logits.argmax(axis=1)) == {0, 1}
    assert np.isfinite(logits).all()


def test_a_label_that_all_rows_have_is_probable(vectors):
    labels = np.stack([np.ones(ROWS), np.zeros(ROWS)], axis=1)
    assert (np.sign(fit_head(vectors, labels, 2, 1.0).logits(vectors)) == [1, -1]).all()


def test_the_strength_follows_the_rows():
    generator = np.random.default_rng(1)
    noise = generator.normal(size=(90, 60))
    folds = np.arange(90) % 5
    random, _ = fit_by_folds(noise, generator.integers(0, 2, 90), folds, 2)
    told, held_out = fit_by_folds(noise, (noise[:, 0] > 0).astype(np.int64), folds, 2)
    assert random.strength == 100 > told.strength
    assert ((held_out[:, 1] > 0) == (noise[:, 0] > 0)).mean() > 0.7


def test_labels_of_a_fold_do_not_reach_its_logits(vectors):
    targets, folds = targets_of("two", vectors), np.arange(ROWS) % 3
    changed = np.where(folds == 1, 1 - targets, targets)
    (_, one), (_, two) = (fit_by_folds(vectors, each, folds, 2, strengths=[1.0]) for each in (targets, changed))
    assert np.array_equal(one[folds == 1], two[folds == 1])
    assert not np.allclose(one[folds == 0], two[folds == 0])


def test_one_fold_takes_the_strongest_penalty(vectors):
    head, held_out = fit_by_folds(vectors, targets_of("two", vectors), np.zeros(ROWS), 2)
    assert head.strength == 100
    assert np.isnan(held_out).all()
