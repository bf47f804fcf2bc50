"""Which pieces of a text the model reads together: parts of a sentence that is too long, or a sentence and more.

Positions and lengths count pieces, without special tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Window(NamedTuple):
    """Pieces ``start`` to ``end`` of a text, ``end`` itself not among them."""

    start: int
    end: int


def windows(length: int, room: int, overlap: int) -> list[Window]:
    """Windows that have all pieces of a text; the only one is the text itself where that fits.

    All are of the full size; neighbours share ``overlap`` pieces, the last two as many as it takes or more.

    Args:
        length: of the text, from 0.
        room: of one window, from 1.
        overlap: from 0 to ``room`` - 1.

    >>> windows(10, 6, 3)
    [Window(start=0, end=6), Window(start=3, end=9), Window(start=4, end=10)]
    >>> windows(6, 6, 3)
    [Window(start=0, end=6)]
    """
    if length <= room:
        return [Window(0, length)]
    starts = [*range(0, length - room, room - overlap), length - room]
    return [Window(start, start + room) for start in starts]


def most_context(position: int, of: Sequence[Window], length: int) -> int:
    """The window in which a piece has most context: the most pieces on the side where it has fewer.

    Where the text itself begins or ends nothing is missing. Of equal windows it is the first.

    Args:
        position: of the piece, in one of the windows.
        of: windows of the text.
        length: of the text.

    Returns:
        Its index.

    >>> both = [Window(0, 6), Window(4, 10)]
    >>> [most_context(position, both, 10) for position in range(10)]
    [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]
    """
    return max(range(len(of)), key=lambda index: _context(position, of[index], length))


def _context(position: int, window: Window, length: int) -> int:
    """Pieces on the poorer side; -1 outside the window."""
    if not window.start <= position < window.end:
        return -1
    before = position - window.start if window.start else length
    after = window.end - 1 - position if window.end < length else length
    return min(before, after)


def widened(sentence: Window, room: int, length: int) -> Window:
    """A sentence with its neighbours: as much of the text on both sides as fits, in equal parts where there is enough.

    Args:
        sentence: of at most ``room`` pieces.
        room: of the window.
        length: of the text that the sentence stands in.

    >>> widened(Window(10, 14), 10, 100), widened(Window(1, 5), 10, 100), widened(Window(2, 4), 10, 5)
    (Window(start=7, end=17), Window(start=0, end=10), Window(start=0, end=5))
    """
    spare = room - (sentence.end - sentence.start)
    after = min(length - sentence.end, max(spare - spare // 2, spare - sentence.start))
    start = max(0, sentence.start - (spare - after))
    return Window(start, sentence.end + after)
