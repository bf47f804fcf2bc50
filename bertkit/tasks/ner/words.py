r"""Words of raw text: splitting, and the labels of tokens joined to labels of words.

Published data sets have their own rules, mostly close to those of the Penn Treebank. The rules here are short and apply
to every script:

1. Letters, digits and underscores that follow each other are a word, with the marks that modify them.
2. Such words stay one where an apostrophe, a hyphen, a full stop or an ampersand stands between them (``O'Neil``,
   ``well-known``, ``U.S``, ``AT&T``), and where a comma or a colon stands between digits (``3,000``, ``10:30``).
3. A Chinese character is a word.
4. Any other visible character is a word, with the marks that modify it.

White space is in no word, and neither are invisible characters that do not follow a character of a word, such as a mark
of the direction of text: tokenizers remove them.

Dimension letters: T tokens of a text, C labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import regex

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Aggregation = Literal["none", "simple", "first", "average", "max"]
"""Strategies of transformers' pipeline by which labels of tokens become labels of words."""

# \p{Cf} contains the joiners within Arabic, Indic and emoji sequences, and the zero-width space.
_WORD = regex.compile(
    r"""
    (?(DEFINE)
        (?P<marks> [\p{M}\p{Cf}]* )
        (?P<run> (?: [\p{L}\p{N}_--\p{Han}] (?&marks) )+ ) )
    \p{Han} (?&marks)
    | (?&run) (?: (?: ['’\-.&] | (?<=\p{Nd}) [,:] (?=\p{Nd}) ) (?&run) )*
    | [^\s\p{Cf}\p{Cc}] (?&marks)
    """,
    regex.VERBOSE | regex.VERSION1,
)


class Word(NamedTuple):
    """Word of a text.

    Attributes:
        text: ``text[start:end]`` of the whole text.
        start, end: character positions in the text; ``end`` is exclusive.
    """

    text: str
    start: int
    end: int


def split_words(text: str) -> list[Word]:
    """Splits a text into words, in order; every visible character is in exactly one word.

    >>> [word.text for word in split_words("Mr. O'Neil paid $3,000 (in the U.S.), didn't he?")]
    ['Mr', '.', "O'Neil", 'paid', '$', '3,000', '(', 'in', 'the', 'U.S', '.', ')', ',', "didn't", 'he', '?']
    >>> split_words("北京 é")
    [Word(text='北', start=0, end=1), Word(text='京', start=1, end=2), Word(text='é', start=3, end=4)]
    """
    return [Word(match.group(), match.start(), match.end()) for match in _WORD.finditer(text)]


class Unit(NamedTuple):
    """A token or a word with its label.

    Attributes:
        label: id of the most probable label.
        probability: probability of this label, in [0, 1].
        start, end: characters in the text, without white space at either end; ``end`` is exclusive.
    """

    label: int
    probability: float
    start: int
    end: int


def word_starts(text: str, ids: np.ndarray, offsets: np.ndarray, tokenizer: PreTrainedTokenizerBase) -> np.ndarray:
    """Returns for each token of a text whether it begins a word, (T,) bool.

    Where the tokenizer marks the pieces that continue a word (``##`` of WordPiece), its marks decide, as in
    transformers' pipeline. Other tokenizers mark spaces only; then a word is one of `split_words`, so that
    a full stop is not part of the word before it. The pipeline separates words by spaces there.

    Args:
        text: the text.
        ids, offsets: (T,) and (T, 2) int64, ids and characters of its tokens.
        tokenizer: the tokenizer.
    """
    if not len(ids):
        return np.zeros(0, bool)
    prefix = getattr(tokenizer.backend_tokenizer.model, "continuing_subword_prefix", None)
    if prefix:
        pieces = tokenizer.convert_ids_to_tokens(ids.tolist())
        return np.array([not piece.startswith(prefix) for piece in pieces])
    word_of = np.full(len(text) + 1, -1)
    for number, word in enumerate(split_words(text)):
        word_of[word.start : word.end] = number
    starts = [_trimmed(text, start, end)[0] for start, end in offsets.tolist()]
    words = word_of[starts]
    return np.append(True, (words[1:] != words[:-1]) | (words[1:] < 0))


def units_of(
    text: str,
    probabilities: np.ndarray,
    starts: Sequence[int],
    ends: Sequence[int],
    begins: Sequence[bool],
    aggregation: Aggregation,
) -> list[Unit]:
    """Returns the tokens of a text, or its words, with their labels.

    Args:
        text: the text.
        probabilities: (T, C) of its tokens.
        starts, ends: characters of the tokens.
        begins: whether each token begins a word, from `word_starts`.
        aggregation: ``none`` and ``simple`` return tokens, the others words, with the probabilities of their first
            token, of the token that is most certain of a label (``max``), or the mean over their tokens.
    """
    ranges = [_trimmed(text, start, end) for start, end in zip(starts, ends, strict=True)]
    groups: list[list[int]] = []
    for token in range(len(ranges)):
        if aggregation in ("none", "simple") or begins[token] or not groups:
            groups.append([token])
        else:
            groups[-1].append(token)
    units = []
    for group in groups:
        rows = probabilities[group]
        if aggregation == "average":
            row = rows.mean(axis=0)
        else:
            row = rows[rows.max(axis=1).argmax() if aggregation == "max" else 0]
        label = int(row.argmax())
        units.append(Unit(label, float(row[label]), ranges[group[0]][0], ranges[group[-1]][1]))
    return units


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Returns a range of characters without white space at either end; some tokenizers count the space before.

    A token of white space alone, such as the lone ``\u2581`` of SentencePiece, is at the start of what follows.
    """
    inner = text[start:end]
    if not inner.strip():
        return end, end
    return start + len(inner) - len(inner.lstrip()), end - (len(inner) - len(inner.rstrip()))
