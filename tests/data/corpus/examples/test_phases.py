"""Phases: shares of the steps, none longer than the longest input, and examples one after another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertkit.data.corpus.examples.dataset import PhasedExamples
from bertkit.data.corpus.settings import check_phases, phase_lengths, plan_phases


@pytest.mark.parametrize(
    ("shares", "fault"),
    [
        ({128: 0.9, 512: 0.2}, "add up to 1.1; expected 1"),
        ({4: 1.0}, "4 tokens leave no room"),
        ({128: 1.0, 512: 0.0}, "the share of 512 tokens is 0.0"),
    ],
)
def test_shares_that_make_no_run_are_refused(shares, fault):
    with pytest.raises(ValueError, match=fault):
        check_phases(shares)


@given(st.lists(st.integers(1, 100), min_size=1, max_size=4), st.integers(1, 10_000))
def test_phases_are_all_steps_in_order(weights, steps):
    lengths = [(10 * number + 10, weight / sum(weights)) for number, weight in enumerate(weights)]
    phases = plan_phases(lengths, steps)
    covered = [step for phase in phases for step in range(phase.first_step, phase.first_step + phase.steps)]
    assert covered == list(range(steps))
    for phase in phases:
        assert phase.max_seq_length == lengths[phase.number][0]
        assert abs(phase.steps - lengths[phase.number][1] * steps) <= 1


def test_a_phase_below_one_step_is_dropped():
    (only,) = plan_phases([(128, 0.1), (512, 0.9)], 1)
    assert (only.number, only.max_seq_length) == (1, 512)
    assert [phase.steps for phase in plan_phases(phase_lengths({128: 0.9, 512: 0.1}, 512), 300)] == [270, 30]


class Part:
    """Stands for the examples of a phase: its name and their numbers."""

    def __init__(self, name: int, size: int):
        self.name, self.size = name, size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int):
        return {"example": np.array([self.name, index])}

    def __getitems__(self, indices):
        return {"example": np.array([[self.name, index] for index in indices])}


def test_examples_of_phases_follow_each_other():
    examples = PhasedExamples([Part(0, 4), Part(1, 2)])
    assert len(examples) == 6
    assert [examples[index]["example"].tolist() for index in range(6)] == [
        [0, 0], [0, 1], [0, 2], [0, 3], [1, 0], [1, 1],
    ]  # fmt: skip
    assert examples.__getitems__([4, 5])["example"].tolist() == [[1, 0], [1, 1]]


def test_batches_across_phases_are_refused():
    examples = PhasedExamples([Part(0, 4), Part(1, 2)])
    with pytest.raises(ValueError, match="examples 3 to 4 are from 2 phases"):
        examples.__getitems__([3, 4])
    for index in (-1, 6):
        with pytest.raises(IndexError, match="this run has examples 0 to 5"):
            examples[index]
