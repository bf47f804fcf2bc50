"""The estimate of a run's time: from measured steps and evaluations, or none with the reason."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import bertkit
from bertkit.features.checks import trial as trial_module
from bertkit.features.checks.plan import seconds
from bertkit.features.checks.trial import Speed, Trial
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
    monkeypatch.setattr(trial_module, "_measure_threads", lambda: None)
    for row in table.train[::2]:
        row["text"] = " ".join(row["text"].split()[:3])
    table.overrides |= {"train.num_train_epochs": 4, "train.save_strategy": "no", "train.eval_strategy": "no"}
    table.overrides |= {"train.load_best_model_at_end": False}
    estimate = table.report().plan["seconds"]
    computed, now = 0, 0.0  # the run is a process of its own
    given = {"model": table.model, "overrides": table.overrides}
    bertkit.finetune(table.recipe, output_dir=table.folder / "run", **given)
    assert estimate == pytest.approx(now, rel=0.1)
