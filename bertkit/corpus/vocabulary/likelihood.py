"""Words and how often they occur → the pieces of a WordPiece vocabulary, merged by likelihood.

Of all pairs of neighbouring pieces a, b the one of the highest ``freq(ab) / (freq(a) · freq(b))`` is merged. WordPiece
was described as merging what most raises the likelihood of the text under a language model of pieces (Schuster &
Nakajima 2012); this score is how the literature since has put it (Hugging Face course, chapter 6). It is what one
occurrence of the pair gains, however often the pair occurs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

LONGEST_WORD = 100
"""Characters: a longer word is [UNK] to the tokenizer whatever its vocabulary holds."""

_CHUNKS_HELD = 1_000_000

Pair = tuple[int, int]


def count_words(texts: Iterable[str], lowercase: bool) -> dict[str, int]:
    """How often each word occurs: what BERT's normalizer and pre-tokenizer make of ``texts``.

    Memory grows with the number of different words.

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
        # Neither of the two looks across a space, so equal chunks are worked out once. Only at the plain space: to
        # the normalizer some of what else str.split() splits at is a control character, which it deletes.
        chunks.update(text.split(" "))
        if len(chunks) > _CHUNKS_HELD:
            settle()
    settle()
    return dict(words)


def learn_pieces(words: Mapping[str, int], num_pieces: int, min_frequency: int | None = None) -> list[str]:
    """Up to ``num_pieces`` merged pieces, in the order in which they are found.

    Every word starts as its characters, those after the first with ``##`` before them. Time and again the best pair
    is merged wherever it occurs, from left to right in a word. Frequencies are those of pieces and of neighbours as
    the words are segmented at that time, a word counted as often as it occurs. Scores are compared in double
    precision; of equal ones the pair that occurs more often comes first, then the one whose pieces come first in code
    point order, left before right.

    Only pairs that occur ``min_frequency`` times take part, and when there are none, no more pieces are found. The
    score favours pieces that rarely occur apart, most of all those that rarely occur: under a low bound the
    vocabulary fills up with rare words before "the" is whole, under a high one it stays small. So by default the
    bound falls: it starts at the count of the most frequent pair, and is halved whenever no pair reaches it. That is
    bertkit's own; the literature fixes no bound.

    Args:
        words: from `count_words`.
        num_pieces: at least 0.
        min_frequency: how often a pair has to occur to be merged, at least 1; None for the bound that falls.

    >>> learn_pieces({"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}, 2, min_frequency=1)
    ['##gs', 'pu']
    """
    segmentation = _Segmentation({word: count for word, count in words.items() if len(word) <= LONGEST_WORD})
    bounds = _falling(segmentation.pair_counts) if min_frequency is None else [min_frequency]
    found: list[str] = []
    for bound in bounds:
        if len(found) == num_pieces:
            break
        candidates = _Candidates(segmentation, bound)
        while len(found) < num_pieces and (pair := candidates.best()) is not None:
            known = len(segmentation.pieces)
            candidates.update(segmentation.merge(pair))
            found += segmentation.pieces[known:]
    return found


def _falling(pair_counts: Mapping[Pair, int]) -> list[int]:
    bounds = [max(pair_counts.values(), default=0)]
    while bounds[-1] > 1:
        bounds.append(bounds[-1] // 2)
    return bounds


class _Segmentation:
    """The pieces that words now consist of, and how often each piece and each pair of neighbours occurs.

    Attributes:
        pieces: their texts by number.
        piece_counts: float64, by number; longer than ``pieces``.
        pair_counts: of the pairs that occur.
    """

    def __init__(self, words: Mapping[str, int]):
        self.pieces: list[str] = []
        self.piece_counts: NDArray[np.float64] = np.zeros(1024)
        self.pair_counts: defaultdict[Pair, int] = defaultdict(int)
        self._numbers: dict[str, int] = {}
        self._word_counts = list(words.values())
        self._words: list[list[int]] = []
        # Numbers of the words that hold the pair, or once did: the merge finds out.
        self._places: defaultdict[Pair, set[int]] = defaultdict(set)
        for number, (word, count) in enumerate(words.items()):
            pieces = [self._number(f"##{character}" if place else character) for place, character in enumerate(word)]
            for piece in pieces:
                self.piece_counts[piece] += count
            for pair in pairwise(pieces):
                self.pair_counts[pair] += count
                self._places[pair].add(number)
            self._words.append(pieces)

    def _number(self, piece: str) -> int:
        number = self._numbers.setdefault(piece, len(self.pieces))
        if number == len(self.pieces):
            self.pieces.append(piece)
            if number == len(self.piece_counts):
                self.piece_counts = np.concatenate([self.piece_counts, np.zeros(number)])
        return number

    def merge(self, pair: Pair) -> set[Pair]:
        """Merges ``pair`` in every word; returns the pairs whose counts may have changed."""
        merged = self._number(self.pieces[pair[0]] + self.pieces[pair[1]].removeprefix("##"))
        touched: set[Pair] = set()
        for number in self._places.pop(pair):
            before, count = self._words[number], self._word_counts[number]
            after = _merged(before, pair, merged)
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


def _merged(pieces: list[int], pair: Pair, merged: int) -> list[int]:
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
    """The pairs that occur at least ``bound`` times, as arrays without gaps.

    The counts of two pieces move the scores of all pairs that either is in, up as well as down, which a heap does not
    bear; all scores anew for every merge are a few array operations over some thousand pairs.
    """

    def __init__(self, segmentation: _Segmentation, bound: int):
        self._segmentation = segmentation
        self._bound = bound
        self._pairs: list[Pair] = []
        self._slots: dict[Pair, int] = {}
        self._ends: NDArray[np.int64] = np.empty((2, 1024), np.int64)  # left and right pieces
        self._counts: NDArray[np.float64] = np.empty(1024)
        self.update(segmentation.pair_counts)

    def update(self, touched: Iterable[Pair]) -> None:
        """Takes over the counts of these pairs."""
        for pair in touched:
            count = self._segmentation.pair_counts.get(pair, 0)
            if count >= self._bound:
                slot = self._slot(pair)  # can make a longer array
                self._counts[slot] = count
            elif pair in self._slots:
                self._remove(pair)

    def best(self) -> Pair | None:
        """The pair to merge, None where there is none."""
        if not self._pairs:
            return None
        left, right = self._ends[:, : len(self._pairs)]
        counts, piece_counts = self._counts[: len(self._pairs)], self._segmentation.piece_counts
        scores = counts / (piece_counts[left] * piece_counts[right])
        tied = np.flatnonzero(scores == scores.max())
        tied = tied[counts[tied] == counts[tied].max()]
        pieces = self._segmentation.pieces
        return min((self._pairs[slot] for slot in tied), key=lambda pair: (pieces[pair[0]], pieces[pair[1]]))

    def _slot(self, pair: Pair) -> int:
        slot = self._slots.setdefault(pair, len(self._pairs))
        if slot == len(self._pairs):
            if slot == len(self._counts):
                self._ends = np.concatenate([self._ends, np.empty_like(self._ends)], axis=1)
                self._counts = np.concatenate([self._counts, np.empty_like(self._counts)])
            self._pairs.append(pair)
            self._ends[:, slot] = pair
        return slot

    def _remove(self, pair: Pair) -> None:
        slot, last = self._slots.pop(pair), self._pairs.pop()
        if last != pair:  # it fills the gap
            self._pairs[slot] = last
            self._slots[last] = slot
            self._ends[:, slot] = last
            self._counts[slot] = self._counts[len(self._pairs)]
