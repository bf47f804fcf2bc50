"""Highlighting of entities in their text with terminal colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bertkit.progress import printable

_COLOURS = (32, 34, 35, 36, 33, 31)  # ECMA-48 codes: green, blue, magenta, cyan, yellow, red
_DIM, _RESET = "\x1b[2m", "\x1b[0m"


class Span(NamedTuple):
    """Typed character range of a text.

    Attributes:
        start, end: character positions; ``end`` is exclusive.
        type: entity type.
    """

    start: int
    end: int
    type: str


def highlight(text: str, spans: Sequence[Span], types: Sequence[str]) -> str:
    r"""Returns the text with each span in the colour of its type, followed by the type; other control characters are
    escaped.

    Args:
        text: the whole text.
        spans: spans of the text, in order.
        types: all possible types; the index of a type determines its colour.

    >>> highlight("Ann left", [Span(0, 3, "PER")], ["LOC", "PER"])
    '\x1b[1;34mAnn\x1b[0m\x1b[2m[PER]\x1b[0m left'
    """
    pieces = []
    end = 0
    for span in spans:
        colour = _COLOURS[types.index(span.type) % len(_COLOURS)]
        before, entity = printable(text[end : span.start]), printable(text[span.start : span.end])
        pieces += [before, f"\x1b[1;{colour}m", entity, _RESET]
        pieces += [_DIM, printable(f"[{span.type}]"), _RESET]
        end = span.end
    return "".join([*pieces, printable(text[end:])])
