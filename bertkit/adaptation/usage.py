"""How a tokenizer splits a corpus: pieces per word, split and unknown words, before and after a change."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from bertkit.adaptation.words import CorpusWords

Split = Callable[[str], Sequence[str]]


@dataclass(frozen=True)
class Usage:
    """Counts of a corpus under one tokenizer.

    Attributes:
        texts: number of texts, which are lines.
        words: number of words, as the tokenizer divides the texts; punctuation is included.
        pieces: number of pieces, without special tokens.
        split: number of words of several pieces.
        unknown: number of words with an unknown piece.
    """

    texts: int
    words: int
    pieces: int
    split: int
    unknown: int

    @property
    def pieces_per_word(self) -> float:
        """Mean number of pieces of a word."""
        return self.pieces / self.words

    @property
    def pieces_per_text(self) -> float:
        """Mean length of a text in pieces."""
        return self.pieces / self.texts

    def record(self) -> dict[str, float]:
        """Returns the counts, and pieces per word and per text, for JSON."""
        return {**asdict(self), "pieces_per_word": self.pieces_per_word, "pieces_per_text": self.pieces_per_text}


@dataclass(frozen=True)
class Effect:
    """Difference that new pieces make to a corpus.

    Attributes:
        before, after: counts under the old and under the new tokenizer.
        changed: number of words with new pieces.
        not_shorter: number of these words that have as many pieces as before, or more.
        examples: words that save the most pieces, each with its old and its new pieces.
    """

    before: Usage
    after: Usage
    changed: int
    not_shorter: int
    examples: list[tuple[str, list[str], list[str]]]

    @property
    def change(self) -> float:
        """Relative change of the number of pieces; −0.1 is a tenth less."""
        return self.after.pieces / self.before.pieces - 1


def compare_usage(words: CorpusWords, before: Split, after: Split, unknown: str | None, examples: int) -> Effect:
    """Splits the words of a corpus by two tokenizers with the same words.

    Args:
        words: the corpus.
        before, after: functions that split a word.
        unknown: the unknown piece; None if there is none.
        examples: number of examples.
    """
    sums = [[0, 0, 0], [0, 0, 0]]
    changed = not_shorter = 0
    differing = []
    for word, count in words.counts.items():
        old, new = before(word), after(word)
        for row, pieces in zip(sums, (old, new), strict=True):
            row[0] += count * len(pieces)
            row[1] += count * (len(pieces) > 1)
            row[2] += count * (unknown in pieces)
        if list(old) != list(new):
            changed += count
            not_shorter += count * (len(new) >= len(old) and unknown not in old)
            differing.append((count * (len(old) - len(new)), word, list(old), list(new)))
    number = sum(words.counts.values())
    earlier, later = (Usage(words.texts, number, *row) for row in sums)
    best = heapq.nsmallest(examples, differing, key=lambda each: (-each[0], each[1]))
    return Effect(earlier, later, changed, not_shorter, [(word, old, new) for _, word, old, new in best])
