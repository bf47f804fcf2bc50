"""Paragraph → sentences, by rules that need no model and no language setting.

The released ``create_pretraining_data.py`` takes sentences as given (one a line) and its README leaves the splitting to
other tools; the next-sentence task bears some noise here, since its segments usually span several sentences.
"""

from __future__ import annotations

import re

RULES_VERSION = "1"
"""Changes with every change of what `split_sentences` returns: stores of tokens are kept under it."""

_ABBREVIATIONS = frozenset(
    "mr mrs ms messrs mme mlle dr prof rev fr st ste sr jr hon gen col maj capt cpt cmdr lt sgt gov sen rep pres supt "
    "mt ft vs viz etc cf ca approx esp resp incl ibid op al ed eds transl dept univ assn bros inc ltd corp".split()
)
# These are abbreviations only where a number follows: "No. 7" and "Jan. 5", but "No. He did not."
_BEFORE_NUMBERS = frozenset(
    "no nos vol vols p pp fig figs ch sec art par eq jan feb mar apr jun jul aug sep sept oct nov dec".split()
)
_CLOSERS = "\"'”’»›)\\]}"
_WIDE_CLOSERS = "」』”’）】》〉〕"
_OPENERS = "\"'“‘„«‹([{¿¡「『（【《〈"
# Scripts that put no space between words. Only Thai, Lao, Khmer and Burmese part their phrases by one.
_SPACELESS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_PHRASE_SPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
# The look-behind keeps a long run of dots from being tried at each of them.
_BOUNDARY = re.compile(
    rf"(?<![.!?…])(?P<mark>[.!?…]+)[{_CLOSERS}]*\s+"
    rf"|[。！？｡।॥؟۔။។።]+[{_WIDE_CLOSERS}]*\s*"
    rf"|(?<=[{_PHRASE_SPACED}])\s+(?=[{_PHRASE_SPACED}])"
)
_WEAK_BOUNDARY = re.compile(r"[;:,]\s+|[，、；：]\s*|\s+")
_SPACELESS_LETTER = re.compile(f"[{_SPACELESS}]")
_LONGEST = 1000
_LONGEST_SPACELESS = 250


def split_sentences(paragraph: str) -> list[str]:
    """The sentences of a paragraph, in order, without white space at their ends; none is empty.

    The rules:

    - ``.``, ``!``, ``?`` and ``…``, with the quotes and brackets that close after them, end a sentence where white
      space follows and then something that can open one: an uppercase letter, a digit, an opening quote or bracket,
      or a letter of a script without case.
    - A single ``.`` does not, after a known abbreviation (``Mr.``, ``Dr.``, ``etc.``), after letters parted by dots
      (``e.g.``, ``U.S.``, ``p.m.``), after a single initial (``J. K. Rowling``; ``I`` is read as the pronoun), after
      one that is only used before numbers where a number follows (``No. 7``, ``Jan. 5``), and after a number that
      opens a paragraph (``1. Introduction``).
    - ``。！？｡।॥؟۔`` and the like end a sentence whatever follows. In Thai, Lao, Khmer and Burmese, white space does.
    - What is then still longer than 1,000 characters, or 250 in a script without spaces, is cut at the last comma,
      semicolon, colon or white space before that length, or else at that length, so that text without any full stop
      does not become one giant sentence.

    The limits: the abbreviations are English; a sentence that truly ends in one is joined to the next; a sentence that
    opens in lower case is joined to the one before; white space in Thai parts clauses as well as sentences.

    No text is lost: the sentences joined equal the paragraph, white space aside.

    >>> split_sentences('Mr. Holmes rose. "Come!" he cried. "The U.S. envoy pays £3.50 to J. Watson."')
    ['Mr. Holmes rose.', '"Come!" he cried.', '"The U.S. envoy pays £3.50 to J. Watson."']
    >>> split_sentences("我是学生。你呢？「好！」他说。")
    ['我是学生。', '你呢？', '「好！」', '他说。']
    """
    pieces = []
    start = 0
    for boundary in _BOUNDARY.finditer(paragraph):
        if boundary["mark"] is None or _ends_sentence(paragraph, start, boundary):
            pieces.append(paragraph[start : boundary.end()])
            start = boundary.end()
    pieces.append(paragraph[start:])
    return [part for piece in pieces for part in _cut(piece.strip())]


def _ends_sentence(text: str, start: int, boundary: re.Match[str]) -> bool:
    opener = text[boundary.end() : boundary.end() + 1]
    if not opener or not (opener in _OPENERS or opener.isdigit() or (opener.isalpha() and not opener.islower())):
        return False
    if boundary["mark"] != ".":
        return True
    # An abbreviation is short: a fixed look-back keeps the whole linear in the length of the text.
    mark = boundary.start("mark")
    before = text[max(start, mark - 16) : mark].split()
    if not before:
        return True
    word = before[-1].lstrip(_OPENERS)
    if word.isdigit():
        return bool(text[start:mark].strip() != word)
    if "." in word and all(len(part) == 1 and part.isalpha() for part in word.split(".")):
        return False
    if len(word) == 1 and word.isupper() and word != "I":
        return False
    if opener.isdigit() and word.lower() in _BEFORE_NUMBERS:
        return False
    return word.lower() not in _ABBREVIATIONS


def _cut(piece: str) -> list[str]:
    """``piece`` as parts of at most the longest length allowed; ``[]`` for the empty text."""
    parts = []
    start = 0
    while start < len(piece):
        window = piece[start : start + _LONGEST]
        spaceless = 2 * len(_SPACELESS_LETTER.findall(window)) > len(window)
        longest = _LONGEST_SPACELESS if spaceless else _LONGEST
        end = start + longest
        if end < len(piece):
            weak = [mark.end() for mark in _WEAK_BOUNDARY.finditer(window, 0, longest)]
            end = start + weak[-1] if weak else end
        if part := piece[start:end].strip():
            parts.append(part)
        start = end
    return parts
