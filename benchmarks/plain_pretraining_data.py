"""Pairs by the rules of the released BERT's ``create_pretraining_data.py`` in plain Python, for the peer of a step.

It works on token ids where the script works on strings, and asks the generator for the same numbers in the same order,
so that from the same seed it gave the same pairs (``benchmarks/released_script.py`` of commit 239b93b, with a copy of
the script).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from random import Random
from typing import NamedTuple

Sentence = list[int]
Document = list[Sentence]


class Pair(NamedTuple):
    """Two segments of text, and whether the second is from elsewhere."""

    a: list[int]
    b: list[int]
    is_random_next: bool


def pairs_of(
    documents: list[Document], number: int, max_seq_length: int, random: Random, short_seq_prob: float = 0.1
) -> Iterator[Pair]:
    """Cuts document ``number`` into pairs: chunks of sentences are filled to the target length, then parted in two.

    Args:
        max_seq_length: tokens of an example, [CLS] and both [SEP] counted.
        short_seq_prob: probability that a document is cut into shorter examples in a pass.
    """
    document = documents[number]
    room = max_seq_length - 3
    target = random.randint(2, room) if random.random() < short_seq_prob else room
    start = 0
    while start < len(document):
        end, length = start, 0
        while end < len(document) and length < target:
            length += len(document[end])
            end += 1
        alone = end - start == 1
        middle = end if alone else random.randint(start + 1, end - 1)
        a = list(chain.from_iterable(document[start:middle]))
        if is_random_next := alone or random.random() < 0.5:
            b = text_from_elsewhere(documents, number, target - len(a), random)
        else:
            b = list(chain.from_iterable(document[middle:end]))
        start = middle if is_random_next else end  # after a random B, the sentences it displaced come next
        truncate(a, b, room, random)
        yield Pair(a, b, is_random_next)


def text_from_elsewhere(documents: list[Document], number: int, target: int, random: Random) -> list[int]:
    """At least ``target`` tokens from a random sentence on, fewer at the end of a document.

    A document other than ``number`` is tried for ten times.
    """
    for _ in range(10):
        other = random.randint(0, len(documents) - 1)
        if other != number:
            break
    tokens: list[int] = []
    for sentence in documents[other][random.randint(0, len(documents[other]) - 1) :]:
        tokens += sentence
        if len(tokens) >= target:
            break
    return tokens


def truncate(a: list[int], b: list[int], room: int, random: Random) -> None:
    """Takes single tokens from the longer list, from ``b`` where they are equal, at either end, until both fit."""
    while len(a) + len(b) > room:
        longer = a if len(a) > len(b) else b
        longer.pop(0 if random.random() < 0.5 else -1)
