"""Settings of pre-training examples, of the phases of a run, and of builds of token stores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from bertkit.runtime.errors import RecipeError
from bertkit.runtime.options import check_ranges, option, setting

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
    mask_replace_prob: float = setting(
        "Share of the predicted tokens that [MASK] replaces, 0 to 1 (BERT §3.1: 0.8; its §C.2 varies it).",
        default=0.8,
        ge=0,
        le=1,
    )
    random_replace_prob: float = setting(
        "Share of the predicted tokens that a random token replaces (BERT §3.1: 0.1); with `mask_replace_prob` at "
        "most 1, and the rest is unchanged.",
        default=0.1,
        ge=0,
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
        pair_objective: rule of the segments of an example (`bertkit.data.corpus.examples.objectives`). ``nsp``: B
            follows A, or is from another document (BERT §3.1); ``sop``: A and B are adjacent, in their order or
            reversed (ALBERT §3.1); ``none``: one segment of full sentences of one document (RoBERTa §4.2,
            DOC-SENTENCES).
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
        if self.unchanged_prob < 0:
            total = self.mask_replace_prob + self.random_replace_prob
            raise ValueError(f"mask_replace_prob and random_replace_prob add up to {total:.10g}; expected at most 1")
        for name, kind in (("pair_objective", PairObjective), ("token_objective", TokenObjective)):
            if getattr(self, name) not in get_args(kind):
                raise ValueError(f"{name}: {getattr(self, name)!r} is not one of {', '.join(get_args(kind))}")

    @property
    def unchanged_prob(self) -> float:
        """Returns the share of the predicted tokens that are unchanged.

        >>> PretrainingData(mask_replace_prob=0.6, random_replace_prob=0.4).unchanged_prob
        0.0
        """
        # Rounded, as 1 - 0.6 - 0.4 is not 0 in floating point, and other sums are hardly above 1.
        return round(1 - self.mask_replace_prob - self.random_replace_prob, 9)

    @property
    def predictions_per_seq(self) -> int:
        """Returns P: ``max_seq_length - 1`` for ``next_token``; else ``max_predictions_per_seq``, or if that is None
        its default."""
        if self.token_objective == "next_token":
            return self.max_seq_length - 1
        if self.max_predictions_per_seq is not None:
            return self.max_predictions_per_seq
        # Rounded before ceil: 100 × 0.07 is 7.000000000000001 in floating point.
        return max(1, math.ceil(round(self.max_seq_length * self.mlm_probability, 6)))


EPOCHS_OF_A_PHASE = 1 << 20
"""Offset between the epoch numbers of consecutive phases, so that the masks differ from phase to phase."""


@dataclass(frozen=True)
class Phase:
    """Consecutive steps of a run with one sequence length.

    The cost of attention grows with the square of the length. BERT trains 90 % of the steps on 128 tokens; the last
    10 %, on 512 tokens, train the remaining position embeddings (BERT §A.2).

    Attributes:
        number: position in `phase_lengths` of the recipe, from 0.
        max_seq_length: tokens of an example.
        first_step: number of optimizer steps before this phase.
        steps: number of optimizer steps of this phase, at least 1.
    """

    number: int
    max_seq_length: int
    first_step: int
    steps: int


def check_phases(shares: Mapping[int, float]) -> None:
    """Validates the shares of the phases.

    Raises:
        ValueError: a length is below 5, a share is not above 0, or the shares do not sum to 1.

    >>> check_phases({128: 0.9, 512: 0.1})
    """
    for length, share in shares.items():
        if length < 5:
            raise ValueError(f"phases: {length} tokens leave no room for a pair; expected at least 5")
        if not share > 0:
            raise ValueError(f"phases: the share of {length} tokens is {share}; expected more than 0")
    if shares and abs(sum(shares.values()) - 1) > 1e-6:
        raise ValueError(f"phases: the shares add up to {sum(shares.values()):.10g}; expected 1")


def phase_lengths(shares: Mapping[int, float], max_seq_length: int) -> list[tuple[int, float]]:
    """Returns the length, at most ``max_seq_length``, and the share of every phase.

    Empty ``shares`` stand for one phase of ``max_seq_length``.

    >>> phase_lengths({128: 0.9, 512: 0.1}, 512), phase_lengths({128: 0.9, 512: 0.1}, 256), phase_lengths({}, 64)
    ([(128, 0.9), (512, 0.1)], [(128, 0.9), (256, 0.1)], [(64, 1.0)])

    Adjacent phases of equal length after the cut are merged:

    >>> phase_lengths({128: 0.9, 512: 0.1}, 128)
    [(128, 1.0)]
    """
    merged: list[tuple[int, float]] = []
    for length, share in (shares or {max_seq_length: 1.0}).items():
        cut = min(length, max_seq_length)
        before = merged.pop()[1] if merged and merged[-1][0] == cut else 0.0
        merged.append((cut, before + share))
    return merged


def plan_phases(lengths: Sequence[tuple[int, float]], steps: int) -> list[Phase]:
    """Divides ``steps`` optimizer steps into phases, whose ends are rounded; a phase that gets no step is left out.

    >>> [(phase.max_seq_length, phase.first_step, phase.steps) for phase in plan_phases([(128, 0.9), (512, 0.1)], 1000)]
    [(128, 0, 900), (512, 900, 100)]
    >>> [phase.steps for phase in plan_phases([(128, 0.9), (512, 0.1)], 6)]
    [5, 1]
    >>> [phase.steps for phase in plan_phases([(128, 0.9), (512, 0.1)], 4)]
    [4]
    """
    phases, done, share_so_far = [], 0, 0.0
    for number, (length, share) in enumerate(lengths):
        share_so_far += share
        end = steps if number == len(lengths) - 1 else round(share_so_far * steps)
        if end > done:
            phases.append(Phase(number, length, done, end - done))
            done = end
    return phases


Deduplication = Literal["exact", "minhash"]
"""Rule by which a document is left out because of an earlier one: see `bertkit.data.corpus.store.filters`."""


@dataclass(frozen=True, kw_only=True)
class DocumentFilter:
    """Selection of the documents of a store.

    Attributes:
        min_tokens: minimum number of tokens of a document, at least 1.
        deduplicate: rule of duplicates; ``None`` keeps them.

    Raises:
        RecipeError: a value is out of range.
    """

    min_tokens: int = 1
    deduplicate: Deduplication | None = None

    def __post_init__(self) -> None:
        if self.min_tokens < 1:
            raise RecipeError(f"min_tokens: {self.min_tokens} is not at least 1")
        if self.deduplicate not in (None, *get_args(Deduplication)):
            raise RecipeError(f"deduplicate: {self.deduplicate!r} is not one of {', '.join(get_args(Deduplication))}")

    def facts(self) -> dict[str, int | str]:
        """Returns the entries of the metadata: only settings that leave documents out.

        >>> DocumentFilter().facts(), DocumentFilter(min_tokens=5).facts()
        ({}, {'min_tokens': 5})
        """
        found: dict[str, int | str] = {}
        if self.min_tokens > 1:
            found["min_tokens"] = self.min_tokens
        if self.deduplicate is not None:
            found["deduplicate"] = self.deduplicate
        return found
