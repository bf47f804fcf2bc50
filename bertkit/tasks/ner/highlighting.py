"""Entities within their text, in colours for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_COLOURS = (32, 34, 35, 36, 33, 31)  # of ECMA-48: green, blue, magenta, cyan, yellow, red
_DIM, _RESET = "\x1b[2m", "\x1b[0m"


class Span(NamedTuple):
    """A part of a text.

    Attributes:
        start, end: in characters, ``end`` is the character after its last.
        type: what it is.
    """

    start: int
    end: int
    type: str


def highlight(text: str, spans: Sequence[Span], types: Sequence[str]) -> str:
    r"""The text with each span in the colour of its type, and the type after it.

    Args:
        text: all of it.
        spans: parts of it, in their order.
        types: of all spans that there may be; the colour goes by the position in it.

    >>> highlight("Ann left", [Span(0, 3, "PER")], ["LOC", "PER"])
    '\x1b[1;34mAnn\x1b[0m\x1b[2m[PER]\x1b[0m left'
    """
    pieces = []
    end = 0
    for span in spans:
        colour = _COLOURS[types.index(span.type) % len(_COLOURS)]
        pieces += [text[end : span.start], f"\x1b[1;{colour}m", text[span.start : span.end], _RESET]
        pieces += [_DIM, f"[{span.type}]", _RESET]
        end = span.end
    return "".join([*pieces, text[end:]])
