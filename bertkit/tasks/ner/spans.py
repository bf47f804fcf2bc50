"""Character spans of texts, and their alignment with words as IOB2 tags.

Offsets count characters as Python does: code points, so an emoji counts 1, a combining mark counts 1, and text that is
written from right to left is counted in reading order. Tools in JavaScript may count UTF-16 code units, in which most
emoji count 2 (https://github.com/doccano/doccano/issues/2290).
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple

from bertkit.metrics.entities import OUTSIDE
from bertkit.runtime.errors import DataError, noted, shown
from bertkit.tasks.ner.inputs import Word

OffsetUnit = Literal["character", "utf16"]


class Span(NamedTuple):
    """Typed range of a text.

    Attributes:
        start, end: character positions, or offsets in another unit; ``end`` is exclusive.
        type: entity type.
        text: the text that it covers according to its source; ``None`` if the source does not say.
    """

    start: int
    end: int
    type: str
    text: str | None = None


@dataclass
class Alignment:
    """Result of `align` for one text.

    Attributes:
        words: the words of the text.
        tags: IOB2 tag of each word.
        faults: descriptions of spans that cannot be aligned, or of pairs that overlap.
        snapped: number of spans that cut a word and were extended to whole words.
        trimmed: number of spans that begin or end with white space or invisible characters, which are left out.
    """

    words: list[str]
    tags: list[str]
    faults: list[str] = field(default_factory=list)
    snapped: int = 0
    trimmed: int = 0


def align(
    text: str, words: Sequence[Word], spans: Sequence[Span], snap: bool, unit: OffsetUnit = "character"
) -> Alignment:
    """Converts the spans of a text to tags of its words.

    Args:
        text: the text.
        words: its words, from `bertkit.tasks.ner.inputs.split_words`.
        spans: typed ranges, in any order.
        snap: extend a span that begins or ends inside a word to the whole word; otherwise it is a fault.
        unit: unit of the offsets.

    >>> from bertkit.tasks.ner.inputs import split_words
    >>> text = "Ann flew to New York"
    >>> align(text, split_words(text), [Span(12, 20, "LOC"), Span(0, 3, "PER")], snap=False).tags
    ['B-PER', 'O', 'O', 'B-LOC', 'I-LOC']
    """
    result = Alignment([word.text for word in words], [OUTSIDE] * len(words))
    starts, ends = [word.start for word in words], [trimmed(text, word.start, word.end)[1] for word in words]
    placed: list[tuple[int, int, str, str]] = []  # first word, end of the words, type, name of the span
    for span in spans:
        with noted(result.faults):
            given = _in_characters(span, text, unit)
            named = f"span {span.start}:{span.end} ({span.type}, {shown(text[slice(*given)])})"
            start, end = trimmed(text, *given)
            if start == end:
                raise DataError(f"{named} has no word")
            first, last = bisect_right(ends, start), bisect_left(starts, end)  # the words that it touches
            cut = [index for index in {first, last - 1} if starts[index] < start or ends[index] > end]
            if cut and not snap:
                raise DataError(
                    f"{named} cuts the word {shown(words[min(cut)].text)}; correct it, or give --snap to extend such "
                    "spans to whole words"
                )
            result.snapped += bool(cut)
            result.trimmed += (start, end) != given
            placed.append((first, last, span.type, named))
    placed.sort(key=lambda each: each[:2])
    for (_, end_before, _, before), (first, _, _, named) in pairwise(placed):
        if first < end_before:
            result.faults.append(f"{before} and {named} overlap; keep one of them")
    for first, last, kind, _ in placed:
        result.tags[first:last] = [f"B-{kind}", *[f"I-{kind}"] * (last - first - 1)]
    return result


def _in_characters(span: Span, text: str, unit: OffsetUnit) -> tuple[int, int]:
    """Returns the offsets of a span in characters; DataError if they are not those of a range with its text."""
    start, end, place = span.start, span.end, f"span {span.start}:{span.end} ({span.type})"
    if unit == "utf16":
        first, last = from_utf16(text, start), from_utf16(text, end)
        if first is None or last is None:
            raise DataError(f"{place} is outside of the text or divides a character")
        start, end = first, last
    if not 0 <= start <= end <= len(text):
        what = "ends before it begins" if end < start else f"is outside of the text, 0:{len(text)}"
        raise DataError(f"{place} {what}")
    covered = text[start:end]
    if span.text is not None and _plain(span.text) != _plain(covered):
        raise DataError(f"{place} is {shown(covered)} in the text, and {shown(span.text)} in the span")
    return start, end


def _plain(text: str) -> str:
    # Label Studio writes a line break within a span as \n, a backslash and a letter.
    return " ".join(text.replace("\\n", "\n").split())


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


def from_utf16(text: str, position: int) -> int | None:
    """Converts an offset in UTF-16 code units to one in characters; ``None`` if it is within a character or outside.

    >>> [from_utf16("a😀b", position) for position in range(6)]
    [0, 1, None, 2, 3, None]
    """
    units = text.encode("utf-16-le", "surrogatepass")
    if not 0 <= 2 * position <= len(units):
        return None
    try:
        return len(units[: 2 * position].decode("utf-16-le"))
    except UnicodeDecodeError:  # half a pair at the end
        return None


def to_utf16(text: str, position: int) -> int:
    """Converts an offset in characters to one in UTF-16 code units.

    >>> to_utf16("a😀b", 2)
    3
    """
    return len(text[:position].encode("utf-16-le")) // 2
