"""Words of a corpus as a tokenizer divides it, with their counts."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_BREAK = "\n"  # not in a word: texts are lines


@dataclass(frozen=True)
class CorpusWords:
    """Words of a corpus; the model of a tokenizer splits each of them into pieces, regardless of its neighbours.

    Attributes:
        counts: word, as the normalizer and the pre-tokenizer write it → number of occurrences.
        texts: number of texts, which are lines.
    """

    counts: Mapping[str, int]
    texts: int


def count_words(texts: Iterable[str], tokenizer: Tokenizer) -> CorpusWords:
    """Counts the words that the normalizer and the pre-tokenizer of a tokenizer make of ``texts``.

    Memory grows with the number of distinct words.
    """
    counts: Counter[str] = Counter()
    normalizer, pre_tokenizer, number = tokenizer.normalizer, tokenizer.pre_tokenizer, 0
    for text in texts:
        number += 1
        normalized = text if normalizer is None else normalizer.normalize_str(text)
        if pre_tokenizer is None:
            counts[normalized] += 1
        else:
            counts.update([word for word, _ in pre_tokenizer.pre_tokenize_str(normalized)])
    counts.pop("", None)
    return CorpusWords(counts, number)


class WordSearch:
    """Search for the words that contain a string.

    Args:
        words: distinct words.
    """

    def __init__(self, words: Iterable[str]):
        self._words = sorted(words)
        self._text = _BREAK + _BREAK.join(self._words) + _BREAK
        self._starts, start = [], 1
        for word in self._words:
            self._starts.append(start)
            start += len(word) + 1

    def beginning_with(self, string: str) -> Iterator[str]:
        """Yields the words that begin with ``string``."""
        return self._found(_BREAK + string)

    def containing(self, string: str) -> Iterator[str]:
        """Yields the words that contain ``string``, each once."""
        return self._found(string)

    def _found(self, string: str) -> Iterator[str]:
        place = self._text.find(string)
        while place >= 0:
            number = bisect_right(self._starts, place + (string[0] == _BREAK)) - 1
            yield self._words[number]
            place = self._text.find(string, self._starts[number] + len(self._words[number]))
