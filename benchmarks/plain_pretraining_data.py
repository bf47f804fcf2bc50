"""The rules of the released BERT's ``create_pretraining_data.py`` in plain Python: what bertkit's data is timed beside.

An implementation of its own, for reading and for comparison: lists, loops and one ``random.Random``, nothing vectorised
and nothing kept on disk. It works on token ids where the script works on strings, which is to its advantage. It asks
the generator for the same numbers in the same order as the script, so that from the same seed it gave the same
examples, one by one (``benchmarks/released_script.py`` of commit 239b93b, with a copy of the script).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

Sentence = list[int]
Document = list[Sentence]


@dataclass(frozen=True)
class Rules:
    """The script's flags and their defaults.

    Attributes:
        max_seq_length: tokens of an example, [CLS] and both [SEP] counted.
        max_predictions_per_seq: at most so many tokens of an example are predicted.
        masked_lm_prob: share of the tokens, special ones counted, that is predicted.
        short_seq_prob: probability that a document is cut into shorter examples in a pass.
    """

    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    masked_lm_prob: float = 0.15
    short_seq_prob: float = 0.1


@dataclass(frozen=True)
class Pieces:
    """Vocabulary: its size, and the ids of the special tokens."""

    size: int
    pad: int
    cls: int
    sep: int
    mask: int

    @classmethod
    def of(cls, vocabulary: dict[str, int]) -> Pieces:
        """Builds the pieces of a WordPiece vocabulary, piece → id, that has BERT's special tokens."""
        return cls(
            size=len(vocabulary),
            pad=vocabulary["[PAD]"],
            cls=vocabulary["[CLS]"],
            sep=vocabulary["[SEP]"],
            mask=vocabulary["[MASK]"],
        )


class Pair(NamedTuple):
    """Two segments of text, and whether the second is from elsewhere."""

    a: list[int]
    b: list[int]
    is_random_next: bool


class Example(NamedTuple):
    """A pair with its special tokens, masked; ``positions`` ascend and ``labels`` are the ids that stood there."""

    input_ids: list[int]
    segment_ids: list[int]
    positions: list[int]
    labels: list[int]
    is_random_next: bool


def documents_of(lines: Iterable[str], encode: Callable[[str], Sentence]) -> list[Document]:
    """Documents from text with a sentence a line and a blank line between two documents, tokenized line by line."""
    documents: list[Document] = [[]]
    for line in lines:
        if not (text := line.strip()):
            documents.append([])
        elif sentence := encode(text):
            documents[-1].append(sentence)
    return [document for document in documents if document]


def one_pass(documents: list[Document], rules: Rules, pieces: Pieces, random: Random) -> Iterator[Example]:
    """The examples of one pass over all documents, in their order; the script then shuffles them all."""
    for number in range(len(documents)):
        for pair in pairs_of(documents, number, rules, random):
            yield masked(pair, rules, pieces, random)


def pairs_of(documents: list[Document], number: int, rules: Rules, random: Random) -> Iterator[Pair]:
    """Cuts document ``number`` into pairs: chunks of sentences are filled to the target length, then parted in two."""
    document = documents[number]
    room = rules.max_seq_length - 3
    target = random.randint(2, room) if random.random() < rules.short_seq_prob else room
    start = 0
    while start < len(document):
        end, length = start, 0
        while end < len(document) and length < target:
            length += len(document[end])
            end += 1
        alone = end - start == 1
        middle = end if alone else random.randint(start + 1, end - 1)
        a = joined(document[start:middle])
        if is_random_next := alone or random.random() < 0.5:
            b = text_from_elsewhere(documents, number, target - len(a), random)
        else:
            b = joined(document[middle:end])
        start = middle if is_random_next else end  # after a random B, the sentences it displaced come next
        truncate(a, b, room, random)
        yield Pair(a, b, is_random_next)


def joined(sentences: list[Sentence]) -> list[int]:
    return [token for sentence in sentences for token in sentence]


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


def masked(pair: Pair, rules: Rules, pieces: Pieces, random: Random) -> Example:
    """Puts the special tokens around a pair and hides some of its tokens: 80 % [MASK], 10 % any piece, 10 % kept."""
    original = [pieces.cls, *pair.a, pieces.sep, *pair.b, pieces.sep]
    candidates = [position for position, piece in enumerate(original) if piece not in (pieces.cls, pieces.sep)]
    random.shuffle(candidates)
    number = min(rules.max_predictions_per_seq, max(1, round(len(original) * rules.masked_lm_prob)))
    hidden = list(original)
    positions = candidates[:number]
    for position in positions:
        if random.random() < 0.8:
            hidden[position] = pieces.mask
        elif random.random() >= 0.5:
            hidden[position] = random.randint(0, pieces.size - 1)
    positions.sort()
    segments = [0] * (len(pair.a) + 2) + [1] * (len(pair.b) + 1)
    return Example(hidden, segments, positions, [original[position] for position in positions], pair.is_random_next)


def features(example: Example, rules: Rules, pieces: Pieces) -> dict[str, list[int] | list[float]]:
    """The script's features of an example: lists padded to ``max_seq_length`` and ``max_predictions_per_seq``."""
    padding = rules.max_seq_length - len(example.input_ids)
    unused = rules.max_predictions_per_seq - len(example.positions)
    return {
        "input_ids": example.input_ids + [pieces.pad] * padding,
        "input_mask": [1] * len(example.input_ids) + [0] * padding,
        "segment_ids": example.segment_ids + [0] * padding,
        "masked_lm_positions": example.positions + [0] * unused,
        "masked_lm_ids": example.labels + [0] * unused,
        "masked_lm_weights": [1.0] * len(example.positions) + [0.0] * unused,
        "next_sentence_labels": [int(example.is_random_next)],
    }
