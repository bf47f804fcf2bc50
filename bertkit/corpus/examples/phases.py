"""Phases of a run with different sequence lengths: BERT trains on short sequences first, on long ones last (§A.2).

The cost of attention grows with the square of the length. BERT trains 90 % of the steps on 128 tokens; the last 10 %,
on 512 tokens, train the remaining position embeddings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

EPOCHS_OF_A_PHASE = 1 << 20
"""Offset between the epoch numbers of consecutive phases, so that the masks differ from phase to phase."""


@dataclass(frozen=True)
class Phase:
    """Consecutive steps of a run with one sequence length.

    Attributes:
        number: position among the phases of the recipe, from 0.
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
        raise ValueError(f"phases: the shares add up to {sum(shares.values()):g}; expected 1")


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
    """Divides ``steps`` optimizer steps into phases; a phase of less than one step is dropped.

    >>> [(phase.max_seq_length, phase.first_step, phase.steps) for phase in plan_phases([(128, 0.9), (512, 0.1)], 1000)]
    [(128, 0, 900), (512, 900, 100)]
    """
    phases, done, share_so_far = [], 0, 0.0
    for number, (length, share) in enumerate(lengths):
        share_so_far += share
        end = steps if number == len(lengths) - 1 else round(share_so_far * steps)
        if end > done:
            phases.append(Phase(number, length, done, end - done))
            done = end
    return phases
