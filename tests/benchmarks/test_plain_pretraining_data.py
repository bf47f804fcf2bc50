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


class Scripted(Random):
    """Gives the numbers it was made with, one after the other."""

    def __init__(self, *numbers: float):
        super().__init__(0)
        self.numbers = list(numbers)

    def random(self) -> float:
        return self.numbers.pop(0)

    def randint(self, a: int, b: int) -> int:
        number = self.numbers.pop(0)
        assert a <= number <= b
        return number

    def shuffle(self, x: list) -> None:
        pass


def numbered(*lengths: int, first: int) -> list[list[int]]:
    """A document whose tokens count up from ``first``."""
    document = []
    for length in lengths:
        document.append(list(range(first, first + length)))
        first += length
    return document


def test_random_next_puts_rest_of_chunk_back():
    documents = [numbered(2, 2, 2, first=10), numbered(3, 3, first=50)]
    # Not short; A is one sentence of three; B is random, from document 1, its sentence 0 on, until 4 tokens are there.
    # Then the two sentences put back: A is the first, B the second.
    drawn = Scripted(0.7, 1, 0.4, 1, 0, 0.1, 0.9, 2, 0.6)
    pairs = list(plain.pairs_of(documents, 0, 9, drawn, 0.5))
    # 2 + 6 tokens do not fit in 6: B loses one at the front and one at the back.
    assert pairs == [([10, 11], [51, 52, 53, 54], True), ([12, 13], [14, 15], False)]
    assert not drawn.numbers


def test_last_sentence_has_a_random_next():
    documents = [numbered(4, first=10), numbered(1, 1, first=50)]
    drawn = Scripted(0.2, 3, 0, 1, 1)  # short: 3 tokens; document 0 is its own, document 1 is taken, its last sentence
    assert list(plain.pairs_of(documents, 0, 9, drawn, 0.5)) == [([10, 11, 12, 13], [51], True)]


@given(
    lengths=st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=12), min_size=2, max_size=5),
    seed=st.integers(0, 2**32),
)
def test_every_pair_keeps_the_rules(lengths, seed):
    documents, first = [], 10
    for document in lengths:
        documents.append(numbered(*document, first=first))
        first = documents[-1][-1][-1] + 1
    text = [token for document in documents for sentence in document for token in sentence]
    random = Random(seed)
    for number in range(len(documents)):
        for a, b, is_random_next in plain.pairs_of(documents, number, 16, random, 0.5):
            start = text.index(a[0])
            assert a == text[start : text.index(a[-1]) + 1]
            assert b == text[text.index(b[0]) : text.index(b[-1]) + 1]
            assert len(a) + len(b) <= 16 - 3
            assert is_random_next or text.index(b[0]) > text.index(a[-1])


@pytest.mark.parametrize("longer", ["a", "b"])
def test_truncation_takes_both_ends_alike(longer):
    a, b = (list(range(400)), [0]) if longer == "a" else ([0], list(range(400)))
    plain.truncate(a, b, 201, Random(5))
    rest = a if longer == "a" else b
    # 200 coins: 100 ± 7.1; five deviations each way.
    assert 65 <= rest[0] <= 135
    assert rest == list(range(rest[0], rest[0] + 200))
