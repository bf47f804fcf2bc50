"""Word frequencies → the pieces of a WordPiece vocabulary, merged by likelihood.

Each merge joins the adjacent pieces a, b with the highest score ``freq(ab) / (freq(a) · freq(b))``. Schuster & Nakajima
(2012) describe WordPiece as the merge that most raises the likelihood of the text under a language model of pieces;
later literature states it as this score (Hugging Face course, chapter 6). The score is the gain of one occurrence of
the pair and does not grow with the number of occurrences.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

LONGEST_WORD = 100
"""Maximum word length in characters: the tokenizer maps a longer word to [UNK], whatever its vocabulary."""

_CHUNKS_HELD = 1_000_000

Pair = tuple[int, int]


def count_words(texts: Iterable[str], lowercase: bool) -> dict[str, int]:
    """Counts the words that BERT's normalizer and pre-tokenizer make of ``texts``.

    Memory grows with the number of distinct words.

    >>> count_words(["Piña, piña!"], lowercase=True)
    {'pina': 2, ',': 1, '!': 1}
    """
    from tokenizers import normalizers, pre_tokenizers

    normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    words: Counter[str] = Counter()
    chunks: Counter[str] = Counter()

    def settle() -> None:
        for chunk, count in chunks.items():
            for word, _ in pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(chunk)):
                words[word] += count
        chunks.clear()

    for text in texts:
        # Neither the normalizer nor the pre-tokenizer looks across a space, so each distinct chunk is processed once.
        # Split at the space character only: str.split() also splits at control characters that the normalizer deletes.
        chunks.update(text.split(" "))
        if len(chunks) > _CHUNKS_HELD:
            settle()
    settle()
    return dict(words)


def learn_pieces(words: Mapping[str, int], num_pieces: int, min_frequency: int | None = None) -> list[str]:
    """Learns up to ``num_pieces`` merged pieces, returned in the order of the merges.

    Every word starts as its characters, with ``##`` before each one after the first. Each step merges all
    occurrences of the pair with the highest score, in each word from the left. Frequencies are counts of pieces and
    of adjacent pairs in the current segmentation, weighted by word frequency. Scores are compared in double precision;
    ties go to the pair that occurs more often, then to the pair whose pieces come first in code point order (left piece
    first).

    Only pairs that occur at least ``min_frequency`` times are candidates; without candidates, learning stops. The score
    favours pieces that seldom occur apart, rare ones most of all: with a low bound the vocabulary fills with rare words
    before "the" is merged, with a high one it stays small. By default the bound therefore decreases: it starts at the
    count of the most frequent pair and is halved whenever no pair reaches it. This schedule is specific to bertkit; the
    literature does not specify a bound.

    Args:
        words: from `count_words`.
        num_pieces: maximum number of merged pieces, at least 0.
        min_frequency: minimum count of a pair to be merged, at least 1; None for the decreasing bound.

    >>> learn_pieces({"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}, 2, min_frequency=1)
    ['##gs', 'pu']
    """
    segmentation = Segmentation(
        ([f"##{character}" if place else character for place, character in enumerate(word)], count)
        for word, count in words.items()
        if len(word) <= LONGEST_WORD
    )
    bounds = [min_frequency or max(segmentation.pair_counts.values(), default=0)]
    while min_frequency is None and bounds[-1] > 1:
        bounds.append(bounds[-1] // 2)
    learned: list[str] = []
    for bound in bounds:
        if len(learned) == num_pieces:
            break
        candidates = _Candidates(segmentation, bound)
        while len(learned) < num_pieces and (pair := candidates.best()) is not None:
            known = len(segmentation.pieces)
            candidates.update(segmentation.merge(pair))
            learned += segmentation.pieces[known:]
    return learned


class Segmentation:
    """Current segmentation of the words into pieces, with the counts of pieces and of adjacent pairs.

    Args:
        words: the pieces that each word starts as, with its count.
        prefix: mark of pieces that continue a word, which the right piece of a merge loses; empty without marks.

    Attributes:
        pieces: text of each piece, by piece number.
        piece_counts: float64 count of each piece, by piece number; at least as long as ``pieces``.
        pair_counts: count of each pair that occurs.
    """

    def __init__(self, words: Iterable[tuple[Sequence[str], int]], prefix: str = "##"):
        self.prefix = prefix
        self.pieces: list[str] = []
        self.piece_counts: NDArray[np.float64] = np.zeros(1024)
        self.pair_counts: defaultdict[Pair, int] = defaultdict(int)
        self._numbers: dict[str, int] = {}
        self._word_counts: list[int] = []
        self._words: list[list[int]] = []
        # Numbers of the words that contain the pair or did so earlier; merge() skips those that no longer do.
        self._places: defaultdict[Pair, set[int]] = defaultdict(set)
        for number, (word, count) in enumerate(words):
            pieces = [self._number(piece) for piece in word]
            for piece in pieces:
                self.piece_counts[piece] += count
            for pair in pairwise(pieces):
                self.pair_counts[pair] += count
                self._places[pair].add(number)
            self._words.append(pieces)
            self._word_counts.append(count)

    def _number(self, piece: str) -> int:
        number = self._numbers.setdefault(piece, len(self.pieces))
        if number == len(self.pieces):
            self.pieces.append(piece)
            if number == len(self.piece_counts):
                self.piece_counts = np.concatenate([self.piece_counts, np.zeros(number)])
        return number

    def merge(self, pair: Pair) -> set[Pair]:
        """Merges ``pair`` in every word and returns the pairs whose counts may have changed."""
        merged = self._number(self.pieces[pair[0]] + self.pieces[pair[1]].removeprefix(self.prefix))
        touched: set[Pair] = set()
        for number in self._places.pop(pair):
            before, count = self._words[number], self._word_counts[number]
            after = _merge_pair(before, pair, merged)
            if len(after) == len(before):
                continue
            merges = (len(before) - len(after)) * count
            self.piece_counts[pair[0]] -= merges
            self.piece_counts[pair[1]] -= merges
            self.piece_counts[merged] += merges
            for old in pairwise(before):
                self.pair_counts[old] -= count
                touched.add(old)
            for new in pairwise(after):
                self.pair_counts[new] += count
                self._places[new].add(number)
                touched.add(new)
            self._words[number] = after
        for seen in touched:
            if not self.pair_counts[seen]:
                del self.pair_counts[seen]
                self._places.pop(seen, None)
        return touched


def _merge_pair(pieces: list[int], pair: Pair, merged: int) -> list[int]:
    after: list[int] = []
    place = 0
    while place < len(pieces):
        if pieces[place] == pair[0] and pieces[place + 1 : place + 2] == [pair[1]]:
            after.append(merged)
            place += 2
        else:
            after.append(pieces[place])
            place += 1
    return after


class _Candidates:
    """Pairs that occur at least ``bound`` times, stored in arrays without gaps.

    A merge changes the counts of two pieces and so raises or lowers the scores of all pairs that contain one of them. A
    heap does not support that; recomputing all scores takes a few array operations over some thousand pairs.
    """

    def __init__(self, segmentation: Segmentation, bound: int):
        self._segmentation = segmentation
        self._bound = bound
        self._pairs: list[Pair] = []
        self._slots: dict[Pair, int] = {}
        self._ends: NDArray[np.int64] = np.empty((2, 1024), np.int64)  # left and right pieces
        self._counts: NDArray[np.float64] = np.empty(1024)
        self.update(segmentation.pair_counts)

    def update(self, touched: Iterable[Pair]) -> None:
        """Updates the counts of the ``touched`` pairs from the segmentation."""
        for pair in touched:
            count = self._segmentation.pair_counts.get(pair, 0)
            if count >= self._bound:
                slot = self._slots.setdefault(pair, len(self._pairs))
                if slot == len(self._pairs):
                    if slot == len(self._counts):
                        self._ends = np.concatenate([self._ends, np.empty_like(self._ends)], axis=1)
                        self._counts = np.concatenate([self._counts, np.empty_like(self._counts)])
                    self._pairs.append(pair)
                    self._ends[:, slot] = pair
                self._counts[slot] = count
            elif pair in self._slots:
                slot, last = self._slots.pop(pair), self._pairs.pop()
                if last != pair:  # the last pair fills the gap
                    self._pairs[slot] = last
                    self._slots[last] = slot
                    self._ends[:, slot] = last
                    self._counts[slot] = self._counts[len(self._pairs)]

    def best(self) -> Pair | None:
        """Returns the pair to merge next, or None if there are no candidates."""
        if not self._pairs:
            return None
        left, right = self._ends[:, : len(self._pairs)]
        counts, piece_counts = self._counts[: len(self._pairs)], self._segmentation.piece_counts
        scores = counts / (piece_counts[left] * piece_counts[right])
        tied = np.flatnonzero(scores == scores.max())
        tied = tied[counts[tied] == counts[tied].max()]
        pieces = self._segmentation.pieces
        return min((self._pairs[slot] for slot in tied), key=lambda pair: (pieces[pair[0]], pieces[pair[1]]))
