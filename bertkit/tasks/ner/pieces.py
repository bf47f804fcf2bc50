"""Tokenization of words into pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

# The copies of `_with_spaces`, with the number of tokens at that time. To serialize a tokenizer of 250,000 pieces takes
# 0.2 s, which is too long for each request to a server.
_copies: WeakKeyDictionary[PreTrainedTokenizerBase, tuple[int, Tokenizer]] = WeakKeyDictionary()


def word_pieces(sentences: Sequence[Sequence[str]], tokenizer: PreTrainedTokenizerBase) -> list[list[list[int]]]:
    """Returns the ids of the pieces of every word, without special tokens.

    A word has the same pieces as within a text, after a space. A word that the tokenizer removes (empty, zero-width,
    control characters) has none.

    Args:
        sentences: words of the sentences.
        tokenizer: a fast tokenizer.

    Returns:
        For each sentence and word, the piece ids.
    """
    encodings = _backend(tokenizer).encode_batch(
        [list(words) for words in sentences], is_pretokenized=True, add_special_tokens=False
    )
    pieces: list[list[list[int]]] = [[[] for _ in words] for words in sentences]
    for of_sentence, encoding in zip(pieces, encodings, strict=True):
        for token, word in zip(encoding.ids, encoding.word_ids, strict=True):
            if word is not None:
                of_sentence[word].append(token)
    return pieces


def _backend(tokenizer: PreTrainedTokenizerBase) -> Tokenizer:
    """Returns the backend tokenizer; for byte-level BPE as in RoBERTa, a copy that adds a space before every word.

    Such tokenizers encode a space as a part of the following piece. Separate words have no space, and would become
    pieces that occur in pre-training only within words or at the start of a text.
    """
    backend: Tokenizer = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    if not _steps_without_space(backend):
        return backend
    tokens, copy = _copies.get(tokenizer, (-1, backend))
    if tokens != len(tokenizer):
        copy = _with_spaces(backend)
        _copies[tokenizer] = len(tokenizer), copy
    return copy


def _with_spaces(backend: Tokenizer) -> Tokenizer:
    from tokenizers import Tokenizer

    copy: Tokenizer = Tokenizer.from_str(backend.to_str())
    for step in _steps_without_space(copy):
        step.add_prefix_space = True
    return copy


def _steps_without_space(backend: Tokenizer) -> list[Any]:
    """Returns the steps of the pre-tokenizer that encode a space with the following piece, but add none."""
    from tokenizers.pre_tokenizers import Sequence as Steps

    whole: Any = backend.pre_tokenizer
    steps: Any = whole if isinstance(whole, Steps) else [whole]
    return [step for step in steps if getattr(step, "add_prefix_space", None) is False]
