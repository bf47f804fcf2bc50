"""The estimate of a run's time: from measured steps and evaluations, or none with the reason."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import bertkit
from bertkit.features.checks import trial as trial_module
from bertkit.features.checks.command import describe_time
from bertkit.features.checks.plan import seconds
from bertkit.features.checks.trial import Speed, Trial, are_enough
from bertkit.training.trainer import BertkitTrainer

STEADY = Trial(Speed((10, 40), np.array([[0.1, 0.4]] * 3)), 0.01, waiting=0.0)


@pytest.fixture
def subjects(monkeypatch):
    """The prepared runs that are checked."""
    found: list[Any] = []
    monkeypatch.setattr("bertkit.features.checks.check.plan", lambda subject: found.append(subject) or {})
    return found


@pytest.fixture
def subject(table, no_trial, subjects):
    table.overrides |= {"train.save_strategy": "no", "train.load_best_model_at_end": False}
    table.overrides |= {"train.eval_strategy": "no"}
    table.report()
    [prepared] = subjects
    return prepared


def test_time_between_measured_lengths():
    speed = Speed((50, 100), np.array([[1.0, 2.0], [1.2, 2.4]]))
    assert speed.of(75) == pytest.approx(1.65)
    assert speed.of(500) == pytest.approx(2.2)
    assert speed.spread() == pytest.approx(1.2)


@pytest.mark.parametrize(
    ("rounds", "elapsed", "expected"),
    [(1, 1.0, False), (4, 1.0, False), (4, 5.0, True), (1, 59.0, False), (1, 61.0, True), (2, 21.0, True)],
)
def test_short_steps_are_measured_often(rounds, elapsed, expected):
    assert are_enough(rounds, elapsed) == expected


def test_the_time_is_that_of_steps_and_evaluations(subject):
    subject.trial = STEADY
    steps = seconds(subject)[0]
    lengths = subject.features["train"]["length"][:]
    assert steps == pytest.approx(100 * (0.01 * np.mean(lengths) + 0.01), rel=0.3)  # of the longest of 8 inputs
    evaluation = Speed((10, 40), np.array([[0.3, 0.3]]))
    subject.trial = replace(STEADY, start_seconds=2.0, evaluation=evaluation)
    size = subject.arguments.per_device_eval_batch_size
    assert seconds(subject)[0] == pytest.approx(steps + 2 + 0.3 * 40 / size)  # 40 examples, evaluated once


UNEVEN = Speed((10, 40), np.array([[0.1, 0.1]] * 3 + [[0.5, 0.5]] * 3))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"trial": None}, "no step was measured"),
        ({"trial": replace(STEADY, steps=UNEVEN)}, "equal steps took up to 5.0 times"),
        ({"num_processes": 2}, "the run has 2 processes, and one was measured"),
    ],
)
def test_times_that_are_not_estimated(subject, changes, reason):
    for name, value in {"trial": STEADY, **changes}.items():
        setattr(subject, name, value)
    estimate, unknown = seconds(subject)
    assert estimate is None
    assert unknown.startswith(reason)


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ({"seconds": 12.0, "waiting": None}, "under a minute for training and evaluation on cpu"),
        ({"seconds": 200.0, "waiting": 0.01}, "about 3m20s for training and evaluation on cpu"),
        (
            {"seconds": 200.0, "waiting": 0.4},
            "about 3m20s for training and evaluation on cpu, which other work holds for 40 % of the time",
        ),
        ({"seconds": None, "waiting": 0.9, "seconds_unknown": "x"}, "time not estimated: x"),
    ],
)
def test_the_sentence_on_time(plan, expected):
    assert describe_time({"device": "cpu", **plan}) == expected


def test_first_and_long_batches_are_weighed(table, monkeypatch):
    """Steps of known durations by a clock that only they move: the estimate is the time of the run, whose first steps
    take far longer, as those of every process that allocates and compiles."""
    computed, now = 0, 0.0
    step = BertkitTrainer.training_step

    def slow_step(self, model, inputs, *args, **kwargs):
        nonlocal computed, now
        computed += 1
        now += 0.5 if computed <= 3 else 0.001 * inputs["input_ids"].shape[-1]
        return step(self, model, inputs, *args, **kwargs)

    monkeypatch.setattr(BertkitTrainer, "training_step", slow_step)
    monkeypatch.setattr(trial_module, "time", SimpleNamespace(perf_counter=lambda: now))
    monkeypatch.setattr(trial_module, "_REPEATED_SECONDS", 0.0)
    monkeypatch.setattr(trial_module, "_running_and_waiting", lambda: None)
    for row in table.train[::2]:
        row["text"] = " ".join(row["text"].split()[:3])
    table.overrides |= {"train.num_train_epochs": 4, "train.save_strategy": "no", "train.eval_strategy": "no"}
    table.overrides |= {"train.load_best_model_at_end": False}
    estimate = table.report().plan["seconds"]
    computed, now = 0, 0.0  # the run is a process of its own
    given = {"model": table.model, "overrides": table.overrides}
    bertkit.finetune(table.recipe, output_dir=table.folder / "run", **given)
    assert estimate == pytest.approx(now, rel=0.1)
