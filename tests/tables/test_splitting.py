"""Rows held out of a training set, and rows that stand in two sets."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertkit.tables.splits import hold_out, repeated


@given(
    classes=st.lists(st.sampled_from("aaaaabbc"), min_size=1, max_size=120),
    fraction=st.floats(0.01, 0.99),
    seed=st.integers(0, 2**32 - 1),
)
def test_hold_out_is_stratified_complete_and_repeatable(classes, fraction, seed):
    kept, held = hold_out(classes, len(classes), fraction, seed)
    assert sorted(kept + held) == list(range(len(classes)))
    assert kept == sorted(kept)
    assert held == sorted(held)
    assert (kept, held) == hold_out(list(classes), len(classes), fraction, seed)
    total, found = Counter(classes), Counter(classes[row] for row in held)
    for name, count in total.items():
        assert abs(found[name] - fraction * count) <= 0.5 or found[name] == count - 1
        assert found[name] < count


@given(rows=st.integers(1, 200), fraction=st.floats(0.01, 0.99), seed=st.integers(0, 1000))
def test_without_classes_all_rows_are_alike(rows, fraction, seed):
    assert hold_out(None, rows, fraction, seed) == hold_out(["one"] * rows, rows, fraction, seed)


def test_a_worked_example():
    """A tenth of twenty and of ten rows: two and one; a class of one row stays to be trained on."""
    classes = ["a"] * 20 + ["b"] * 10 + ["rare"]
    _, held = hold_out(classes, 31, 0.1, seed=42)
    assert Counter(classes[row] for row in held) == {"a": 2, "b": 1}


def test_the_seed_decides_which_rows():
    drawn = {tuple(hold_out(None, 100, 0.1, seed)[1]) for seed in range(20)}
    assert len(drawn) == 20
    # Every row's turn comes: 20 draws of 10 of 100 miss a given row with probability 0.9 ** 20 = 0.12.
    assert len({row for rows in drawn for row in rows}) > 70


@pytest.mark.parametrize(("rows", "fraction"), [(1, 0.5), (4, 0.1), (1, 0.99)])
def test_too_few_rows_give_none_to_hold_out(rows, fraction):
    assert hold_out(None, rows, fraction, 0) == (list(range(rows)), [])


def test_repeated_rows_have_all_texts_equal():
    assert repeated([["a", "b", "c"]], [["x", "b", "a", "b"]]) == [1, 2, 3]
    assert repeated([["a", "b"], ["1", "2"]], [["a", "a", "b"], ["2", "1", "2"]]) == [1, 2]
    assert repeated([["a"]], [["A", "a "]]) == []
