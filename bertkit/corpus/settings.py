"""Settings of pre-training examples, and the vocabulary ids that examples are made of."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from bertkit.corpus.vocabulary.structure import SpecialTokens, WordMarks, special_tokens, word_marks
from bertkit.options import check_ranges, option, setting

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PairObjective = Literal["nsp", "sop", "none"]
"""Objective of the two segments of an example: see `PretrainingData`."""

TokenObjective = Literal["masked_lm", "next_token"]
"""Objective of the tokens of an example: see `PretrainingData`."""


@dataclass(frozen=True, kw_only=True)
class ExampleSettings:
    """Settings of pre-training examples that a recipe's ``data`` block also has (BERT §3.1 and §A.2)."""

    max_seq_length: int = option(
        "Maximum number of tokens of an example, [CLS] and every [SEP] included; also limits every phase.",
        default=128,
        ge=5,
        le=2**20,
    )
    max_predictions_per_seq: int | None = setting(
        "P, maximum number of predicted tokens of an example; `null` for `max_seq_length × mlm_probability`, "
        "rounded up: 20 at 128 and 15 %, 77 at 512.",
        default=None,
        ge=1,
        le=2**20,
    )
    mlm_probability: float = setting(
        "Share of an example's tokens, including [CLS] and [SEP], that is predicted; above 0, at most 1 (BERT "
        "§3.1: 0.15).",
        default=0.15,
        gt=0,
        le=1,
    )
    whole_word_mask: bool = option(
        "Select words to predict, with all their pieces, instead of single tokens.", default=False
    )
    short_seq_prob: float = setting(
        "Probability, 0 to 1, that a document is cut into examples of a random shorter length in an epoch. (The"
        " released script draws once per document and pass; the paper says 10 % of the time.)",
        default=0.1,
        ge=0,
        le=1,
    )


@dataclass(frozen=True, kw_only=True)
class PretrainingData(ExampleSettings):
    """Settings that turn text into pre-training examples.

    Attributes:
        pair_objective: rule of the segments of an example (`bertkit.corpus.examples.objectives`). ``nsp``: B follows
            A, or is from another document (BERT §3.1); ``sop``: A and B are adjacent, in their order or reversed
            (ALBERT §3.1); ``none``: one segment of full sentences of one document (RoBERTa §4.2, DOC-SENTENCES).
        token_objective: ``masked_lm``: masked tokens are predicted; ``next_token``: every token is predicted from those
            before it, without masks, for left-to-right attention (BERT §5.1).

    Raises:
        ValueError: a value is out of range.

    >>> PretrainingData(max_seq_length=128).predictions_per_seq
    20
    """

    pair_objective: PairObjective = "nsp"
    token_objective: TokenObjective = "masked_lm"
    seed: int = setting("Random seed of the pairs and the masks.", default=42, ge=0)

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.pair_objective not in get_args(PairObjective):
            raise ValueError(
                f"pair_objective: {self.pair_objective!r} is not one of {', '.join(get_args(PairObjective))}"
            )

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
