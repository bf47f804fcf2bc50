"""Folds and held-out rows: what stays together, shares of labels, and what cannot be divided."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertkit.data.tables import folds
from bertkit.data.tables.folds import assign_folds, joined
from bertkit.data.tables.table import copies_in_words, numbered, same_texts
from bertkit.runtime.errors import DataError

# ---- folds ----------------------------------------------------------------------------------------------------------


def table_of(found, labels, number):
    """Returns the number of rows of each label in each fold."""
    return [Counter(label for label, fold in zip(labels, found, strict=True) if fold == each) for each in range(number)]


@given(
    texts=st.lists(st.integers(0, 30), min_size=1, max_size=120),
    number=st.integers(2, 6),
    seed=st.integers(0, 2**32 - 1),
    data=st.data(),
)
def test_every_row_has_one_fold_and_copies_and_groups_share_theirs(texts, number, seed, data):
    rows, values = len(texts), np.array(texts)
    groups = data.draw(st.none() | st.lists(st.sampled_from("abcdefghijkl"), min_size=rows, max_size=rows))
    labels = data.draw(
        st.none()
        | st.lists(st.sampled_from("xxxxyyz"), min_size=rows, max_size=rows)
        | st.lists(st.none() | st.floats(allow_nan=True), min_size=rows, max_size=rows)
        | st.lists(st.sets(st.integers(0, 5)), min_size=rows, max_size=rows)
    )
    units = values if groups is None else joined(values, numbered(groups))
    arguments = {"seed": seed, "texts": values, "labels": labels, "groups": groups}
    if len(set(units.tolist())) < number:
        with pytest.raises(DataError, match=f"data.folds: {number} folds of {len(set(units.tolist()))} "):
            assign_folds(number, **arguments)
        return
    found = assign_folds(number, **arguments)
    assert set(found.tolist()) == set(range(number))
    for same in (texts, groups or texts):
        assert len(set(zip(same, found.tolist(), strict=True))) == len(set(same))
    assert np.array_equal(found, assign_folds(number, **arguments))


def test_folds_of_copies_have_the_shares_of_the_labels():
    texts = np.repeat(np.arange(60), 5)
    labels = np.repeat(["often", "often", "seldom"] * 20, 5).tolist()
    for seed in range(5):
        found = assign_folds(5, seed=seed, texts=texts, labels=labels)
        assert table_of(found, labels, 5) == [{"often": 40, "seldom": 20}] * 5


def spread(found, labels):
    """Returns the standard deviation of the shares of five folds in each of four labels, on average."""
    counts = np.zeros((5, 4))
    np.add.at(counts, (found, labels), 1)
    return (counts / counts.sum(axis=0)).std(axis=0).mean()


def test_units_of_any_size_and_mixed_labels_are_divided_as_scikit_learn_does():
    """Shares of labels differ between folds no more than those of StratifiedGroupKFold."""
    from sklearn.model_selection import StratifiedGroupKFold

    generator = np.random.default_rng(0)
    for seed in range(5):
        texts = generator.choice(80, 400, p=(shares := generator.random(80)) / shares.sum())
        labels = generator.choice(4, 400, p=[0.6, 0.3, 0.08, 0.02])
        found = assign_folds(5, seed=seed, texts=texts, labels=labels.tolist())
        theirs = np.zeros(400, dtype=np.int64)
        split = StratifiedGroupKFold(5, shuffle=True, random_state=seed).split(texts, labels, texts)
        for fold, (_, rows) in enumerate(split):
            theirs[rows] = fold

        assert spread(found, labels) <= spread(theirs, labels) + 0.01


def test_classes_with_fewer_rows_than_folds_and_missing_labels_are_spread():
    labels = ["a"] * 20 + ["b"] * 3 + [None] * 2
    texts = np.array([*range(19), 0, *range(20, 25)])  # one copy
    found = assign_folds(5, seed=0, texts=texts, labels=labels)
    assert sorted(Counter(found.tolist()).values()) == [5] * 5
    for name in ("b", None):
        assert max(each[name] for each in table_of(found, labels, 5)) == 1


@pytest.mark.parametrize("copy", [False, True], ids=["different-texts", "copies"])
def test_rare_ones_of_several_labels_are_spread(copy):
    labels = [{"often", "rare"} if row % 10 == 0 else {"often"} for row in range(100)] + [set()] * 5
    texts = np.array([*range(104), 103 if copy else 104])
    found = assign_folds(5, seed=0, texts=texts, labels=labels)
    assert Counter(found[:100:10].tolist()) == dict.fromkeys(range(5), 2)


@pytest.mark.parametrize("copy", [False, True], ids=["different-texts", "copies"])
def test_numbers_are_spread_by_their_size(copy):
    numbers = [float(row) for row in range(100)]
    texts = np.array([*range(99), 0 if copy else 99])
    found = assign_folds(5, seed=3, texts=texts, labels=numbers)
    means = [
        np.mean([number for number, fold in zip(numbers, found, strict=True) if fold == each]) for each in range(5)
    ]
    assert max(means) - min(means) < 8  # of random folds about 20


def test_what_two_divisions_have_together_is_joined():
    texts = same_texts([("a", "b"), ("a ", "b"), ("a", "c"), ("c", "a"), ("d", "d")])
    assert texts.tolist() == [0, 0, 1, 2, 3]
    assert joined(texts, numbered(["x", "y", "y", "z", "x"])).tolist() == [0, 0, 0, 1, 0]
    assert copies_in_words(texts, "row", "…") == "1 of 5 rows has the text of an earlier row; …"
    assert copies_in_words(np.arange(3), "row", "…") == ""


def test_one_text_in_all_rows_leaves_nothing_to_hold_out():
    with pytest.raises(
        DataError, match=r"2 folds of 1 different text, which 9 rows have: .*there is nothing to hold out"
    ):
        assign_folds(2, seed=0, texts=np.zeros(9, dtype=np.int64))


# ---- held-out rows --------------------------------------------------------------------------------------------------


def hold_out(classes, units, fraction, seed):
    kept, held = folds.hold_out(classes, np.arange(units) if isinstance(units, int) else units, fraction, seed)
    return kept.tolist(), held.tolist()


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
    assert all(found[name] < count for name, count in total.items())
    if any(round(fraction * count) and count > 1 for count in total.values()):
        assert all(
            abs(found[name] - fraction * count) <= 0.5 or found[name] == count - 1 for name, count in total.items()
        )
    else:
        assert len(held) == min(int(fraction * len(classes)), len(classes) - len(total))


def test_of_classes_that_are_all_too_small_rows_are_drawn_without_regard_to_them():
    classes = [f"pair {row // 2}" for row in range(16)] + [f"single {row}" for row in range(34)]
    kept, held = hold_out(classes, 50, 0.1, 0)
    assert len(held) == 5
    assert {classes[row] for row in held} <= {classes[row] for row in kept}


def test_the_seed_decides_which_rows():
    drawn = {tuple(hold_out(None, 100, 0.1, seed)[1]) for seed in range(20)}
    assert len(drawn) == 20
    # Every row's turn comes: 20 draws of 10 of 100 miss a given row with probability 0.9 ** 20 = 0.12.
    assert len({row for rows in drawn for row in rows}) > 70
    assert hold_out(None, 90, 0.3, 5) == hold_out(["one"] * 90, 90, 0.3, 5)


def test_copies_are_on_one_side():
    """Two of the twenty texts of a class and one of the ten of the other are held out, with all of their rows."""
    texts, classes = np.repeat(np.arange(30), 5), np.repeat(["a"] * 20 + ["b"] * 10, 5).tolist()
    kept, held = hold_out(classes, texts, 0.1, 42)
    assert not {*texts[kept].tolist()} & {*texts[held].tolist()}
    assert Counter(classes[row] for row in held) == {"a": 10, "b": 5}
