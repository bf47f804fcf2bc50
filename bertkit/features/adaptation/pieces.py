"""Choice of the pieces that shorten a corpus most.

WordPiece takes the longest piece that fits at each place from the left, and Unigram the pieces with the greatest
product of probabilities. With both a word in which no new piece is used is split as before, and a new piece can be used
in any word in which it fits: with WordPiece "transform" also begins "transformers". The saving of a piece is counted
with these words.

Byte-level BPE merges the pair of neighbouring pieces whose merge comes first in its list, until no pair is in the list.
Merges at the end of the list are made when all old ones have been made: they join the pieces of the old vocabulary, and
a word in which none of them is made is split as before. Each merge adds one piece, so that a word of several pieces
needs the pieces between.
"""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from unicodedata import category

from bertkit.data.corpus.vocabulary.likelihood import Segmentation
from bertkit.data.corpus.vocabulary.structure import BEGINNING
from bertkit.runtime.progress import Reached, unreported

Split = Callable[[str], Sequence[str]]
"""Function that splits a word into the pieces of the old vocabulary."""

_BREAK = "\n"  # between words of a text; not in one: texts are lines
_LONGEST_RUN = 20  # pieces that are joined to one


@dataclass(frozen=True)
class NewPiece:
    """A piece that is added to a vocabulary.

    Attributes:
        text: the piece, with the marks of its vocabulary.
        parts: pieces of the old vocabulary that it stands for, in order.
    """

    text: str
    parts: tuple[str, ...]


class WordSearch:
    """Search for the words that contain a string."""

    def __init__(self, words: Iterable[str]):
        self._words = sorted(words)
        self._text = _BREAK + _BREAK.join(self._words) + _BREAK
        self._starts, start = [], 1
        for word in self._words:
            self._starts.append(start)
            start += len(word) + 1

    def beginning_with(self, string: str) -> Iterator[str]:
        """Yields the words that begin with ``string``."""
        return self._find(_BREAK + string)

    def containing(self, string: str) -> Iterator[str]:
        """Yields the words that contain ``string``, each once."""
        return self._find(string)

    def _find(self, string: str) -> Iterator[str]:
        place = self._text.find(string)
        while place >= 0:
            number = bisect_right(self._starts, place + (string[0] == _BREAK)) - 1
            yield self._words[number]
            place = self._text.find(string, self._starts[number] + len(self._words[number]))


class Splitter(ABC):
    """Splits words by an old vocabulary and the pieces that have been added.

    Args:
        vocabulary: the old pieces.
        unknown: the piece that stands for words or characters that cannot be split; None if there is none.
    """

    def __init__(self, vocabulary: Iterable[str], unknown: str | None):
        self.vocabulary, self.unknown = frozenset(vocabulary), unknown
        self.added: set[str] = set()

    def cost(self, word: str, pieces: Sequence[str]) -> int:
        """Returns the number of pieces of a word; of an unknown one, one more than it has characters, so that a piece
        for it saves something."""
        return len(word) + 1 if self.unknown in pieces else len(pieces)

    @abstractmethod
    def split(self, word: str) -> Sequence[str]:
        """Returns the pieces of a word, old and added ones."""

    @abstractmethod
    def candidates(self, word: str, pieces: Sequence[str]) -> Iterator[NewPiece]:
        """Yields the pieces that would shorten a word with these old pieces."""

    @abstractmethod
    def find_affected(self, piece: str, search: WordSearch) -> Iterator[str]:
        """Yields the words in which a piece may be used."""


class WordPieceSplitter(Splitter):
    """Longest match from the left; pieces that continue a word begin with ``prefix``.

    Args:
        vocabulary, unknown: as for `Splitter`.
        prefix: ``##`` in BERT.
        longest_word: maximum length of a word in characters; longer ones are unknown.
    """

    def __init__(self, vocabulary: Iterable[str], unknown: str, prefix: str, longest_word: int):
        super().__init__(vocabulary, unknown)
        self.prefix, self.longest_word = prefix, longest_word

    def split(self, word: str) -> Sequence[str]:
        if len(word) > self.longest_word:
            return [str(self.unknown)]
        pieces: list[str] = []
        place = 0
        while place < len(word):
            mark = self.prefix if place else ""
            for end in range(len(word), place, -1):
                piece = mark + word[place:end]
                if piece in self.added or piece in self.vocabulary:
                    break
            else:
                return [str(self.unknown)]
            pieces.append(piece)
            place = end
        return pieces

    def candidates(self, word: str, pieces: Sequence[str]) -> Iterator[NewPiece]:
        if self.unknown in pieces:
            if len(word) <= self.longest_word:
                yield NewPiece(word, tuple(pieces))
            return
        for start, end in _find_runs(len(pieces)):
            run = tuple(pieces[start:end])
            yield NewPiece(run[0] + "".join(piece.removeprefix(self.prefix) for piece in run[1:]), run)

    def find_affected(self, piece: str, search: WordSearch) -> Iterator[str]:
        if piece.startswith(self.prefix) and len(piece) > len(self.prefix):
            return search.containing(piece.removeprefix(self.prefix))
        return search.beginning_with(piece)


class UnigramSplitter(Splitter):
    """The greatest product of probabilities.

    An added piece has the score of its old pieces and a little more for each piece that it saves. A word is then split
    as before, with old pieces joined to added ones such that few are left.

    Args:
        vocabulary, unknown: as for `Splitter`.
        split_before: splits a word by the old vocabulary.
    """

    def __init__(self, vocabulary: Iterable[str], unknown: str | None, split_before: Split):
        super().__init__(vocabulary, unknown)
        self._split_before = cache(split_before)

    def split(self, word: str) -> Sequence[str]:
        old = self._split_before(word)
        if not self.added or self.unknown in old:
            return old
        best: list[tuple[int, list[str]]] = [(0, [])]  # number of pieces and the pieces up to each boundary
        for end in range(1, len(old) + 1):
            length, pieces = best[end - 1]
            choice, last = (length + 1, pieces), old[end - 1]
            for start in range(max(0, end - _LONGEST_RUN), end - 1):
                joined = "".join(old[start:end])
                if joined in self.added and best[start][0] + 1 < choice[0]:
                    choice, last = (best[start][0] + 1, best[start][1]), joined
            best.append((choice[0], [*choice[1], last]))
        return best[-1][1]

    def candidates(self, word: str, pieces: Sequence[str]) -> Iterator[NewPiece]:
        if "".join(pieces) == word:  # else it has unknown characters, or bytes
            for start, end in _find_runs(len(pieces)):
                text = "".join(pieces[start:end])
                letters = {each.isalnum() or category(each)[0] == "M" for each in text.removeprefix(BEGINNING)}
                if len(letters) == 1:  # letters and digits only, or none: no word with the comma after it
                    yield NewPiece(text, tuple(pieces[start:end]))

    def find_affected(self, piece: str, search: WordSearch) -> Iterator[str]:
        return search.containing(piece)


def _find_runs(number: int) -> Iterator[tuple[int, int]]:
    """Yields the start and the end of each run of at least two of ``number`` pieces."""
    for start in range(number - 1):
        for end in range(start + 2, min(number, start + _LONGEST_RUN) + 1):
            yield start, end


def choose_pieces(
    words: Mapping[str, int], splitter: Splitter, number: int, min_frequency: int, progress: Reached = unreported
) -> list[NewPiece]:
    """Chooses up to ``number`` new pieces, the one that saves the most pieces in the words first.

    The saving of a piece is computed by splitting all words in which it may be used, with the pieces chosen before. A
    candidate joins neighbouring old pieces of a word, or is a whole word that was unknown, and waits in the order of
    its saving in such words: what it saves in others counts only when it comes first. Ties go to the piece that comes
    first in code point order.

    Args:
        words: word → number of occurrences.
        splitter: of the old vocabulary; the chosen pieces are in its ``added``.
        number: maximum number of pieces, at least 0.
        min_frequency: minimum number of uses of a piece in these words, at least 1.
        progress: is called with the number of chosen pieces, and with ``number``.
    """
    splits = {word: splitter.split(word) for word in words}
    candidates, waiting = _rank(words, splits, splitter, min_frequency)
    search = WordSearch(words)
    chosen: list[NewPiece] = []
    while waiting and len(chosen) < number:
        _, piece = heapq.heappop(waiting)
        splitter.added.add(piece)
        changed = {
            word: pieces
            for word in splitter.find_affected(piece, search)
            if (pieces := splitter.split(word)) != splits[word]
        }
        saved = sum(
            words[word] * (splitter.cost(word, splits[word]) - splitter.cost(word, pieces))
            for word, pieces in changed.items()
        )
        uses = sum(words[word] for word, pieces in changed.items() if piece in pieces)
        # The place in the queue is that of an earlier saving, which pieces chosen since then may have reduced.
        if saved > 0 and uses >= min_frequency and (not waiting or (-saved, piece) <= waiting[0]):
            splits.update(changed)
            chosen.append(candidates[piece])
            progress(len(chosen), number)
            continue
        splitter.added.remove(piece)
        if saved > 0 and uses >= min_frequency:
            heapq.heappush(waiting, (-saved, piece))
    return chosen


def _rank(
    words: Mapping[str, int], splits: Mapping[str, Sequence[str]], splitter: Splitter, min_frequency: int
) -> tuple[dict[str, NewPiece], list[tuple[int, str]]]:
    """Returns the candidates by name, and a heap of them by their saving where all their parts occur together."""
    savings: Counter[str] = Counter()
    uses: Counter[str] = Counter()
    candidates: dict[str, NewPiece] = {}
    for word, count in words.items():
        pieces = splits[word]
        if len(pieces) == 1 and splitter.unknown not in pieces:
            continue
        for candidate in splitter.candidates(word, pieces):
            name = candidate.text
            if name not in splitter.vocabulary:
                candidates.setdefault(name, candidate)
                is_unknown = splitter.unknown in candidate.parts
                savings[name] += count * (len(word) if is_unknown else len(candidate.parts) - 1)
                uses[name] += count
    waiting = [(-saved, name) for name, saved in savings.items() if uses[name] >= min_frequency]
    heapq.heapify(waiting)
    return {name: candidates[name] for _, name in waiting}, waiting


def choose_merges(
    words: Mapping[str, int],
    split: Split,
    vocabulary: Iterable[str],
    number: int,
    min_frequency: int,
    progress: Reached = unreported,
) -> tuple[list[NewPiece], list[tuple[str, str]]]:
    """Chooses merges for up to ``number`` new pieces, most frequent pairs first; two merges can make the same piece.

    The count of a pair is the number of pieces that its merge saves. Ties go to the pair that comes first in code point
    order. Pairs that would make a piece of the old vocabulary, which its own merges do not make here, are left out.

    Args:
        words: word → number of occurrences.
        split: splits a word by the old vocabulary.
        vocabulary: the old pieces.
        number: maximum number of pieces, at least 0.
        min_frequency: minimum count of a pair, at least 1.
        progress: is called with the number of pieces, and with ``number``.

    Returns:
        The new pieces, and the merges, each a pair of pieces, in the order in which they are made.
    """
    old = frozenset(vocabulary)
    # Words with unknown characters, or with bytes in place of characters, are left out.
    segmentation = Segmentation(
        ((pieces, count) for word, count in words.items() if "".join(pieces := split(word)) == word), prefix=""
    )
    counts, pieces = segmentation.pair_counts, segmentation.pieces
    parts: dict[str, tuple[str, ...]] = {piece: (piece,) for piece in pieces}
    merges: list[tuple[str, str]] = []
    added: list[NewPiece] = []

    def entry(pair: tuple[int, int]) -> tuple[int, tuple[str, str], tuple[int, int]]:
        return -counts[pair], (pieces[pair[0]], pieces[pair[1]]), pair

    waiting = [entry(pair) for pair in counts]
    heapq.heapify(waiting)
    while waiting and len(added) < number:
        negative, (left, right), pair = heapq.heappop(waiting)
        count = counts.get(pair, 0)
        if left + right in old or count < min_frequency:
            continue
        if count != -negative:  # the place in the queue is that of an earlier count
            heapq.heappush(waiting, entry(pair))
            continue
        merges.append((left, right))
        if left + right not in parts:
            parts[left + right] = parts[left] + parts[right]
            added.append(NewPiece(left + right, parts[left + right]))
            progress(len(added), number)
        for touched in segmentation.merge(pair):
            if counts.get(touched, 0) >= min_frequency:
                heapq.heappush(waiting, entry(touched))
    return added, merges
