"""Callbacks that a caller gives: that they are called in every kind of run, and what is refused."""

from __future__ import annotations

from functools import partial

import pytest
from transformers import EarlyStoppingCallback, TrainerCallback

from bertkit import finetune, finetune_glue, pretrain
from bertkit.runtime.errors import RecipeError

from .conftest import FOUR_STEPS, STRAIGHT, TINY


class Recorder(TrainerCallback):
    """Keeps the names and steps of events; stops the run after a step."""

    def __init__(self, last: int = 10**6):
        self.last = last
        self.steps: list[int] = []
        self.losses: list[float] = []

    def on_step_end(self, args, state, control, **kwargs):
        self.steps.append(state.global_step)
        control.should_training_stop |= state.global_step >= self.last

    def on_log(self, args, state, control, logs=None, **kwargs):
        self.losses += [logs["loss"]] if "loss" in logs else []


def test_fine_tuning_calls_them_and_obeys(tuned, glue):
    two, all_of_them = Recorder(last=2), Recorder()
    run = tuned("sst2", {**FOUR_STEPS, **STRAIGHT}, data_dir=glue, callbacks=[two, all_of_them])
    assert two.steps == all_of_them.steps == [1, 2]
    assert len(two.losses) == 2
    assert run.metrics["eval_samples"] == 24


def test_pre_training_calls_them_and_obeys(corpus, tmp_path):
    recorder = Recorder(last=3)
    pretrain("bert-tiny", corpus=[corpus], output_dir=tmp_path / "run", overrides=TINY, callbacks=(recorder,))
    assert recorder.steps == [1, 2, 3]


def test_early_stopping_of_transformers_ends_a_run(tuned, glue):
    overrides = {**FOUR_STEPS, "train.max_steps": 20, "train.eval_strategy": "steps", "train.eval_steps": 2}
    overrides |= {"train.save_steps": 2, "train.load_best_model_at_end": True, "train.learning_rate": 1e-30}
    recorder = Recorder()
    tuned("sst2", overrides, data_dir=glue, callbacks=[EarlyStoppingCallback(early_stopping_patience=2), recorder])
    assert recorder.steps[-1] == 6  # the first evaluation is the best, two more are not better


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([Recorder], "entry 1 is the class Recorder, give Recorder(…)"),
        ([Recorder(), print], "entry 2 is <built-in function print>"),
        ("wandb", "expected a list of transformers' TrainerCallbacks, got 'wandb'"),
    ],
)
@pytest.mark.parametrize("function", ["finetune", "pretrain", "glue"])
def test_a_wrong_value_is_refused_before_anything_is_written(
    glue, corpus, checkpoint, tmp_path, function, given, expected
):
    out = tmp_path / "run"
    call = {
        "finetune": partial(finetune, "sst2", model=str(checkpoint), data_dir=glue),
        "pretrain": partial(pretrain, "bert-tiny", corpus=[corpus], overrides=TINY),
        "glue": partial(finetune_glue, ["sst2"], model=str(checkpoint), data_dir=glue),
    }[function]
    with pytest.raises(RecipeError) as caught:
        call(output_dir=out, callbacks=given)
    assert expected in str(caught.value)
    assert str(caught.value).startswith("callbacks: ")
    assert "\n" not in str(caught.value)
    assert not out.exists()


def test_early_stopping_without_evaluations_is_refused_before_anything_is_written(tuned, glue, tmp_path):
    with pytest.raises(RecipeError, match="callbacks: EarlyStoppingCallback compares evaluations"):
        tuned("sst2", {**FOUR_STEPS, **STRAIGHT}, data_dir=glue, callbacks=[EarlyStoppingCallback()])
    assert not (tmp_path / "run").exists()
