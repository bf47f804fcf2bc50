"""Texts of examples with marked spans, cut to a length that a page can hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from bertkit.tasks.report_parts import PREDICTED, TRUE, Mark

_LONGEST = 700  # characters of a text in the page
_BEFORE = 150  # characters before the first mark of a longer text


@dataclass(frozen=True)
class Piece:
    """Part of a text with the same marks.

    Attributes:
        text: the part.
        style: empty, ``true``, ``predicted`` or ``both``.
        label: types of the marks that end with this part.
    """

    text: str
    style: str
    label: str


def pieces(text: str, marks: Sequence[Mark]) -> list[Piece]:
    """Divides a text at the ends of its marks; a long text is cut around the first mark.

    >>> marks = [Mark(3, 11, "true"), Mark(7, 11, "predicted")]
    >>> [(piece.text, piece.style) for piece in pieces("to New York now", marks)]
    [('to ', ''), ('New ', 'true'), ('York', 'both'), (' now', '')]
    """
    begin, end = 0, len(text)
    if len(text) > _LONGEST:
        begin = max(min((mark.start for mark in marks), default=0) - _BEFORE, 0)
        end = min(begin + _LONGEST, len(text))
    borders = {begin, end, *(place for mark in marks for place in (mark.start, mark.end) if begin < place < end)}
    places = sorted(borders)
    found = []
    for first, last in pairwise(places):
        covering = [mark for mark in marks if mark.start <= first and mark.end >= last]
        sides = {mark.side for mark in covering}
        style = "both" if sides == {TRUE, PREDICTED} else next(iter(sides), "")
        ending = [mark for mark in covering if mark.end == last and mark.label]
        labels = dict.fromkeys(mark.label for mark in ending)
        found.append(Piece(text[first:last], style, " / ".join(labels)))
    if begin:
        found.insert(0, Piece("… ", "", ""))
    if end < len(text):
        found.append(Piece(f" … ({len(text) - (end - begin):,} more characters)", "", ""))
    return found
