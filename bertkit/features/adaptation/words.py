"""Words of a corpus with their counts: as a tokenizer divides it, and as a reader does."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from bertkit.tasks.ner.inputs import split_words

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_BREAK = "\n"  # not in a word: texts are lines


def count_words(texts: Iterable[str], tokenizer: Tokenizer) -> tuple[Counter[str], Counter[str]]:
    """Counts the words of texts. Memory grows with the number of distinct words.

    Returns:
        Word, as the normalizer and the pre-tokenizer write it → number of occurrences: the model of the tokenizer
        splits each of them into pieces, regardless of its neighbours. And the same of the words of `split_words` with a
        letter or a digit, whatever a tokenizer takes for a word; they are those of `bertkit.choose`.
    """
    counts: Counter[str] = Counter()
    chunks: Counter[str] = Counter()
    normalizer, pre_tokenizer = tokenizer.normalizer, tokenizer.pre_tokenizer
    for text in texts:
        chunks.update(text.split())  # no word has a blank in it, so each distinct chunk is split once
        normalized = text if normalizer is None else normalizer.normalize_str(text)
        if pre_tokenizer is None:
            counts[normalized] += 1
        else:
            counts.update([word for word, _ in pre_tokenizer.pre_tokenize_str(normalized)])
    counts.pop("", None)
    plain: Counter[str] = Counter()
    for chunk, number in chunks.items():
        for word in split_words(chunk):
            if any(map(str.isalnum, word.text)):
                plain[word.text] += number
    return counts, plain


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
