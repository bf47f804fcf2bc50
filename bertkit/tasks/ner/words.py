r"""Splitting of raw text into words.

Published data sets have their own rules, mostly close to those of the Penn Treebank. The rules here are short and apply
to every script:

1. Letters, digits and underscores that follow each other are a word, with the marks that modify them.
2. Such words stay one where an apostrophe, a hyphen, a full stop or an ampersand stands between them (``O'Neil``,
   ``well-known``, ``U.S``, ``AT&T``), and where a comma or a colon stands between digits (``3,000``, ``10:30``).
3. A Chinese character is a word.
4. Any other visible character is a word, with the marks that modify it.

White space is in no word, and neither are invisible characters that do not follow a character of a word, such as a mark
of the direction of text: tokenizers remove them.
"""

from __future__ import annotations

from typing import NamedTuple

import regex

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
