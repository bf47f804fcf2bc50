"""Batches in which no text occurs twice."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st

from bertkit.training.batches import LengthGroups, training_order
from bertkit.training.distinct import DistinctBatches

SIZE = 8


def repeats(order: Iterable[int], texts: Sequence[Sequence[int]], size: int = SIZE) -> int:
    """Examples beyond the first with a text, over all batches of an order."""
    examples = list(order)
    found = 0
    for start in range(0, len(examples), size):
        counts = Counter(text for example in examples[start : start + size] for text in set(texts[example]))
        found += sum(number - 1 for number in counts.values())
    return found


def pairs(number: int, popular: int) -> list[list[int]]:
    """Texts of pairs, of which each of the last ``popular`` ones is also in an earlier pair."""
    fresh = [[2 * row, 2 * row + 1] for row in range(number)]
    return [*fresh, *([10**6 + row, 2 * row + 1] for row in range(popular))]


@given(
    texts=st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=3), min_size=1, max_size=40),
    size=st.integers(1, 7),
)
def test_examples_stay_and_repeats_never_grow(texts, size):
    order = list(DistinctBatches(range(len(texts)), texts, size))
    assert sorted(order) == list(range(len(texts)))
    assert repeats(order, texts, size) <= repeats(range(len(texts)), texts, size)


def test_a_text_of_every_batch_stays():
    texts = [[0, row] for row in range(1, 17)]
    assert list(DistinctBatches(range(16), texts, SIZE)) == list(range(16))
    spread = [[0, row] if row < 3 else [row] for row in range(1, 17)]
    assert repeats(DistinctBatches(range(16), spread, SIZE), spread) == 0


def arguments(strategy: str) -> Any:
    return SimpleNamespace(
        train_sampling_strategy=strategy,
        seed=7,
        data_seed=None,
        train_batch_size=SIZE,
        gradient_accumulation_steps=1,
        world_size=1,
    )


@pytest.mark.parametrize("strategy", ["random", "group_by_length", "sequential"])
def test_the_order_of_a_training(strategy):
    texts = pairs(400, 80)
    data = Dataset.from_dict({"length": [10] * 480, "text_ids": texts})
    order = training_order(data, arguments(strategy))
    drawn = []
    for epoch in (0, 1, 0):
        if hasattr(order, "set_epoch"):
            order.set_epoch(epoch)
        drawn.append(list(order))
    assert drawn[0] == drawn[2]  # also of a run that is resumed
    if strategy == "sequential":
        assert drawn[0] == list(range(480))
        return
    assert drawn[0] != drawn[1]
    assert [repeats(each, texts) for each in drawn] == [0, 0, 0]
    assert repeats(training_order(data.remove_columns("text_ids"), arguments(strategy)), texts) > 0


def test_groups_of_similar_length_stay():
    texts = pairs(400, 80)
    lengths = [random.Random(row).randint(5, 100) for row in range(480)]

    def padded(order: Iterable[int]) -> int:
        ordered = [lengths[example] for example in order]
        return sum(SIZE * max(ordered[start : start + SIZE]) for start in range(0, 480, SIZE))

    groups = LengthGroups(lengths, SIZE, 7)
    grouped, mixed = padded(groups), padded(range(480))
    # Exchanges among near batches cost little of what the groups save.
    assert padded(DistinctBatches(groups, texts, SIZE)) - grouped < 0.2 * (mixed - grouped)
