"""Alignment of character spans with words: spans → IOB2 tags, and offsets in UTF-16 code units.

Offsets count characters as Python does: code points, so an emoji counts 1, a combining mark counts 1, and text that is
written from right to left is counted in reading order. Tools in JavaScript may count UTF-16 code units, in which most
emoji count 2 (https://github.com/doccano/doccano/issues/2290).
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Literal

from bertkit.errors import shown
from bertkit.metrics.entities import OUTSIDE
from bertkit.tasks.ner.highlighting import Span
from bertkit.tasks.ner.words import Word

OffsetUnit = Literal["character", "utf16"]


@dataclass
class Alignment:
    """Result of `align` for one text.

    Attributes:
        tags: IOB2 tag of each word.
        faults: descriptions of spans that cannot be aligned, or of pairs that overlap.
        snapped: number of spans that cut a word and were extended to whole words.
        trimmed: number of spans that begin or end with white space or invisible characters, which are left out.
    """

    tags: list[str]
    faults: list[str] = field(default_factory=list)
    snapped: int = 0
    trimmed: int = 0


def align(text: str, words: Sequence[Word], spans: Sequence[Span], snap: bool) -> Alignment:
    """Converts the spans of a text to tags of its words.

    Args:
        text: the text.
        words: its words, from `bertkit.tasks.ner.words.split_words`.
        spans: typed character ranges, in any order.
        snap: extend a span that begins or ends inside a word to the whole word; otherwise it is a fault.

    >>> from bertkit.tasks.ner.words import split_words
    >>> text = "Ann flew to New York"
    >>> align(text, split_words(text), [Span(12, 20, "LOC"), Span(0, 3, "PER")], snap=False).tags
    ['B-PER', 'O', 'O', 'B-LOC', 'I-LOC']
    """
    found = Alignment([OUTSIDE] * len(words))
    starts, ends = [word.start for word in words], [trimmed(text, word.start, word.end)[1] for word in words]
    placed: list[tuple[int, int, Span]] = []  # first word, end of the words, span
    for span in spans:
        if not 0 <= span.start <= span.end <= len(text):
            found.faults.append(f"span {span.start}:{span.end} ({span.type}) is outside of the text, 0:{len(text)}")
            continue
        start, end = trimmed(text, span.start, span.end)
        if start == end:
            found.faults.append(f"{_named(span, text)} has no word")
            continue
        first, last = bisect_right(ends, start), bisect_left(starts, end)  # the words that it touches
        cut = [index for index in {first, last - 1} if starts[index] < start or ends[index] > end]
        if cut and not snap:
            word = words[min(cut)].text
            found.faults.append(
                f"{_named(span, text)} cuts the word {shown(word)}; correct it, or give --snap to extend such spans "
                "to whole words"
            )
            continue
        found.snapped += bool(cut)
        found.trimmed += (start, end) != (span.start, span.end)
        placed.append((first, last, span))
    placed.sort(key=lambda each: each[:2])
    for (_, end_before, before), (first, _, span) in pairwise(placed):
        if first < end_before:
            found.faults.append(f"{_named(before, text)} and {_named(span, text)} overlap; keep one of them")
    for first, last, span in placed:
        found.tags[first:last] = [f"B-{span.type}", *[f"I-{span.type}"] * (last - first - 1)]
    return found


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Returns a range without the white space and invisible characters, such as marks of direction, at its ends.

    >>> trimmed(" Ann\u200b ", 0, 6)
    (1, 4)
    """
    while start < end and _is_invisible(text[start]):
        start += 1
    while start < end and _is_invisible(text[end - 1]):
        end -= 1
    return start, end


def _is_invisible(character: str) -> bool:
    return character.isspace() or unicodedata.category(character) in ("Cc", "Cf")


def _named(span: Span, text: str) -> str:
    return f"span {span.start}:{span.end} ({span.type}, {shown(text[span.start : span.end])})"


def from_utf16(text: str, position: int) -> int | None:
    """Converts an offset in UTF-16 code units to one in characters; ``None`` if it is within a character or outside.

    >>> [from_utf16("a😀b", position) for position in range(6)]
    [0, 1, None, 2, 3, None]
    """
    starts = _utf16_starts(text)
    index = bisect_left(starts, position)
    return index if index < len(starts) and starts[index] == position else None


def to_utf16(text: str, position: int) -> int:
    """Converts an offset in characters to one in UTF-16 code units.

    >>> to_utf16("a😀b", 2)
    3
    """
    return len(text[:position].encode("utf-16-le")) // 2


def _utf16_starts(text: str) -> list[int]:
    """Returns the offset of every character and of the end."""
    return list(accumulate((1 + (character > "\uffff") for character in text), initial=0))
