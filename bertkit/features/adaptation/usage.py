"""Words of a corpus, as a tokenizer divides it and as a reader does, and how tokenizers split them into pieces."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from bertkit.features.adaptation.pieces import Split
from bertkit.tasks.ner.inputs import split_words, word_pieces

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast


def count_words(texts: Iterable[str], tokenizer: Tokenizer) -> tuple[Counter[str], Counter[str]]:
    """Counts the words of texts. Memory grows with the number of distinct words.

    Returns:
        Word, as the normalizer and the pre-tokenizer write it → number of occurrences: the model of the tokenizer
        splits each of them into pieces, regardless of its neighbours. And the same of `readable_words`.
    """
    counts: Counter[str] = Counter()
    chunks: Counter[str] = Counter()
    normalizer, pre_tokenizer = tokenizer.normalizer, tokenizer.pre_tokenizer
    for text in texts:
        chunks.update(text.split())
        normalized = text if normalizer is None else normalizer.normalize_str(text)
        if pre_tokenizer is None:
            counts[normalized] += 1
        else:
            counts.update([word for word, _ in pre_tokenizer.pre_tokenize_str(normalized)])
    counts.pop("", None)
    return counts, readable_words(chunks)


def readable_words(chunks: Counter[str]) -> Counter[str]:
    """Counts the words of `split_words` with a letter or a digit, whatever a tokenizer takes for a word.

    They are those of `bertkit.choose`.

    Args:
        chunks: text between blanks → its number; no word has a blank in it, so each distinct chunk is split once.
    """
    words: Counter[str] = Counter()
    for chunk, number in chunks.items():
        for word in split_words(chunk):
            if word.is_readable:
                words[word.text] += number
    return words


@dataclass(frozen=True)
class Usage:
    """Counts of the words of a corpus under one tokenizer.

    Attributes:
        words: number of words with a letter or a digit, whatever the tokenizer takes for a word.
        pieces: number of their pieces.
        split: number of words of several pieces.
        unknown: number of words with an unknown piece.
    """

    words: int
    pieces: int
    split: int
    unknown: int

    @property
    def pieces_per_word(self) -> float:
        """Mean number of pieces of a word."""
        return self.pieces / max(1, self.words)

    def record(self) -> dict[str, float]:
        """Returns the counts and the pieces per word, for JSON."""
        return {**asdict(self), "pieces_per_word": self.pieces_per_word}


def usage_of(words: Mapping[str, int], tokenizer: PreTrainedTokenizerFast) -> Usage:
    """Counts the pieces of words.

    Args:
        words: those of `readable_words`.
        tokenizer: a fast tokenizer.
    """
    splits = list(zip(words.values(), word_pieces([list(words)], tokenizer)[0], strict=True))
    return Usage(
        sum(words.values()),
        sum(count * len(ids) for count, ids in splits),
        sum(count for count, ids in splits if len(ids) > 1),
        sum(count for count, ids in splits if tokenizer.unk_token_id in ids),
    )


def usage_table(before: Usage, after: Usage) -> Iterator[str]:
    """Yields the lines of a table of two usages."""
    yield f"{'':<16}{'before':>8}{'after':>9}"
    yield f"{'pieces per word':<16}{before.pieces_per_word:>8.3f}{after.pieces_per_word:>9.3f}"
    for name in ("split", "unknown"):
        one, other = (getattr(usage, name) / max(1, usage.words) for usage in (before, after))
        yield f"{f'{name} words':<16}{one:>8.2%}{other:>9.2%}"


@dataclass(frozen=True)
class Effect:
    """Difference that new pieces make to the length of a corpus.

    Attributes:
        before, after: number of pieces of the corpus, without special tokens; punctuation is included.
        words: number of words as the tokenizer divides the texts; punctuation marks are among them.
        changed: number of these words with new pieces.
        not_shorter: number of these words that have as many pieces as before, or more; those that were unknown are
            left out.
        examples: words that save the most pieces, each with its old and its new pieces.
    """

    before: int
    after: int
    words: int
    changed: int
    not_shorter: int
    examples: list[tuple[str, list[str], list[str]]]

    @property
    def change(self) -> float:
        """Relative change of the length in pieces; −0.1 is a tenth less."""
        return self.after / self.before - 1


def effect_on(words: Mapping[str, int], before: Split, after: Split, unknown: str | None, examples: int) -> Effect:
    """Splits the words of a corpus by two tokenizers that divide it into the same words.

    Args:
        words: those of the tokenizer, the first of `count_words`.
        before, after: functions that split a word.
        unknown: the unknown piece; None if there is none.
        examples: number of examples.
    """
    earlier = later = changed = not_shorter = 0
    differing = []
    for word, count in words.items():
        old, new = before(word), after(word)
        earlier += count * len(old)
        later += count * len(new)
        if list(old) != list(new):
            changed += count
            not_shorter += count * (len(new) >= len(old) and unknown not in old)
            differing.append((count * (len(old) - len(new)), word, list(old), list(new)))
    best = heapq.nsmallest(examples, differing, key=lambda each: (-each[0], each[1]))
    shown = [(word, old, new) for _, word, old, new in best]
    return Effect(earlier, later, sum(words.values()), changed, not_shorter, shown)
