"""The order of an epoch: every example once, like lengths together, a function of seed and epoch."""

from __future__ import annotations

import random

from bertkit.training.trainer import LengthGroups

LENGTHS = random.Random(0).choices(range(5, 60), k=640)


def order(seed: int, epoch: int) -> list[int]:
    groups = LengthGroups(LENGTHS, 16, seed)
    groups.set_epoch(epoch)
    return list(groups)


def test_every_example_comes_once():
    assert sorted(order(42, 3)) == list(range(640))


def test_the_order_depends_on_seed_and_epoch_alone():
    random.seed(9)
    assert order(42, 1) == order(42, 1)
    assert order(42, 1) != order(42, 2)
    assert order(42, 1) != order(43, 1)
    assert order(0, 1) != order(1, 0)


def test_a_global_batch_holds_inputs_of_like_length():
    grouped = order(42, 0)
    batches = [[LENGTHS[index] for index in grouped[start : start + 16]] for start in range(0, 640, 16)]
    padding = sum(max(batch) * len(batch) for batch in batches) - sum(LENGTHS)
    at_random = [LENGTHS[start : start + 16] for start in range(0, 640, 16)]
    assert padding < 0.25 * (sum(max(batch) * len(batch) for batch in at_random) - sum(LENGTHS))
