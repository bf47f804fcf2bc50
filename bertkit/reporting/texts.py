"""Numbers and texts as a page shows them: rounded, and with marked spans, cut to a length that it can hold."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from bertkit.reporting.parts import PREDICTED, TRUE, Cell, Mark

_LONGEST = 700  # characters of a text in the page
_BEFORE = 150  # characters before the first mark of a longer text


class Piece(NamedTuple):
    """Part of a text with the same marks, its style (empty, ``true``, ``predicted`` or ``both``), and the types of the
    marks that end with it."""

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
    parts = []
    for first, last in pairwise(places):
        covering = [mark for mark in marks if mark.start <= first and mark.end >= last]
        sides = {mark.side for mark in covering}
        style = "both" if sides == {TRUE, PREDICTED} else next(iter(sides), "")
        ending = [mark for mark in covering if mark.end == last and mark.label]
        labels = dict.fromkeys(mark.label for mark in ending)
        parts.append(Piece(text[first:last], style, " / ".join(labels)))
    if begin:
        parts.insert(0, Piece("… ", "", ""))
    if end < len(text):
        parts.append(Piece(f" … ({len(text) - (end - begin):,} more characters)", "", ""))
    return parts


def is_number(value: Cell) -> bool:
    """Returns whether a cell holds a number or nothing."""
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def number(value: Cell) -> str:
    """Formats a cell: four decimals for floats of usual size, None as a dash.

    >>> [number(value) for value in (0.91234, 12345, 2.0, 123456.5, 1e-6, None, "PER", 61253104.0)]
    ['0.9123', '12,345', '2.0000', '123,456.5', '1.000e-06', '–', 'PER', '61,253,104']
    """
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    if value and abs(value) < 1e-3:
        return f"{value:.3e}"
    if abs(value) >= 1e4:
        return f"{value:,.1f}".removesuffix(".0")
    return f"{value:.4f}"
