"""Runs that are interrupted by a signal, or resumed at their end: the same weights and results as without."""

from __future__ import annotations

import io
import json
import logging
import os
import random
import signal
import sys
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

import pytest
from transformers import TrainerCallback

from bertkit.runtime.placement.processes import INTERRUPTED
from bertkit.training.recovery import Preemption, interruptions_reported
from bertkit.training.runs.pretrain import pretrain
from bertkit.training.steps import StepRecord
from bertkit.training.trainer import BertkitTrainer
from tests.training.conftest import TINY, log_history

STEPS = 11  # of two epochs of six steps the last one is missing
RUN = {
    "data.max_seq_length": 16,
    "train.global_train_batch_size": 16,
    "train.max_steps": STEPS,
    "train.logging_steps": 2,
    "train.learning_rate": 1e-3,
    "placement.device": "cpu",
    "placement.mixed_precision": "no",
}
BY_EPOCH = {"train.eval_strategy": "epoch", "train.save_strategy": "epoch", "train.load_best_model_at_end": True}
BY_STEPS = {"train.save_strategy": "steps", "train.save_steps": 4}


@pytest.fixture(autouse=True)
def usual_handlers():
    """Sets the usual handlers, since signals that are ignored, as under nohup, stay ignored."""
    usual = dict.fromkeys((signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP), signal.SIG_DFL)
    usual[signal.SIGINT] = signal.default_int_handler
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Signals(TrainerCallback):
    """Sends this process a signal at the beginning of a step."""

    def __init__(self, step: int, number: int):
        self.step, self.number = step, number

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self.step - 1:
            os.kill(os.getpid(), self.number)


@pytest.fixture
def train(tuned, glue, tmp_path):
    """Fine-tunes into a folder of the given name; with ``step``, a signal arrives during that step."""

    def run(name: str, changes: dict[str, Any], step: int = 0, number: int = signal.SIGTERM, resume: bool = False):
        callbacks = [Signals(step, number)] if step else []
        tuned("sst2", {**RUN, **changes}, name, data_dir=glue, resume=resume, callbacks=callbacks)
        return tmp_path / name

    return run


def results(out: Path) -> dict[str, Any]:
    found = json.loads((out / "all_results.json").read_text())
    changing = ("runtime", "per_second", "flos")
    return {name: value for name, value in found.items() if not name.endswith(changing)}


@pytest.mark.parametrize("changes", [BY_EPOCH, BY_STEPS], ids=["by epoch", "by steps"])
@pytest.mark.parametrize("step", [4, *(pytest.param(step, marks=pytest.mark.slow) for step in (1, 6, 7, STEPS))])
def test_an_interrupted_run_continues_to_the_same_result(train, capsys, changes, step):
    whole = train("whole", changes)
    capsys.readouterr()
    number = random.Random(step).choice([signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP])
    with pytest.raises(SystemExit) as caught:
        train("cut", changes, step, number)
    assert caught.value.code == INTERRUPTED == 143
    cut = whole.with_name("cut")
    assert f"with --resume continues from {cut / f'checkpoint-{step}'}" in capsys.readouterr().err
    assert not json.loads((cut / "run.json").read_text())["finished"]
    assert not (cut / "model.safetensors").exists()
    train("cut", changes, resume=True)
    assert (cut / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert results(cut) == pytest.approx(results(whole), rel=1e-6)
    assert json.loads((cut / "run.json").read_text())["finished"]


def test_a_finished_run_trains_no_step(train):
    out = train("run", BY_STEPS)
    expected, weights = results(out), (out / "model.safetensors").read_bytes()
    for _ in range(2):
        train("run", BY_STEPS, resume=True)
        assert (out / "model.safetensors").read_bytes() == weights
        assert results(out) == pytest.approx(expected, rel=1e-6)
        assert json.loads((out / "run.json").read_text())["steps"] == STEPS
    assert sorted(path.name for path in out.glob("checkpoint-*")) == ["checkpoint-11", "checkpoint-8"]


def test_more_steps_on_resumption_are_trained(train):
    out = train("run", {**BY_STEPS, "train.max_steps": 5})
    assert json.loads((out / "run.json").read_text())["resumed_from_step"] is None
    train("run", {**BY_STEPS, "train.max_steps": 7}, resume=True)
    record = json.loads((out / "run.json").read_text())
    assert (record["steps"], record["resumed_from_step"]) == (7, 5)


def test_other_steps_between_logs_and_checkpoints_on_resumption_are_used(train):
    often = {"train.logging_steps": 1, "train.save_steps": 1, "train.save_total_limit": 9}
    out = train("run", {**BY_STEPS, "train.max_steps": 4})
    train("run", {**BY_STEPS, **often, "train.max_steps": 7}, resume=True)
    assert [entry["step"] for entry in log_history(out) if "grad_norm" in entry] == [2, 4, 5, 6, 7]
    assert len(list(out.glob("checkpoint-*"))) == 4


def test_a_finished_pretraining_trains_no_step_and_warns_of_nothing(corpus, tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    overrides = {**TINY, **BY_STEPS, "train.save_steps": 3, "train.logging_steps": None}
    for resume in (False, True):
        pretrain("bert-tiny", corpus=[corpus], output_dir=tmp_path / "run", overrides=overrides, resume=resume)
        assert json.loads((tmp_path / "run" / "run.json").read_text())["steps"] == TINY["train.max_steps"]
    assert not caplog.messages  # on weights that are tied, steps between logs, or times of checkpoints


def test_handlers_are_restored_and_ignored_signals_stay_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        usual = signal.getsignal(signal.SIGTERM)
        preemption = Preemption()
        with preemption.listening():
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
            os.kill(os.getpid(), signal.SIGTERM)
        assert preemption.received == signal.SIGTERM
        assert signal.getsignal(signal.SIGTERM) == usual
    finally:
        signal.signal(signal.SIGHUP, before)


class Interrupted(io.RawIOBase):
    """A stream that gets a signal while it is written to the first time, as stderr may."""

    def __init__(self):
        self.written = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if not self.written:
            self.written = bytes(data)
            os.kill(os.getpid(), signal.SIGTERM)
            return len(data)
        self.written += bytes(data)
        return len(data)


@contextmanager
def interrupted_stderr():
    stream = Interrupted()
    with redirect_stderr(io.TextIOWrapper(io.BufferedWriter(stream), write_through=True)):
        yield stream


def test_a_signal_during_a_write_is_announced_later():
    preemption = Preemption()
    with interrupted_stderr() as stream, preemption.listening():
        print("a line", file=sys.stderr, flush=True)
        assert preemption.received == signal.SIGTERM
        assert stream.written == b"a line\n"
        for _ in range(2):
            preemption.on_substep_end(None, None, None)
        sys.stderr.flush()
    assert stream.written.decode() == (
        "a line\nSIGTERM: a checkpoint is saved at the end of this step; a second signal ends at once\n"
    )


def test_a_signal_outside_of_steps(tmp_path, monkeypatch):
    def last_checkpoint(folder: Path) -> Path:
        assert isinstance(sys.exception(), SystemExit)  # not in the signal handler
        return folder / "checkpoint-4"

    monkeypatch.setattr("bertkit.training.recovery.last_checkpoint", last_checkpoint)
    (tmp_path / "recipe.yaml").touch()
    with interrupted_stderr() as stream:
        with pytest.raises(SystemExit) as caught, interruptions_reported(tmp_path):
            print("a line", file=sys.stderr, flush=True)
        sys.stderr.flush()
    assert caught.value.code == INTERRUPTED
    assert stream.written.decode().endswith(f"continues from {tmp_path / 'checkpoint-4'}\n")


def test_a_later_second_signal_ends_the_process(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr("bertkit.training.recovery.time.monotonic", lambda: clock[0])
    ended: list[tuple[int, int]] = []
    preemption = Preemption()
    with preemption.listening():
        receive = signal.getsignal(signal.SIGTERM)
        monkeypatch.setattr("bertkit.training.recovery.os.kill", lambda *arguments: ended.append(arguments))
        for clock[0], expected in ((100.0, 0), (100.9, 0), (101.1, 1)):
            receive(signal.SIGTERM, None)
            assert len(ended) == expected
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert ended == [(os.getpid(), signal.SIGTERM)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
@pytest.mark.slow
def test_a_signal_after_the_last_step(train, capsys, monkeypatch, number):
    whole = train("whole", BY_STEPS)
    with monkeypatch.context() as patches:
        patches.setattr(StepRecord, "results", lambda *given: {"killed": os.kill(os.getpid(), number)})
        with pytest.raises(SystemExit) as caught:
            train("cut", BY_STEPS)
    assert caught.value.code == INTERRUPTED
    assert f"with --resume continues from {whole.with_name('cut') / 'checkpoint-11'}" in capsys.readouterr().err
    train("cut", BY_STEPS, resume=True)
    assert (whole / "model.safetensors").read_bytes() == (whole.with_name("cut") / "model.safetensors").read_bytes()


def test_a_signal_during_the_last_evaluation(train, capsys, monkeypatch):
    evaluate = BertkitTrainer.evaluate

    def interrupted(self, *given, **named):
        if self.state.global_step == STEPS:
            os.kill(os.getpid(), signal.SIGTERM)
        return evaluate(self, *given, **named)

    with monkeypatch.context() as patches:
        patches.setattr(BertkitTrainer, "evaluate", interrupted)
        with pytest.raises(SystemExit) as caught:
            train("cut", BY_EPOCH)
    assert caught.value.code == INTERRUPTED
    assert "with --resume continues from" in capsys.readouterr().err


def test_ctrl_c_tells_how_to_continue(train, capsys):
    with pytest.raises(KeyboardInterrupt):
        train("run", BY_STEPS, step=6, number=signal.SIGINT)
    assert "the same command with --resume continues from" in capsys.readouterr().err
