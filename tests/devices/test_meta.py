"""Steps of training and evaluation do not wait for the device, and mix no devices.

They run on torch's ``meta`` device, whose tensors have no values: reading one, as a wait for a GPU would, raises an
error, and so does an operation on tensors of ``meta`` and of the CPU.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import PartialState
from torch.overrides import TorchFunctionMode
from transformers import TrainerCallback

import bertkit
from bertkit.model.joined import JOINED
from bertkit.training.evaluation import EvaluationLoss, in_float32
from bertkit.training.runs import finetune as story
from bertkit.training.runs import pretrain, resolve
from bertkit.training.trainer import BertkitTrainer

from .conftest import finetune

pytestmark = pytest.mark.slow

META = torch.device("meta")
STEPS = 3
RUN = {
    "train.max_steps": STEPS + 1,
    "train.logging_steps": STEPS + 1,
    "train.global_train_batch_size": 4,
    "train.optim": "adamw_torch",  # the fused one has no kernel for meta
    "placement.per_device_train_batch_size": 2,
    "train.accelerator_config": {"non_blocking": True},  # as with pinned memory
    "placement.cpu_speed_ups": False,
    "placement.mixed_precision": "no",  # meta has no autocast
}


class _Faults(TorchFunctionMode):
    """Finds copies to the device that wait for all that it has to compute, and float64 numbers on it, which mps has
    not, by their place in the code."""

    def __init__(self) -> None:
        super().__init__()
        self.is_training = False
        self.places: set[str] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result, kwargs = func(*args, **(kwargs or {})), kwargs or {}
        if not isinstance(result, torch.Tensor) or result.device != META:
            return result
        waits = getattr(func, "__name__", "") == "to" and not kwargs.get("non_blocking")
        waits = self.is_training and waits and args[0].device.type == "cpu"
        if waits or result.dtype == torch.float64:
            frame = next(each for each in reversed(traceback.extract_stack()[:-1]) if "/torch/" not in each.filename)
            self.places.add(f"{frame.filename}:{frame.lineno}")
        return result


class Reached(Exception):
    """Raised after the last step that is tried."""


class _Evaluated(TrainerCallback):
    """Evaluates a batch after the last step and ends the run."""

    trainer: Any
    evaluates = True

    def __init__(self) -> None:
        self.faults = _Faults()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.faults.is_training = state.global_step < STEPS  # after the first step
        if self.faults.is_training:
            return
        if not self.evaluates:
            raise Reached
        trainer = self.trainer
        trainer._evaluation_loss = EvaluationLoss(8, 4, num_processes=1, process_index=0)
        trainer.model.eval()
        with in_float32(trainer.model):
            batch = next(iter(trainer.get_eval_dataloader()))
            outputs = trainer.prediction_step(trainer.model, batch, prediction_loss_only=False)
        assert all(each.device == META for each in outputs[1:] if isinstance(each, torch.Tensor))
        raise Reached


@pytest.fixture
def on_meta(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Evaluated]:
    """The callback of a run whose Trainer has the device ``meta``."""
    callback, begin = _Evaluated(), BertkitTrainer.__init__

    def begun(self: Any, **kwargs: Any) -> None:
        begin(self, **kwargs)
        monkeypatch.setitem(self.args.__dict__, "_setup_devices", META)
        for state in (PartialState(), self.accelerator.state):
            monkeypatch.setattr(state, "device", META)
        self.model.to(META)
        callback.trainer = self

    monkeypatch.setattr(BertkitTrainer, "__init__", begun)
    monkeypatch.setattr(story, "rivals_of", lambda *given: None)  # they read values, before the first step
    with callback.faults:
        yield callback
    assert callback.faults.places == set()


COLD = {"train.head": "random", "train.contrast_steps": 0}  # a linear probe reads vectors before the first step
FINE_TUNED = {
    "classification": ("classification", COLD),
    "class weights": ("classification", {**COLD, "train.class_weights": "balanced"}),
    "label smoothing": ("classification", {**COLD, "train.label_smoothing_factor": 0.1}),
    "long documents": ("classification", {**COLD, "data.long_text": "chunk", "data.max_seq_length": 8}),
    "lora": ("classification", {**COLD, "model.lora": {"r": 2}}),
    "regression": ("regression", {}),
    "multi-label": ("multi-label", COLD),
    "ner": ("ner", {}),
    "multiple-choice": ("multiple-choice", {}),
    "squad": ("squad", {}),
    "similarity": ("similarity", {"placement.per_device_train_batch_size": 4}),
}
JOINED_CASES = ["classification", "long documents", "ner", "multiple-choice", "squad", "similarity"]
PRETRAINED = {
    "nsp": {"task.pair_objective": "nsp"},
    "sop": {"task.pair_objective": "sop"},
    "masked tokens alone": {"task.pair_objective": "none"},
    "two lengths": {"data.phases": {16: 0.5, 32: 0.5}},
}


def join_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets runs join sequences, which a GPU does in half precision alone."""
    for story_of in (resolve, pretrain):
        monkeypatch.setattr(story_of, "set_attention", lambda model, *_: model.set_attn_implementation(JOINED))


@pytest.mark.parametrize(
    ("case", "joins"), [*((case, False) for case in FINE_TUNED), *((case, True) for case in JOINED_CASES)]
)
def test_finetuning(
    tmp_path: Path, checkpoint: Path, on_meta: _Evaluated, monkeypatch: pytest.MonkeyPatch, case: str, joins: bool
):
    if joins:
        join_sequences(monkeypatch)
    kind, overrides = FINE_TUNED[case]
    on_meta.evaluates = kind != "similarity"  # whose evaluation looks for rows without a score
    with pytest.raises(Reached):
        finetune(kind, tmp_path, checkpoint, {**RUN, **overrides}, callbacks=[on_meta])


def test_a_planted_wait_fails(tmp_path: Path, checkpoint: Path, on_meta: _Evaluated, monkeypatch: pytest.MonkeyPatch):
    compute = BertkitTrainer.compute_loss
    monkeypatch.setattr(BertkitTrainer, "compute_loss", lambda *batch, **count: compute(*batch, **count).item())
    with pytest.raises(RuntimeError, match="meta tensors"):
        finetune("classification", tmp_path, checkpoint, {**RUN, **COLD}, callbacks=[on_meta])


PRETRAINING = {**RUN, "data.max_seq_length": 32, "data.max_predictions_per_seq": 5}


@pytest.mark.parametrize(("case", "joins"), [*((case, False) for case in PRETRAINED), ("nsp", True)])
def test_pretraining(
    tmp_path: Path,
    checkpoint: Path,
    corpus: Path,
    on_meta: _Evaluated,
    monkeypatch: pytest.MonkeyPatch,
    case: str,
    joins: bool,
):
    if joins:
        join_sequences(monkeypatch)
    with pytest.raises(Reached):
        bertkit.pretrain(
            corpus=[corpus],
            model=str(checkpoint),
            output_dir=tmp_path / "out",
            callbacks=[on_meta],
            overrides={**PRETRAINING, **PRETRAINED[case]},
        )


@pytest.mark.parametrize("objective", ["distilbert", "minilm"])
def test_pretraining_with_a_teacher(
    tmp_path: Path, checkpoint: Path, corpus: Path, on_meta: _Evaluated, objective: str
):
    with pytest.raises(Reached):
        bertkit.distill(
            checkpoint,
            student_layers=[1],
            corpus=[corpus],
            objective=objective,
            hidden=0.5 if objective == "distilbert" else None,
            output_dir=tmp_path / "out",
            callbacks=[on_meta],
            overrides=PRETRAINING,
        )


@pytest.fixture
def teacher(tmp_path: Path, checkpoint: Path) -> Path:
    overrides = {**RUN, **COLD, "train.optim": "adamw_torch_fused", "placement.device": "cpu"}
    return finetune("ner", tmp_path, checkpoint, overrides, name="teacher")


@pytest.mark.parametrize("values", [{}, {"hidden": 0.5}, {"alpha": 1}], ids=str)
def test_finetuning_with_a_teacher(
    tmp_path: Path, checkpoint: Path, teacher: Path, on_meta: _Evaluated, values: dict[str, float]
):
    with pytest.raises(Reached):
        bertkit.distill(teacher, checkpoint, output_dir=tmp_path / "out", callbacks=[on_meta], overrides=RUN, **values)
