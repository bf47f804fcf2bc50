"""The estimate of a run's time: from measured steps and evaluations, or none with the reason."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import bertkit
from bertkit.features.checks import trial as trial_module
from bertkit.features.checks.trial import Speed, Trial
from bertkit.training.trainer import BertkitTrainer

STEADY = Trial(Speed((10, 40), np.array([[0.1, 0.4]] * 3)), 0.01, waiting=0.0)
UNEVEN = Trial(Speed((10, 40), np.array([[0.1, 0.1]] * 3 + [[0.5, 0.5]] * 3)), 0.01, waiting=0.0)


@pytest.mark.parametrize(
    ("trial", "processes", "reason"),
    [
        (None, 1, "no step was measured"),
        (UNEVEN, 1, "equal steps took up to 5.0 times"),
        (STEADY, 2, "the run has 2 processes, and one was measured"),
    ],
)
def test_times_that_are_not_estimated(table, monkeypatch, trial, processes, reason):
    monkeypatch.setattr("bertkit.features.checks.check.make_trial", lambda *_: trial)
    table.overrides["placement.num_processes"] = processes
    plan = table.report().plan
    assert plan["seconds"] is None
    assert plan["seconds_unknown"].startswith(reason)


def test_a_schedule_to_a_learning_rate_above_that_of_the_trial(table):
    table.overrides |= {"train.lr_scheduler_type": "polynomial", "train.learning_rate": 1e-4}
    assert table.report().plan["seconds_unknown"] != "no step was measured"


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
    del table.train[200:]
    for row in table.train[::2]:
        row["text"] = " ".join(row["text"].split()[:3])
    table.overrides |= {"train.num_train_epochs": 4, "train.save_strategy": "no", "train.eval_strategy": "no"}
    table.overrides |= {"train.load_best_model_at_end": False}
    estimate = table.report().plan["seconds"]
    computed, now = 0, 0.0  # the run is a process of its own
    given = {"model": table.model, "overrides": table.overrides}
    bertkit.finetune(table.recipe, output_dir=table.folder / "run", **given)
    assert estimate == pytest.approx(now, rel=0.1)
