"""A training whose loss, gradients or weights are no longer finite ends at that step and keeps what is finite."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from bertkit.runtime.errors import RecipeError, TrainingError
from bertkit.training.recovery import find_fault
from bertkit.training.runs.pretrain import pretrain
from bertkit.training.trainer import BertkitTrainer
from tests.training.conftest import SMALL, TINY

STEPS = {"train.save_strategy": "steps", "train.save_steps": 1, "train.save_total_limit": 2, "train.max_steps": 12}


@pytest.fixture
def diverge(tuned, glue, tmp_path):
    """Fine-tunes with changed values, expects divergence, and returns the message and the run directory."""

    def run(**train: object) -> tuple[str, Path]:
        overrides = {**SMALL, **STEPS, "data.max_seq_length": 16}
        overrides |= {f"train.{key}": each for key, each in train.items()}
        with pytest.raises(TrainingError) as caught:
            tuned("sst2", overrides, data_dir=glue)
        return str(caught.value), tmp_path / "run"

    return run


def all_finite(folder: Path) -> bool:
    return all(bool(each.isfinite().all()) for each in load_file(folder / "model.safetensors").values())


def poison(monkeypatch: pytest.MonkeyPatch, step: int, value: float, where: str) -> None:
    """Makes the loss or the gradients of a step ``value``; step 1 is the first."""
    compute_loss = BertkitTrainer.compute_loss

    def poisoned(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        loss, outputs = compute_loss(self, model, inputs, True, num_items_in_batch)
        if model.training and self.state.global_step == step - 1:
            weight = next(model.parameters())
            if where == "gradient":  # the loss stays finite: its gradient alone does not
                weight.register_hook(lambda gradient: gradient.fill_(value))
            else:
                loss = loss * value
        return (loss, outputs) if return_outputs else loss

    monkeypatch.setattr(BertkitTrainer, "compute_loss", poisoned)


def test_a_learning_rate_that_is_much_too_high(diverge):
    message, out = diverge(learning_rate=1e6, lr_scheduler_type="constant", warmup_steps=0)
    step = int(re.match(r"step (\d+): the training diverged: .* at a learning rate of 1e\+06;", message).group(1))
    assert step < 12
    kept = list(out.glob("checkpoint-*"))
    assert all(all_finite(each) and find_fault(each) is None for each in kept)
    assert not (out / "model.safetensors").exists()
    assert not json.loads((out / "run.json").read_text())["finished"]


@pytest.mark.parametrize(
    ("where", "logging_steps", "named", "values"),
    [
        ("loss", 5, "the loss", "nan inf"),
        ("gradient", 5, "a weight", "-inf nan"),
        ("gradient", 1, "the norm", "inf nan"),
    ],
)
@pytest.mark.parametrize("step", [1, 4])
def test_the_first_value_that_is_not_finite_ends_the_run(
    diverge, monkeypatch, where, logging_steps, named, values, step
):
    poison(monkeypatch, step, float(values.split()[step == 4]), where)
    message, out = diverge(logging_steps=logging_steps)
    assert message.startswith(f"step {step}: the training diverged: {named}")
    assert ("use a lower train.learning_rate" in message) is (step != 1)  # no weight has changed before step 1
    kept = sorted(path.name for path in out.glob("checkpoint-*"))
    assert kept == ([] if step == 1 else ["checkpoint-2", "checkpoint-3"])
    assert message.endswith("There is no checkpoint" if step == 1 else f"The last checkpoint is {out / 'checkpoint-3'}")
    assert all(all_finite(out / name) for name in kept)


def test_a_weight_that_is_not_finite_is_not_saved(diverge, monkeypatch):
    step = torch.optim.AdamW.step

    def overflowing(self, *args, **kwargs):
        step(self, *args, **kwargs)
        with torch.no_grad():
            self.param_groups[0]["params"][-1].view(-1)[0] = float("inf")

    monkeypatch.setattr(torch.optim.AdamW, "step", overflowing)
    message, out = diverge()
    assert message.startswith("step 1: the training diverged: a weight is not finite")
    assert list(out.glob("checkpoint-*/trainer_state.json")) == []


def test_an_evaluation_whose_outputs_are_nan(diverge, monkeypatch):
    step = BertkitTrainer.prediction_step

    def overflowing(self, *args, **kwargs):
        loss, logits, labels = step(self, *args, **kwargs)
        return loss, logits * float("nan"), labels

    monkeypatch.setattr(BertkitTrainer, "prediction_step", overflowing)
    message, out = diverge()
    assert re.match(r"step \d+: the training diverged: an output for an evaluated example is nan, at a lear", message)
    assert not (out / "model.safetensors").exists()


def test_a_pretraining_that_diverges(corpus, tmp_path):
    overrides = {**TINY, **STEPS, "train.learning_rate": 1e6, "train.warmup_steps": 0}
    with pytest.raises(TrainingError, match=r"step \d+: the training diverged"):
        pretrain("bert-tiny", corpus=[corpus], output_dir=tmp_path / "run", overrides=overrides)
    assert not (tmp_path / "run" / "model.safetensors").exists()


def test_the_filter_of_transformers_cannot_be_set(tuned, glue):
    with pytest.raises(RecipeError, match="a loss that is not finite ends the run"):
        tuned("sst2", {"train.logging_nan_inf_filter": True}, data_dir=glue)
