"""Overlapping windows over texts that exceed the encoder's maximum length.

Lengths and positions count tokens of the text, without special tokens. The overlap is the number of tokens that
neighbouring windows share, which the tokenizers library calls ``stride``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
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


def check_overlap(overlap: int, room: int) -> None:
    """Checks that an overlap leaves at least one new token per window.

    Raises:
        ValueError: ``overlap`` is not in [0, room).
    """
    if not 0 <= overlap < room:
        raise ValueError(f"windows with room for {room} tokens cannot share {overlap}")


def windows(length: int, room: int, overlap: int, *, full: bool = False) -> list[Window]:
    """Returns windows that cover a text; one window if the text fits.

    Args:
        length: tokens of the text, at least 0.
        room: tokens of a window, at least 1.
        overlap: tokens that neighbouring windows share, 0 to ``room`` - 1.
        full: move the last window back until it has ``room`` tokens; it then shares more with the window before.

    Raises:
        ValueError: ``overlap`` is out of its range.

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
    """Returns for each token of a text the window in which it has the most context.

    The context of a token is the smaller of the numbers of window tokens to its left and right. Ties go to the first
    window, as in the released run_squad.py.

    Args:
        of: windows that cover the text, in order.

    Returns:
        (T,) int64, indices into ``of``.

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
        ValueError: ``overlap`` leaves no new token for a window.
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
    for ids, offsets in zip(plain["input_ids"], plain["offset_mapping"], strict=True):
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
        offsets = np.asarray(offsets, np.int64).reshape(-1, 2)
        encoded.append(WindowedText(spans, inputs, first, len(owners) - last, offsets))
    return encoded
