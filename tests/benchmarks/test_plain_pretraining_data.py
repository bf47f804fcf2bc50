"""The plain pairs, which a step of bertkit is timed beside, keep the released script's rules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st


def _load(name: str):
    path = Path(__file__).parents[2] / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


plain = _load("plain_pretraining_data")


def numbered(*lengths: int, first: int) -> list[list[int]]:
    """A document whose tokens count up from ``first``."""
    document = []
    for length in lengths:
        document.append(list(range(first, first + length)))
        first += length
    return document


@given(
    lengths=st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=12), min_size=2, max_size=5),
    seed=st.integers(0, 2**32),
    room=st.sampled_from([13, 300]),
)
def test_every_pair_keeps_the_rules(lengths, seed, room):
    """Where there is room for all of a document, each of its sentences is used once: those behind a random next too."""
    documents, first = [], 10
    for document in lengths:
        documents.append(numbered(*document, first=first))
        first = documents[-1][-1][-1] + 1
    text = [token for document in documents for sentence in document for token in sentence]
    random = Random(seed)
    for number, document in enumerate(documents):
        used = []
        for a, b, is_random_next in plain.pairs_of(documents, number, room + 3, random, 0.5):
            start = text.index(a[0])
            assert a == text[start : text.index(a[-1]) + 1]
            assert b == text[text.index(b[0]) : text.index(b[-1]) + 1]
            assert len(a) + len(b) <= room
            assert is_random_next or text.index(b[0]) > text.index(a[-1])
            used += a if is_random_next else a + b
        assert room < 300 or used == [token for sentence in document for token in sentence]


def test_a_random_next_is_of_another_document():
    """Ten draws of two documents are all of the own one once in 1024 times."""
    documents = [numbered(2, 2, 2, first=10), numbered(3, 3, first=50)]
    pairs = [pair for seed in range(50) for pair in plain.pairs_of(documents, 0, 9, Random(seed), 0.5)]
    firsts = [pair.b[0] for pair in pairs if pair.is_random_next]
    assert sum(first < 50 for first in firsts) <= 1 < len(firsts) / 20


@pytest.mark.parametrize("longer", ["a", "b"])
def test_truncation_takes_both_ends_alike(longer):
    a, b = (list(range(400)), [0]) if longer == "a" else ([0], list(range(400)))
    plain.truncate(a, b, 201, Random(5))
    rest = a if longer == "a" else b
    # 200 coins: 100 ± 7.1; five deviations each way.
    assert 65 <= rest[0] <= 135
    assert rest == list(range(rest[0], rest[0] + 200))
