"""Vocabulary ids and the structure that a tokenizer gives to its inputs: special tokens, pieces that continue words.

Tokenizers mark words in three ways: WordPiece marks the pieces that continue a word (``##ing``), SentencePiece the
pieces that begin one (``▁walk``), byte-level BPE those with a space in front (``Ġwalk``). The first two marks tell for
each piece whether it continues a word. Byte-level BPE also splits text where letters, digits and other characters meet,
without a mark, so that there the piece before counts too. Two rules of such pre-tokenizers are not followed: a
contraction such as ``'t`` of two pieces counts as two words, and parts of a character as letters.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer
    from transformers import PreTrainedTokenizerFast

CONTINUATION = "##"
"""Prefix of the pieces that continue a word in a WordPiece vocabulary."""

BEGINNING = "▁"
"""Prefix of the first piece of a word in a SentencePiece vocabulary."""
_ANY_TEXT = "a 1 ."
_SPACE, _LETTERS, _DIGITS, _OTHERS, _ANY = range(5)  # kinds of characters; any: of a space before a word


class SpecialTokens(NamedTuple):
    """Ids of the special tokens of an input: ``first`` A ``last``, or ``first`` A ``between`` B ``last``."""

    first: tuple[int, ...]
    between: tuple[int, ...]
    last: tuple[int, ...]

    @property
    def number(self) -> int:
        """Returns the number of special tokens of an input."""
        return len(self.first) + len(self.between) + len(self.last)


class WordMarks(NamedTuple):
    """Marks of the pieces of words, indexed by id, where V is the highest id plus 1.

    Attributes:
        continuation: ``(V,)`` bool, True for the pieces that continue the word of the piece before them.
        kinds: ``(V, 2)`` int8, kinds of the first and of the last character of each piece: a piece continues the word
            only if its first kind is the last one of the piece before. None if kinds do not count.
    """

    continuation: NDArray[np.bool_]
    kinds: NDArray[np.int8] | None

    def continues(self, input_ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Returns whether each token of ``(B, S)`` inputs continues the word of the token before it, ``(B, S)``."""
        continued: NDArray[np.bool_] = self.continuation[input_ids]
        if self.kinds is not None:
            first, before = self.kinds[input_ids[:, 1:], 0], self.kinds[input_ids[:, :-1], 1]
            continued[:, 1:] &= (first == before) | (before == _ANY)
        return continued


def special_tokens(tokenizer: PreTrainedTokenizerFast | Any, pairs: bool) -> SpecialTokens:
    """Returns the special tokens that a tokenizer puts around one segment, or around two with ``pairs``.

    A tokenizer without a template gets those of BERT, [CLS] A [SEP] and [CLS] A [SEP] B [SEP], under their own names.
    """
    backend: Tokenizer = tokenizer.backend_tokenizer
    one = backend.encode(_ANY_TEXT, add_special_tokens=False)
    encoded: Encoding = backend.post_process(one, one if pairs else None, add_special_tokens=True)
    if len(encoded.ids) == (1 + pairs) * len(one.ids):
        cls, sep = (tokenizer.cls_token_id,), (tokenizer.sep_token_id,)
        return SpecialTokens(cls, sep if pairs else (), sep)
    is_special, size = encoded.special_tokens_mask, len(one.ids)
    start = is_special.index(0)
    end = start + size
    next_start = is_special.index(0, end) if pairs else end
    next_end = next_start + size if pairs else end
    ids = tuple(encoded.ids)
    return SpecialTokens(ids[:start], ids[end:next_start], ids[next_end:])


def word_marks(tokenizer: PreTrainedTokenizerFast | Any) -> WordMarks:
    """Returns which pieces of a vocabulary continue words.

    None do if the vocabulary has no marks of words, or if a normalizer of the tokenizer sets them in the place of
    spaces (Gemma's ``▁``), and not a pre-tokenizer.
    """
    ids: dict[str, int] = tokenizer.get_vocab()
    continuation = np.zeros(max(ids.values()) + 1, bool)
    special = set(tokenizer.all_special_ids)
    pieces = [(piece, number) for piece, number in ids.items() if number not in special]
    backend: Tokenizer = tokenizer.backend_tokenizer
    if splits_by(backend, "ByteLevel"):
        from tokenizers import decoders

        kinds = np.full((len(continuation), 2), _SPACE, np.int8)
        decoder = decoders.ByteLevel()
        for piece, number in pieces:
            text = decoder.decode([piece])  # added tokens, such as runs of spaces, are text and stay as they are
            if text:
                kinds[number] = _classify(text[0]), _ANY if text == " " else _classify(text[-1])
        return WordMarks(kinds[:, 0] != _SPACE, kinds)
    if splits_by(backend, "Metaspace"):
        chosen = [number for piece, number in pieces if not piece.startswith(BEGINNING)]
    else:
        prefix = getattr(backend.model, "continuing_subword_prefix", None) or CONTINUATION
        chosen = [number for piece, number in pieces if piece.startswith(prefix)]
    continuation[chosen] = True
    return WordMarks(continuation, None)


def splits_by(backend: Tokenizer, kind: str) -> bool:
    """Returns whether a pre-tokenizer of this type is part of a tokenizer."""
    return backend.pre_tokenizer is not None and f'"{kind}"'.encode() in backend.pre_tokenizer.__getstate__()


def _classify(character: str) -> int:
    """Returns the kind of a character; a part of one, which byte-level pieces can hold, counts as a letter."""
    if character == "\N{REPLACEMENT CHARACTER}":
        return _LETTERS
    if character.isspace():
        return _SPACE
    return {"L": _LETTERS, "N": _DIGITS}.get(unicodedata.category(character)[0], _OTHERS)


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Vocabulary ids that pre-training examples are made of.

    Attributes:
        pad_token_id, mask_token_id: ids of [PAD] and [MASK].
        ordinary_ids: ``(N,)`` int64, all ids except those of special tokens; random replacements are drawn from them.
            (The released script draws from the whole vocabulary, including special tokens.)
        single, pair: special tokens of an example of one segment and of two, by the tokenizer's own template.
        words: marks of the pieces that continue the word of the piece before them.
    """

    pad_token_id: int
    mask_token_id: int
    ordinary_ids: NDArray[np.int64]
    single: SpecialTokens
    pair: SpecialTokens
    words: WordMarks

    @property
    def marks_continuations(self) -> bool:
        """Returns whether the vocabulary marks the pieces that continue words, such as ``##ing``.

        Without marks every piece counts as a word, and whole-word masking is the same as token masking.
        """
        return bool(self.words.continuation.any())

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerFast | Any) -> Vocabulary:
        """Reads the ids of a tokenizer that `load_tokenizer` has checked with ``for_pretraining``."""
        ids: dict[str, int] = tokenizer.get_vocab()
        special = set(tokenizer.all_special_ids)
        ordinary = sorted(set(ids.values()) - special)
        return cls(
            pad_token_id=tokenizer.pad_token_id,
            mask_token_id=tokenizer.mask_token_id,
            ordinary_ids=np.array(ordinary, np.int64),
            single=special_tokens(tokenizer, pairs=False),
            pair=special_tokens(tokenizer, pairs=True),
            words=word_marks(tokenizer),
        )
