"""Cutting of very long texts before they are tokenized.

A tokenizer reads 0.1 to 1 MB a second, so that a text of some megabytes of which 512 tokens are kept would cost much
more time than its prediction. Here only the beginning of a text is tokenized, as much as its first tokens depend on:
the encoder gets the same tokens as from the whole text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer
    from transformers import PreTrainedTokenizerBase

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
            first = encoding.ids[: tokens + 1]
            # Without borders of words, for instance in a text of a single word, the tokens are taken as settled if four
            # times as many characters have not changed them.
            if _settled(encoding, size - _MARGIN) > tokens or (len(first) > tokens and before.get(row) == first):
                parts[row] = head
            before[row] = first
        size *= _GROWTH
        rows = [row for row in rows if len(parts[row]) > size]
    return parts


def _settled(encoding: Encoding, end: int) -> int:
    """Returns the number of tokens that no later text changes: those before the last word that end by ``end``."""
    words = encoding.word_ids
    if not words:
        return 0
    return min(words.index(words[-1]), bisect_right([stop for _, stop in encoding.offsets], end))


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
    return [
        part if len(row) == 1 or part == list(row) else _in_order(row, tokenizer, max_length)
        for part, row in zip(cut, rows, strict=True)
    ]


def _in_order(texts: Sequence[str], tokenizer: PreTrainedTokenizerBase, max_length: int) -> list[str]:
    """Cuts the texts of a row so that those with more tokens keep more tokens, see `cut_rows`.

    No part is much longer than needed: the tokenizers library collects what it truncates from pairs, which takes time
    and memory quadratic in their length.
    """
    counts = _counts(first_part(texts, tokenizer, max(_COMPARED, max_length)), tokenizer)
    parts, tokens = list(texts), max_length
    for at in sorted(range(len(texts)), key=counts.__getitem__):
        parts[at] = first_part(texts[at : at + 1], tokenizer, tokens)[0]
        tokens = max(tokens, *_counts(parts[at : at + 1], tokenizer))
    return parts


def _counts(texts: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> list[int]:
    return [len(encoding.ids) for encoding in _encoded(texts, tokenizer)]


def _encoded(texts: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> list[Encoding]:
    backend: Tokenizer = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    return list(backend.encode_batch(list(texts), add_special_tokens=False))
