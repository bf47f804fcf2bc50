"""Which rows are chosen, and why."""

from __future__ import annotations

import numpy as np

from bertkit.features.next.rows import margins, reasons, select_rows


def test_margins_are_of_the_two_most_probable_classes():
    chances = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    np.testing.assert_allclose(margins(chances), [0.2, 0.7])


def test_one_row_of_each_group_of_rows_is_chosen_and_the_most_unsure_comes_first():
    chances = np.array([[0.5, 0.5], [0.5, 0.5], [0.7, 0.3], [0.69, 0.31]])
    vectors = np.array([[1.0, 0.0], [0.999, 0.01], [0.0, 1.0], [0.01, 0.999]])
    chosen, _ = select_rows(chances, vectors, np.zeros((0, 2)), 2)
    assert chosen[0] in (0, 1)
    assert chosen[1] in (2, 3)


def test_chosen_rows_are_of_the_more_unsure_half():
    generator = np.random.default_rng(0)
    sure = np.arange(400) < 200
    chances = np.where(sure[:, None], [1.0, 0.0], [0.5, 0.5])
    chosen, _ = select_rows(chances, generator.standard_normal((400, 4)), np.zeros((0, 4)), 10)
    assert not sure[chosen].any()
    assert len(set(chosen.tolist())) == 10


def test_similarities_are_to_the_nearest_labelled_row():
    vectors = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    _, similarities = select_rows(np.full((3, 2), 0.5), vectors, np.array([[2.0, 0.0]]), 3)
    np.testing.assert_allclose(similarities, [1, 0, 2**-0.5])


def test_every_row_is_chosen_once_even_if_all_are_sure_and_alike():
    chances, vectors = np.tile([1.0, 0.0], (5, 1)), np.ones((5, 3))
    assert sorted(select_rows(chances, vectors, vectors[:2], 5)[0].tolist()) == [0, 1, 2, 3, 4]
    chances = np.array([[0.5, 0.5], [0.52, 0.48], [0.54, 0.46], [0.6, 0.4]])
    vectors = np.array([[1.0, 0.0]] * 3 + [[0.0, 1.0]])  # a copy takes the place of an empty cluster
    assert select_rows(chances, vectors, vectors[:0], 3)[0].tolist() == [0, 1, 3]


def test_reasons_name_the_classes_and_rows_that_are_like_no_labelled_one():
    chances = np.array([[0.5, 0.45, 0.05], [0.4, 0.35, 0.25], [0.9, 0.05, 0.05]] + [[0.9, 0.05, 0.05]] * 9)
    similarities = np.array([0.9, 0.1, *[0.8] * 10])
    said = reasons(chances, similarities, np.array([0, 1, 2]), ["refund", "exchange", "other"])
    assert said == [
        "unsure between refund and exchange",
        "unsure among refund, exchange and other; unlike all labelled rows",
        "stands for a group of similar rows",
    ]
