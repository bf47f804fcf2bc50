"""Numbers that depend on (seed, purpose, epoch, index) alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertkit.data.corpus.examples import randomness
from bertkit.data.corpus.examples.randomness import Stream, permutation, philox, uniform, words

ONES = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ([0, 0, 0, 0], (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ([ONES] * 4, (ONES, ONES), "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            (0xA4093822, 0x299F31D0),
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_known_answers_of_random123(counter, key, expected):
    once = philox(np.array(counter, np.uint64), key)
    many = philox(np.array([[counter] * 3] * 2, np.uint64), key)
    assert " ".join(f"{word:08x}" for word in once.tolist()) == expected
    assert (many == once).all()


@given(
    seed=st.integers(0, 2**64 - 1),
    epochs=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=5),
    n=st.integers(0, 9),
    data=st.data(),
)
def test_a_row_depends_on_index_and_epoch_alone(seed, epochs, n, data):
    size = len(epochs)
    index = data.draw(st.lists(st.integers(0, 2**63 - 1), min_size=size, max_size=size))
    together = uniform(seed, Stream.PAIRS, epochs, index, n)
    assert together.shape == (size, n)
    for row in range(size):
        alone = uniform(seed, Stream.PAIRS, epochs[row], [index[row]], n + 3)
        assert (together[row] == alone[0, :n]).all()


def test_whatever_differs_gives_other_numbers():
    calls = [
        words(seed, stream, epoch, [index], 8).tobytes()
        for seed in (0, 1, 1 << 32)
        for stream in Stream
        for epoch in (0, 1)
        for index in (0, 1, 1 << 32)
    ]
    assert len(set(calls)) == 3 * len(Stream) * 2 * 3


def test_uniform_is_uniform():
    numbers = uniform(7, Stream.MASKED_POSITIONS, 3, np.arange(1000), 101).ravel()
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts = np.bincount((numbers * 100).astype(int), minlength=100)
    expected = len(numbers) / 100
    chi_squared = ((counts - expected) ** 2 / expected).sum()
    assert abs(chi_squared - 99) < 5 * np.sqrt(2 * 99)
    neighbours = np.corrcoef(numbers[:-1], numbers[1:])[0, 1]
    assert abs(neighbours) < 5 / np.sqrt(len(numbers))


@pytest.mark.parametrize("n", [-1, (1 << 25) + 1])
def test_too_many_numbers_for_one_thing(n):
    with pytest.raises(ValueError, match="n: "):
        words(0, Stream.PAIRS, 0, [0], n)


def test_permutation():
    order = permutation(42, 3, 1000)
    assert sorted(order.tolist()) == list(range(1000))
    assert (order == permutation(42, 3, 1000)).all()
    assert abs(np.corrcoef(order, np.arange(1000))[0, 1]) < 5 / np.sqrt(1000)
    assert (order != permutation(42, 4, 1000)).mean() > 0.9
    assert (order != permutation(43, 3, 1000)).mean() > 0.9


def test_order_of_nothing_and_its_type():
    assert permutation(42, 0, 0).tolist() == []
    assert permutation(42, 0, 10).dtype == np.int32


@pytest.mark.parametrize(("counters", "keys"), [(1, 1), (7, 3), (64, 1000)])
def test_rows_drawn_at_once_do_not_matter(monkeypatch, counters, keys):
    def draw() -> list[bytes]:
        index, epochs = np.arange(50), np.arange(50) % 3
        drawn = [words(7, Stream.PAIRS, epochs, index, n).tobytes() for n in (0, 1, 5, 20)]
        return [*drawn, words(7, Stream.PAIRS, 2, index, 3).tobytes(), permutation(7, 1, 100).tobytes()]

    expected = draw()
    monkeypatch.setattr(randomness, "_COUNTERS_AT_ONCE", counters)
    monkeypatch.setattr(randomness, "_KEYS_AT_ONCE", keys)
    assert draw() == expected
