"""Progress: plain lines where there is no terminal, metrics in a fixed order, nothing on stdout."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from transformers import IntervalStrategy

from bertkit.runtime.progress import readable
from bertkit.training.progress import Progress

METRICS = {
    "grad_norm": 1.0,
    "next_sentence_accuracy": 0.5,
    "loss": 2.0,
    "masked_lm_loss": 1.25,
    "learning_rate": 1e-4,
    "epoch": 1.0,
}


def test_metrics_are_read_in_the_order_people_want():
    assert (
        readable(METRICS) == "loss 2.0000, masked LM loss 1.2500, next sentence accuracy 0.5000, learning rate 1.00e-04"
    )


@pytest.mark.parametrize("strategy", ["no", "epoch"])
def test_without_a_terminal_each_log_is_a_line_with_the_time_left(capfd, monkeypatch, strategy):
    """The first step, which may take longer than many others, does not count, and evaluations once there was one."""
    arguments = SimpleNamespace(eval_strategy=IntervalStrategy(strategy))
    clock = iter([100.0, 100.0, 127.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    progress = Progress("sst2")
    state = SimpleNamespace(global_step=0, max_steps=40, is_world_process_zero=True)
    progress.on_train_begin(arguments, state, None)
    state.global_step = 1
    progress.on_step_end(arguments, state, SimpleNamespace(should_evaluate=False, should_save=False))
    progress.on_log(arguments, state, None, logs={})
    progress.on_log(arguments, state, None, logs=METRICS)
    assert capfd.readouterr().err == f"sst2: step 1/40: {readable(METRICS)}\n"
    state.global_step = 10
    progress.on_log(arguments, state, None, logs={**METRICS, "train_tokens_per_second": 12345.6})
    out, err = capfd.readouterr()
    assert out == ""
    end = "" if strategy == "no" else " without evaluations"
    assert err.splitlines() == [f"sst2: step 10/40: {readable(METRICS)}, 12,346 tokens/s, 1m30s left{end}"]


def test_only_the_first_process_speaks(capfd):
    progress = Progress("sst2")
    state = SimpleNamespace(global_step=5, max_steps=40, is_world_process_zero=False)
    progress.on_log(None, state, None, logs=dict(METRICS))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("strategy", ["no", "epoch"])
def test_the_time_of_all_steps_is_said_once_some_are_measured(capfd, monkeypatch, strategy):
    """The first step and evaluations do not count: 12 seconds for the three steps after the evaluation and one more."""
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    progress = Progress("sst2")
    state = SimpleNamespace(global_step=0, max_steps=1000, is_world_process_zero=True)
    arguments = SimpleNamespace(eval_strategy=IntervalStrategy(strategy))
    progress.on_train_begin(arguments, state, None)
    for step, now in enumerate([30.0, 34.0, 90.0, 94.0, 98.0, 102.0, 106.0], start=1):  # noqa: B007 - the clock reads it
        state.global_step = step
        control = SimpleNamespace(should_evaluate=step == 2, should_save=False)
        progress.on_step_end(arguments, state, control)
    _, err = capfd.readouterr()
    end = "" if strategy == "no" else ", without evaluations"
    assert err.splitlines() == [f"time: 4 s per step; at this speed the remaining 994 steps take 1h06m{end}"]


@pytest.mark.parametrize(
    ("steps", "said"), [(2, ""), (3, "time: 20 s per step; at this speed the remaining 1 step takes 20s\n")]
)
def test_no_time_is_told_for_steps_that_are_not_left(capfd, monkeypatch, steps, said):
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    progress = Progress("sst2")
    state = SimpleNamespace(global_step=0, max_steps=steps, is_world_process_zero=True)
    progress.on_train_begin(None, state, None)
    control = SimpleNamespace(should_evaluate=False, should_save=False)
    for step, now in ((1, 20.0), (2, 40.0)):  # noqa: B007 - the clock reads it
        state.global_step = step
        progress.on_step_end(SimpleNamespace(eval_strategy=IntervalStrategy("no")), state, control)
    assert capfd.readouterr().err == said


@pytest.mark.parametrize(("steps", "between"), [(20, 1), (30, 1), (59, 1), (90, 3), (10**6, 50)])
def test_a_run_logs_thirty_times_or_every_fifty_steps(steps, between):
    progress = Progress("sst2", logs_often=True)
    state = SimpleNamespace(global_step=0, max_steps=steps, logging_steps=50, is_world_process_zero=True)
    progress.on_train_begin(None, state, None)
    assert state.logging_steps == between
    assert steps < 30 or steps // state.logging_steps >= 30


def test_frequent_logs_are_printed_in_part(capsys):
    progress = Progress("sst2", logs_often=True)
    state = SimpleNamespace(max_steps=40, global_step=1, is_world_process_zero=True)
    progress.on_train_begin(None, state, None)
    progress.on_log(None, state, None, {"loss": 1.0})
    assert "loss" not in capsys.readouterr().err
    progress.printed -= 60
    progress.on_log(None, state, None, {"loss": 1.0})
    progress.on_log(None, state, None, {"loss": 1.0})
    assert capsys.readouterr().err == "sst2: step 1/40: loss 1.0000\n"
