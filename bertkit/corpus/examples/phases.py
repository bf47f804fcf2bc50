"""One run over several sequence lengths: BERT trains on short sequences first, on long ones at the end (§A.2).

Attention costs the square of the length, and most of what there is to learn fits into 128 tokens; positions beyond
them are learned in the last tenth of the steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

EPOCHS_OF_A_PHASE = 1 << 20
"""Phase p counts its epochs from p times this: the same text gets other masks in every phase."""


@dataclass(frozen=True)
class Phase:
    """Some steps of a run, at one length.

    Attributes:
        number: 0 for the first that the recipe names.
        max_seq_length: tokens of an example.
        first_step: steps done before.
        steps: optimizer steps of this phase, at least 1.
    """

    number: int
    max_seq_length: int
    first_step: int
    steps: int


def check_phases(shares: Mapping[int, float]) -> None:
    """Refuses shares that make no run.

    Raises:
        ValueError: a length below 5, a share that is not above 0, or shares that do not add up to 1.

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
    """Length and share of every phase; none is longer than ``max_seq_length``, and no shares are one phase of that.

    >>> phase_lengths({128: 0.9, 512: 0.1}, 512), phase_lengths({128: 0.9, 512: 0.1}, 256), phase_lengths({}, 64)
    ([(128, 0.9), (512, 0.1)], [(128, 0.9), (256, 0.1)], [(64, 1.0)])

    Phases that this makes equally long are one:

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
    """The phases of a run of so many steps; one too short for a single step falls away.

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
