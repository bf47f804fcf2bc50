"""Overlapping windows over texts that exceed the encoder's maximum length.

Lengths and positions count tokens of the text, without special tokens. The overlap is the number of tokens that
neighbouring windows share, which the tokenizers library calls ``stride``.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bertkit.runtime.errors import RecipeError

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer
    from transformers import PreTrainedTokenizerBase


class Window(NamedTuple):
    """Range of tokens ``start`` to ``end`` of a text; ``end`` is exclusive."""

    start: int
    end: int


class WindowedText(NamedTuple):
    """A text of T tokens as W inputs of the encoder.

    Attributes:
        windows: the W windows.
        inputs: for each window ``input_ids``, ``attention_mask`` and ``token_type_ids`` with special tokens.
        special_tokens_before, special_tokens_after: number of special tokens before and after a window's tokens.
        offsets: (T, 2) int64, character range of each token in the text.
    """

    windows: list[Window]
    inputs: list[dict[str, list[int]]]
    special_tokens_before: int
    special_tokens_after: int
    offsets: np.ndarray


def stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """Returns a range of characters without white space at its ends; one of white space alone is empty, at its end.

    >>> stripped("to  New York", 2, 7), stripped("to  New York", 2, 4)
    ((4, 7), (4, 4))
    """
    inner = text[start:end].strip()
    start += len(text[start:end]) - len(text[start:end].lstrip())
    return start, start + len(inner)


def check_overlap(overlap: int, room: int) -> None:
    """Checks that an overlap leaves at least one new token per window; else raises RecipeError."""
    if not 0 <= overlap < room:
        raise RecipeError(
            f"data.stride: windows with room for {room} tokens cannot share {overlap}; give a smaller one, or a larger "
            "data.max_seq_length"
        )


def windows(length: int, room: int, overlap: int, *, full: bool = False) -> list[Window]:
    """Returns windows that cover a text; one window if the text fits; RecipeError if ``overlap`` is out of its range.

    Args:
        length: tokens of the text, at least 0.
        room: tokens of a window, at least 1.
        overlap: tokens that neighbouring windows share, 0 to ``room`` - 1.
        full: move the last window back until it has ``room`` tokens; it then shares more with the window before.

    >>> windows(10, 6, 3)
    [Window(start=0, end=6), Window(start=3, end=9), Window(start=6, end=10)]
    >>> windows(10, 6, 3, full=True)
    [Window(start=0, end=6), Window(start=3, end=9), Window(start=4, end=10)]
    >>> windows(6, 6, 3), windows(0, 6, 3)
    ([Window(start=0, end=6)], [Window(start=0, end=0)])
    """
    check_overlap(overlap, room)
    starts = [*range(0, max(length - overlap, 1), room - overlap)]
    if full:
        starts[-1] = max(length - room, 0)
    return [Window(start, min(start + room, length)) for start in starts]


def most_context(of: Sequence[Window]) -> np.ndarray:
    """Returns for each token of a text the window in which it has the most context: (T,) int64, indices into ``of``.

    The context of a token is the smaller of the numbers of window tokens to its left and right. Ties go to the first
    window, as in the released run_squad.py.

    Args:
        of: windows that cover the text, in order.

    >>> most_context([Window(0, 6), Window(4, 10)]).tolist()
    [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]
    """
    best, owner = np.full(of[-1].end, -1), np.zeros(of[-1].end, np.int64)
    for index, (start, end) in enumerate(of):
        from_start = np.arange(end - start)
        context = np.minimum(from_start, from_start[::-1])
        better = context > best[start:end]
        best[start:end][better] = context[better]
        owner[start:end][better] = index
    return owner


def encode_in_windows(
    texts: Sequence[str], tokenizer: PreTrainedTokenizerBase, max_seq_length: int, overlap: int
) -> list[WindowedText]:
    """Tokenizes texts and cuts each into overlapping windows with the special tokens of a single text.

    Args:
        texts: texts of any length.
        tokenizer: a fast tokenizer (tokenizers library); its truncation settings are not used.
        max_seq_length: tokens of a window with special tokens.
        overlap: tokens that neighbouring windows share.

    Raises:
        RecipeError: ``overlap`` leaves no new token for a window.
    """
    # A probe shows where the tokenizer puts its special tokens and the type of each token.
    probe = tokenizer("a", truncation=False, padding=False, return_token_type_ids=True)
    owners = probe.sequence_ids(0)
    first, last = owners.index(0), len(owners) - owners[::-1].index(0)
    room = max_seq_length - first - (len(owners) - last)
    check_overlap(overlap, room)
    plain: Any = tokenizer(
        list(texts),
        add_special_tokens=False,
        truncation=False,
        padding=False,
        return_offsets_mapping=True,
        verbose=False,
    )
    encoded = []
    for text, ids, tokens in zip(texts, plain["input_ids"], plain["offset_mapping"], strict=True):
        spans = windows(len(ids), room, overlap)
        inputs = [
            {
                name: [
                    *values[:first],
                    *(ids[start:end] if name == "input_ids" else [values[first]] * (end - start)),
                    *values[last:],
                ]
                for name, values in probe.items()
            }
            for start, end in spans
        ]
        offsets = np.asarray(tokens, np.int64).reshape(-1, 2)
        offsets[:, 1] = ends_with_marks(text, tokens)
        encoded.append(WindowedText(spans, inputs, first, len(owners) - last, offsets))
    return encoded


# ---- characters of tokens -------------------------------------------------------------------------------------------

_MARKS = ("Mn", "Mc", "Me")


def ends_with_marks(text: str, offsets: Sequence[tuple[int, int]], also: str = "") -> list[int]:
    """Returns the exclusive end of each token's characters, the combining marks after them included.

    A tokenizer that strips accents drops the marks: the token of ``e`` + U+0301 would end before its accent.

    Args:
        text: the text.
        offsets: start and end of the tokens, in order.
        also: another category of Unicode that is dropped.

    >>> ends_with_marks("cafe\u0301 noir", [(0, 4), (6, 10)])
    [5, 10]
    """
    ends = [end for _, end in offsets]
    if text.isascii():
        return ends
    marks = {place for place, sign in enumerate(text) if unicodedata.category(sign) in (*_MARKS, also)}
    for token, (start, end) in enumerate(offsets):
        if end in marks and start < end:
            later = (offsets[other][0] for other in range(token + 1, len(offsets)))
            limit = next((other for other in later if other >= end), len(text))
            ends[token] = next(place for place in range(end, limit + 1) if place == limit or place not in marks)
    return ends


# ---- cutting of very long texts before they are tokenized -----------------------------------------------------------

_CHARACTERS_PER_TOKEN = 6  # more than in ordinary text, so that the first attempt nearly always suffices
_GROWTH = 4
# Characters before a cut whose tokens it may change: added tokens such as [MASK] and the patterns of pre-tokenizers are
# shorter.
_MARGIN = 128
_COMPARED = 2048  # tokens up to which texts of a row are compared by length


def first_part(texts: Sequence[str], tokenizer: PreTrainedTokenizerBase, tokens: int) -> list[str]:
    """Cuts texts after more than ``tokens`` tokens, the first ``tokens`` of which are those of the whole text.

    Args:
        texts: texts of any length; those of few characters are returned as they are.
        tokenizer: a fast tokenizer.
        tokens: number of tokens that are needed, without special tokens.

    Returns:
        The texts; one that is shorter than the given one has more than ``tokens`` tokens, and so has the whole text.
    """
    parts = list(texts)
    size = tokens * _CHARACTERS_PER_TOKEN + _MARGIN
    rows = [row for row, text in enumerate(texts) if len(text) > size]
    before: dict[int, list[int]] = {}
    while rows:
        heads = [texts[row][:size] for row in rows]
        for row, head, encoding in zip(rows, heads, _encoded(heads, tokenizer), strict=True):
            first, words = encoding.ids[: tokens + 1], encoding.word_ids
            # No later text changes the tokens before the last word that end where later text cannot reach.
            ends = [end for _, end in encoding.offsets]
            settled = min(words.index(words[-1]), bisect_right(ends, size - _MARGIN)) if words else 0
            # Without borders of words, for instance in a text of a single word, the tokens are taken as settled if four
            # times as many characters have not changed them.
            if settled > tokens or (len(first) > tokens and before.get(row) == first):
                parts[row] = head
            before[row] = first
        size *= _GROWTH
        rows = [row for row in rows if len(parts[row]) > size]
    return parts


def cut_rows(rows: Sequence[Sequence[str]], tokenizer: PreTrainedTokenizerBase, max_length: int) -> list[list[str]]:
    """Cuts texts that are encoded together so that truncation to ``max_length`` gives the inputs of the whole texts.

    The longest of several texts is truncated first, so that it matters which of them has more tokens: it keeps one
    token more where their number is odd. Of two texts of more than 2,048 tokens, it may be the other one.

    Args:
        rows: N rows of one or more texts.
        tokenizer: a fast tokenizer.
        max_length: tokens of an input, with special tokens.
    """
    if tokenizer.truncation_side != "right":
        return [list(row) for row in rows]
    parts = iter(first_part([text for row in rows for text in row], tokenizer, max_length))
    cut = [list(islice(parts, len(row))) for row in rows]
    for row, part in zip(rows, cut, strict=True):
        if len(row) == 1 or part == list(row):
            continue
        # Those with more tokens keep more. No part is much longer than needed: the tokenizers library collects what it
        # truncates from pairs, which takes time and memory quadratic in their length.
        counts = _counts(first_part(row, tokenizer, max(_COMPARED, max_length)), tokenizer)
        tokens = max_length
        for at in sorted(range(len(row)), key=counts.__getitem__):
            part[at] = first_part(row[at : at + 1], tokenizer, tokens)[0]
            tokens = max(tokens, *_counts(part[at : at + 1], tokenizer))
    return cut


def _counts(texts: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> list[int]:
    return [len(encoding.ids) for encoding in _encoded(texts, tokenizer)]


def _encoded(texts: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> list[Encoding]:
    backend: Tokenizer = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    return list(backend.encode_batch(list(texts), add_special_tokens=False))
