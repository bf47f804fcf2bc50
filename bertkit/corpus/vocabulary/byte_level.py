"""Text → a byte-level BPE vocabulary, as RoBERTa and ModernBERT have."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from bertkit.errors import DataError, RecipeError

if TYPE_CHECKING:
    from transformers import RobertaTokenizer

SPECIAL_TOKENS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
"""Special tokens in the order of their ids; the first four have those of RoBERTa: <pad> is 1."""


def train_byte_level(
    texts: Iterable[str], vocab_size: int, model_max_length: int = 512, min_frequency: int | None = None
) -> RobertaTokenizer:
    """Trains a byte-level BPE tokenizer on ``texts``, with the rules of GPT-2 and RoBERTa.

    The text is split where letters, digits and other characters meet; a space belongs to the word after it. Words are
    sequences of bytes, so every text can be encoded, and case and accents are kept. The most frequent pair of pieces is
    merged next. The ids are assigned in this order: special tokens, the 256 bytes, merged pieces in the order of the
    merges. The same texts give the same vocabulary in every process.

    Args:
        texts: strings of any length, such as lines or paragraphs. A word never spans two of them.
        vocab_size: maximum number of pieces, including special tokens; at least 261.
        model_max_length: maximum input length of the model in tokens.
        min_frequency: minimum count of a pair to be merged, at least 1; None means 1.

    Raises:
        RecipeError: ``vocab_size`` is too small.
        DataError: the texts are empty.
    """
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers
    from transformers import RobertaTokenizer

    alphabet = pre_tokenizers.ByteLevel.alphabet()
    least = len(SPECIAL_TOKENS) + len(alphabet)
    if vocab_size < least:
        raise RecipeError(
            f"vocab_size: {vocab_size} is too small: the {len(SPECIAL_TOKENS)} special tokens and the {len(alphabet)} "
            f"bytes of a byte-level vocabulary need {least}"
        )
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    seen = False

    def noted() -> Iterable[str]:
        nonlocal seen
        for text in texts:
            seen = seen or bool(text.strip())
            yield text

    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL_TOKENS),
        min_frequency=min_frequency or 1,
        initial_alphabet=alphabet,
        show_progress=False,
    )
    learner.train_from_iterator(noted(), trainer)
    if not seen:
        raise DataError("no text to train a tokenizer on: the given text is empty or only white space")
    model = json.loads(learner.to_str())["model"]
    merges = [tuple(pair) for pair in model["merges"]]
    # The mask takes the place of a word with the space in front.
    mask = AddedToken(SPECIAL_TOKENS[-1], lstrip=True, special=True)
    return RobertaTokenizer(vocab=model["vocab"], merges=merges, mask_token=mask, model_max_length=model_max_length)
