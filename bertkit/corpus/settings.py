"""Settings of pre-training examples, and the vocabulary ids that examples are made of."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from bertkit.corpus.vocabulary.structure import SpecialTokens, WordMarks, special_tokens, word_marks

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PairObjective = Literal["nsp", "sop", "none"]
"""Objective of the two segments of an example: see `PretrainingData`."""

TokenObjective = Literal["masked_lm", "next_token"]
"""Objective of the tokens of an example: see `PretrainingData`."""


@dataclass(frozen=True, kw_only=True)
class ExampleSettings:
    """Settings of pre-training examples that a recipe's ``data`` block also has (BERT §3.1 and §A.2).

    Attributes:
        max_seq_length: S, tokens of an example, including [CLS] and every [SEP]; at least 5.
        max_predictions_per_seq: P, maximum number of predicted tokens of an example; ``None`` for
            ``max_seq_length × mlm_probability``, rounded up: 20 at 128 and 15 %, 77 at 512.
        mlm_probability: share of an example's tokens, including [CLS] and [SEP], that is predicted; above 0, at most 1
            (BERT §3.1: 0.15).
        whole_word_mask: select words to predict, with all their pieces, instead of single tokens.
        short_seq_prob: probability, 0 to 1, that a document is cut into examples of a random shorter length in an
            epoch. (The released script draws once per document and pass; the paper says 10 % of the time.)
    """

    max_seq_length: int = 128
    max_predictions_per_seq: int | None = None
    mlm_probability: float = 0.15
    whole_word_mask: bool = False
    short_seq_prob: float = 0.1


@dataclass(frozen=True, kw_only=True)
class PretrainingData(ExampleSettings):
    """Settings that turn text into pre-training examples.

    Attributes:
        pair_objective: rule of the segments of an example (`bertkit.corpus.examples.objectives`). ``nsp``: B follows
            A, or is from another document (BERT §3.1); ``sop``: A and B are adjacent, in their order or reversed
            (ALBERT §3.1); ``none``: one segment of full sentences of one document (RoBERTa §4.2, DOC-SENTENCES).
        token_objective: ``masked_lm``: masked tokens are predicted; ``next_token``: every token is predicted from those
            before it, without masks, for left-to-right attention (BERT §5.1).
        seed: random seed of the pairs and the masks, at least 0.

    Raises:
        ValueError: a value is out of range.

    >>> PretrainingData(max_seq_length=128).predictions_per_seq
    20
    """

    pair_objective: PairObjective = "nsp"
    token_objective: TokenObjective = "masked_lm"
    seed: int = 42

    def __post_init__(self) -> None:
        if self.max_seq_length < 5:
            raise ValueError(
                f"max_seq_length: {self.max_seq_length} leaves no room for a token of each segment besides [CLS] and "
                f"two [SEP]; expected at least 5"
            )
        if not 0 < self.mlm_probability <= 1:
            raise ValueError(f"mlm_probability: {self.mlm_probability} is not above 0 and at most 1")
        if self.max_predictions_per_seq is not None and self.max_predictions_per_seq < 1:
            raise ValueError(f"max_predictions_per_seq: {self.max_predictions_per_seq} is not at least 1")
        if not 0 <= self.short_seq_prob <= 1:
            raise ValueError(f"short_seq_prob: {self.short_seq_prob} is not between 0 and 1")
        if self.pair_objective not in get_args(PairObjective):
            raise ValueError(
                f"pair_objective: {self.pair_objective!r} is not one of {', '.join(get_args(PairObjective))}"
            )
        if self.seed < 0:
            raise ValueError(f"seed: {self.seed} is not at least 0")

    @property
    def predictions_per_seq(self) -> int:
        """Returns P: S - 1 for ``next_token``; else ``max_predictions_per_seq``, or its default if that is None."""
        if self.token_objective == "next_token":
            return self.max_seq_length - 1
        if self.max_predictions_per_seq is not None:
            return self.max_predictions_per_seq
        # Rounded before ceil: 100 × 0.07 is 7.000000000000001 in floating point.
        return math.ceil(round(self.max_seq_length * self.mlm_probability, 6))


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Vocabulary ids that pre-training examples are made of.

    Attributes:
        cls_token_id, sep_token_id, pad_token_id, mask_token_id: ids of the special tokens.
        ordinary_ids: ``(N,)`` int64, all ids except those of special tokens; random replacements are drawn from them.
            (The released script draws from the whole vocabulary, including special tokens.)
        single, pair: special tokens of an example of one segment and of two, by the tokenizer's own template.
        words: marks of the pieces that continue the word of the piece before them.
    """

    cls_token_id: int
    sep_token_id: int
    pad_token_id: int
    mask_token_id: int
    ordinary_ids: NDArray[np.int64]
    single: SpecialTokens
    pair: SpecialTokens
    words: WordMarks

    @property
    def continuation(self) -> NDArray[np.bool_]:
        """Returns ``(V,)`` bool, indexed by id: True for the pieces that can continue a word."""
        return self.words.continuation

    @property
    def marks_continuations(self) -> bool:
        """Returns whether the vocabulary marks the pieces that continue words, such as ``##ing``.

        Without marks every piece counts as a word, and whole-word masking is the same as token masking.
        """
        return bool(self.continuation.any())

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerFast | Any) -> Vocabulary:
        """Reads the ids of a tokenizer that `load_tokenizer` has checked with ``for_pretraining``."""
        ids: dict[str, int] = tokenizer.get_vocab()
        special = set(tokenizer.all_special_ids)
        ordinary = sorted(set(ids.values()) - special)
        return cls(
            cls_token_id=tokenizer.cls_token_id,
            sep_token_id=tokenizer.sep_token_id,
            pad_token_id=tokenizer.pad_token_id,
            mask_token_id=tokenizer.mask_token_id,
            ordinary_ids=np.array(ordinary, np.int64),
            single=special_tokens(tokenizer, pairs=False),
            pair=special_tokens(tokenizer, pairs=True),
            words=word_marks(tokenizer),
        )
