"""Tokenization of words into pieces."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bertkit.json_text import dumps

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase


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
    from tokenizers import Tokenizer

    backend: Tokenizer = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    state = json.loads(backend.to_str())
    lacking = [step for step in _steps(state["pre_tokenizer"]) if step.get("add_prefix_space") is False]
    for step in lacking:
        step["add_prefix_space"] = True
    return Tokenizer.from_str(dumps(state)) if lacking else backend


def _steps(pre_tokenizer: dict[str, Any] | None) -> list[dict[str, Any]]:
    if pre_tokenizer is None:
        return []
    return pre_tokenizer.get("pretokenizers", [pre_tokenizer])
