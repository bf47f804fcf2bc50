"""The numbers that pre-training examples follow, and the ids of a vocabulary that they are written in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PairObjective = Literal["nsp", "sop", "none"]
"""What is to be told of the two segments of an example: see `PretrainingData`."""

CONTINUATION = "##"
"""What a piece that goes on a word begins with in a WordPiece vocabulary."""


@dataclass(frozen=True, kw_only=True)
class ExampleSettings:
    """The settings of pre-training examples that a recipe's ``data`` block has too (BERT §3.1 and §A.2).

    Attributes:
        max_seq_length: S, tokens of an example with [CLS] and every [SEP]; at least 5.
        max_predictions_per_seq: P, the most tokens of an example that are predicted; ``None`` gives
            ``max_seq_length × mlm_probability``, rounded up: 20 at 128 and 15 %, 77 at 512.
        mlm_probability: share of an example's tokens, [CLS] and [SEP] counted, that is predicted; above 0, at most 1
            (BERT §3.1: 0.15).
        whole_word_mask: choose words to predict, with all their ``##`` pieces, instead of single tokens.
        short_seq_prob: probability that a document is cut into examples of a random shorter length in this epoch; 0 to
            1. (The released script draws it once a document and pass; the paper says 10 % of the time.)
    """

    max_seq_length: int = 128
    max_predictions_per_seq: int | None = None
    mlm_probability: float = 0.15
    whole_word_mask: bool = False
    short_seq_prob: float = 0.1


@dataclass(frozen=True, kw_only=True)
class PretrainingData(ExampleSettings):
    """How text becomes pre-training examples.

    Attributes:
        pair_objective: what the segments of an example are (`bertkit.corpus.examples.objectives`). ``nsp``: B follows
            A, or is from another document (BERT §3.1); ``sop``: A and B follow each other, in this order or the other
            (ALBERT §3.1); ``none``: one segment of full sentences of one document (RoBERTa §4.2, DOC-SENTENCES).
        seed: of the pairs and the masks; at least 0.

    Raises:
        ValueError: a value is out of its range.

    >>> PretrainingData(max_seq_length=128).predictions_per_seq
    20
    """

    pair_objective: PairObjective = "nsp"
    seed: int = 42

    def __post_init__(self) -> None:
        if self.max_seq_length < 5:
            raise ValueError(
                f"max_seq_length: {self.max_seq_length} leaves no room for a token of each segment beside [CLS] and "
                f"two [SEP]; expected at least 5"
            )
        if not 0 < self.mlm_probability <= 1:
            raise ValueError(f"mlm_probability: {self.mlm_probability} is not above 0 and at most 1")
        if self.max_predictions_per_seq is not None and self.max_predictions_per_seq < 1:
            raise ValueError(f"max_predictions_per_seq: {self.max_predictions_per_seq} is not at least 1")
        if not 0 <= self.short_seq_prob <= 1:
            raise ValueError(f"short_seq_prob: {self.short_seq_prob} is not between 0 and 1")
        if self.pair_objective not in get_args(PairObjective):
            raise ValueError(f"pair_objective: {self.pair_objective!r} is none of {', '.join(get_args(PairObjective))}")
        if self.seed < 0:
            raise ValueError(f"seed: {self.seed} is not at least 0")

    @property
    def predictions_per_seq(self) -> int:
        """P with the default worked out."""
        if self.max_predictions_per_seq is not None:
            return self.max_predictions_per_seq
        # Rounded first: 100 × 0.07 is 7.000000000000001 in binary.
        return math.ceil(round(self.max_seq_length * self.mlm_probability, 6))


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The ids that pre-training examples are written in.

    Attributes:
        cls_token_id, sep_token_id, pad_token_id, mask_token_id: of the special tokens.
        ordinary_ids: ``(N,)`` int64, every other id but those of special tokens: what a random replacement is drawn
            from. (The released script draws from the whole vocabulary, special tokens included.)
        continuation: ``(V,)`` bool by id, V one more than the highest id: True for the pieces that begin with ``##``
            and go on the word of the piece before them.
    """

    cls_token_id: int
    sep_token_id: int
    pad_token_id: int
    mask_token_id: int
    ordinary_ids: NDArray[np.int64]
    continuation: NDArray[np.bool_]

    @property
    def marks_continuations(self) -> bool:
        """Whether there is any ``##`` piece. Without, every piece counts as a word, and whole-word masking is none."""
        return bool(self.continuation.any())

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerFast | Any) -> Vocabulary:
        """The ids of a tokenizer that `load_tokenizer` has passed ``for_pretraining``."""
        ids: dict[str, int] = tokenizer.get_vocab()
        special = set(tokenizer.all_special_ids)
        ordinary = sorted(set(ids.values()) - special)
        continuation = np.zeros(max(ids.values()) + 1, bool)
        continuation[[number for piece, number in ids.items() if piece.startswith(CONTINUATION)]] = True
        return cls(
            cls_token_id=tokenizer.cls_token_id,
            sep_token_id=tokenizer.sep_token_id,
            pad_token_id=tokenizer.pad_token_id,
            mask_token_id=tokenizer.mask_token_id,
            ordinary_ids=np.array(ordinary, np.int64),
            continuation=continuation,
        )
