"""Epochs of a text that is planned in groups of documents."""

from __future__ import annotations

import pickle
from collections import Counter

import numpy as np
import pytest

from bertkit.data.corpus.examples import epochs
from bertkit.data.corpus.examples.dataset import PretrainingExamples
from bertkit.data.corpus.settings import PretrainingData

SENTENCES = PretrainingData(max_seq_length=12, short_seq_prob=0, pair_objective="none", seed=3)
PAIRS = PretrainingData(max_seq_length=24, seed=7)


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
    """About 16 sentences in a group, two groups in a window."""
    monkeypatch.setattr(epochs, "GROUP_SENTENCES", 16)
    monkeypatch.setattr(epochs, "_GROUPS_AT_ONCE", 2)


@pytest.fixture
def view(store_of):
    """40 documents of 2 to 6 sentences."""
    return store_of([[3 + (document + sentence) % 5 for sentence in range(2 + document % 5)] for document in range(40)])


def starts(run: PretrainingExamples, numbers: range) -> list[int]:
    return run.segments(numbers)[:, 0].tolist()


@pytest.fixture
def run(view, vocabulary) -> PretrainingExamples:
    return PretrainingExamples(view.whole(), vocabulary, SENTENCES, 10_000)


def test_each_epoch_has_each_example_once_in_its_own_order(run, view, vocabulary):
    size = run.examples_per_epoch
    whole = PretrainingExamples(view.whole(), vocabulary, SENTENCES, None, fixed_epoch=0)
    expected = sorted(starts(whole, range(len(whole))))
    orders = [starts(run, range(epoch * size, (epoch + 1) * size)) for epoch in range(3)]
    assert all(sorted(order) == expected for order in orders)
    assert len({tuple(order) for order in orders}) == 3
    for order in orders:  # within a window they are mixed: as many steps back as forward
        assert np.mean(np.diff(order) < 0) > 0.35
    assert max(max(order[:10]) for order in orders) > expected[len(expected) // 2]  # groups are in any order


def test_a_number_is_one_example_whoever_asks(run, view, vocabulary):
    size = run.examples_per_epoch
    numbers = [0, size - 1, size, 57 * size + 3, 2]
    run[60 * size]
    batch = run.__getitems__(numbers)
    for row, number in enumerate(numbers):
        alone = PretrainingExamples(view.whole(), vocabulary, SENTENCES, 10_000)[number]
        assert all(np.array_equal(array[row], alone[name]) for name, array in batch.items())
    again = pickle.loads(pickle.dumps(run))
    assert np.array_equal(again.__getitems__(numbers)["input_ids"], batch["input_ids"])


def test_a_late_example_costs_one_window(run, monkeypatch):
    planned = []
    plan_epoch = epochs.plan_epoch
    monkeypatch.setattr(epochs, "plan_epoch", lambda view, *rest: planned.append(view) or plan_epoch(view, *rest))
    run[9_999]
    assert len(planned) == 2


def test_sizes_of_groups_that_are_not_counted(monkeypatch, view, vocabulary):
    counted = PretrainingExamples(view.whole(), vocabulary, SENTENCES, 10_000)
    monkeypatch.setattr(epochs, "_GROUPS_COUNTED", 3)
    run = PretrainingExamples(view.whole(), vocabulary, SENTENCES, 10_000)
    size = run.examples_per_epoch
    assert 0.8 < size / counted.examples_per_epoch < 1.25
    # What does not fit into an epoch is another part in the next ones, and what comes twice has other masks.
    seen = Counter(starts(run, range(30 * size)))
    assert set(seen) == set(starts(counted, range(counted.examples_per_epoch)))
    masks = Counter()
    for number in range(size):
        example = run[number]
        masks[tuple(example["input_ids"]), tuple(example["masked_positions"])] += 1
    assert max(masks.values()) == 1


def test_pairs_of_groups(view, vocabulary):
    """B is of the same document as A, or of one near it; that is its label, and both labels are frequent."""
    run = PretrainingExamples(view.whole(), vocabulary, PAIRS, 10_000)
    segments = run.segments(range(400))
    labels = run.__getitems__(range(400))["next_sentence_label"]
    ends = view.sentence_offsets[view.document_offsets][1:]
    documents = np.searchsorted(ends, segments[:, [0, 2]], side="right")
    assert ((documents[:, 0] != documents[:, 1]) == labels).all()
    assert 0.3 < labels.mean() < 0.8
    assert abs(documents[:, 0] - documents[:, 1]).max() < 8  # of a group, and not of all forty


def test_groups_are_truncated_and_masked_differently(store_of, vocabulary):
    """Both draw by the number of an example, which is not the same one in every group."""
    run = PretrainingExamples(store_of([[100]] * 48).whole(), vocabulary, PAIRS, 48)
    masks = run.__getitems__(range(48))["masked_positions"]
    assert len(np.unique(masks, axis=0)) > 40
    starts = np.sort(run.segments(range(48))[:, 0]).reshape(3, 16)  # of A: a group a row, a document a column
    assert (starts // 100 == np.arange(48).reshape(3, 16)).all()
    cuts = starts % 100
    assert all((cuts[one] == cuts[other]).mean() < 0.5 for one, other in ((0, 1), (0, 2), (1, 2)))
