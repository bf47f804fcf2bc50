"""Runs whose encoder computes joined sequences: the losses of padded ones, for every kind of task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from transformers import TrainerCallback

import bertkit
from bertkit.model import joined
from bertkit.runtime.errors import PlacementError
from tests.devices.conftest import corpus, finetune  # noqa: F401 - a fixture
from tests.training.conftest import SMALL, STRAIGHT, logged

pytestmark = pytest.mark.numeric

BF16 = {**SMALL, "placement.mixed_precision": "bf16", "placement.attn_implementation": "joined"}
BF16["placement.cpu_speed_ups"] = False  # as on a GPU
COLD = {"train.head": "random", "train.contrast_steps": 0, "data.folds": 0}
PRETRAINED = {"data.max_seq_length": 32, "data.max_predictions_per_seq": 5, "train.max_steps": 4}


class Rows(TrainerCallback):
    """Notes the rows that the first layer computes in training; with joined sequences it is one."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def on_train_begin(self, *args: Any, model: Any, **kwargs: Any) -> None:
        layer = next(module for name, module in model.named_modules() if name.endswith("layer.0"))
        layer.register_forward_hook(self.note)

    def note(self, layer: Any, args: Any, output: Any) -> None:
        if layer.training:
            self.seen.add(output.shape[0])


@pytest.fixture
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs on a CPU join sequences, with the reference for the attention."""
    monkeypatch.setattr(joined, "missing_on_device", lambda device: "")


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "classification": ("classification", COLD),
    "accumulation": ("classification", {**COLD, "placement.per_device_train_batch_size": 2}),
    "recomputed activations": ("classification", {**COLD, "placement.gradient_checkpointing": True}),
    "lora": ("classification", {**COLD, "model.lora": {"r": 2}}),
    "frozen": ("classification", {**COLD, "model.freeze_layers": 1}),
    "warm start": ("classification", {"data.folds": 0, "train.head": "probe", "train.contrast_steps": 2}),
    "long documents": ("classification", {**COLD, "data.long_text": "chunk", "data.max_seq_length": 8}),
    "multi-label": ("multi-label", COLD),
    "regression": ("regression", {"data.folds": 0}),
    "ner": ("ner", {}),
    "multiple-choice": ("multiple-choice", {}),
    "squad": ("squad", {}),
    "similarity": ("similarity", {}),
    "similarity in pieces": ("similarity", {"task.form": "pairs", "task.mini_batch_size": 4}),
}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[] if case == "classification" else [pytest.mark.slow]) for case in CASES]
)
def test_losses_and_weights(tmp_path: Path, checkpoint: Path, on_a_gpu: None, case: str):
    kind, settings = CASES[case]
    rows = Rows()
    padded = {**BF16, **settings, "placement.attn_implementation": "sdpa"}
    expected = finetune(kind, tmp_path, checkpoint, padded, name="padded")
    out = finetune(kind, tmp_path, checkpoint, {**BF16, **settings}, name="joined", callbacks=[rows])
    assert rows.seen == {1}
    assert logged(out) == pytest.approx(logged(expected), rel=2e-2, abs=2e-2)
    names, of_padded = (load_file(folder / "model.safetensors").keys() for folder in (out, expected))
    assert names == of_padded


@pytest.mark.slow
def test_pretraining(tmp_path: Path, checkpoint: Path, corpus: Path, on_a_gpu: None):  # noqa: F811
    rows, outs = Rows(), []
    for kernel in ("sdpa", "joined"):
        outs.append(tmp_path / kernel)
        overrides = {**BF16, **PRETRAINED, "placement.attn_implementation": kernel}
        overrides["train.dataloader_drop_last"] = True
        callbacks = [rows] if kernel == "joined" else []
        bertkit.pretrain(
            corpus=[corpus], model=str(checkpoint), output_dir=outs[-1], callbacks=callbacks, overrides=overrides
        )
    assert rows.seen == {1}
    assert logged(outs[1]) == pytest.approx(logged(outs[0]), rel=2e-2)


@pytest.mark.slow
def test_a_resumed_run_is_the_same(tmp_path: Path, checkpoint: Path, on_a_gpu: None):
    class Stop(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            control.should_save = control.should_training_stop = state.global_step == 2

    settings = {**BF16, **COLD, **STRAIGHT, "train.save_strategy": "steps", "train.save_steps": 100}
    expected = finetune("classification", tmp_path, checkpoint, settings, name="whole")
    finetune("classification", tmp_path, checkpoint, settings, name="stopped", callbacks=[Stop()])
    out = finetune("classification", tmp_path, checkpoint, settings, name="stopped", resume=True)
    assert logged(out) == pytest.approx(logged(expected), rel=2e-2)


def test_without_a_gpu_a_line_says_so(tmp_path: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]):
    rows = Rows()
    settings = {**BF16, **COLD, **STRAIGHT, "train.max_steps": 1}
    finetune("classification", tmp_path, checkpoint, settings, callbacks=[rows])
    assert "needs an NVIDIA GPU" in "".join(capsys.readouterr())
    assert rows.seen == {8}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"placement.mixed_precision": "no"}, "needs half precision"),
        ({"train.torch_compile": True, "train.torch_compile_backend": "eager"}, r"with train\.torch_compile"),
        ({"model.attention": "left_to_right"}, "left to right"),
    ],
)
def test_what_excludes_it_is_said_before_the_run(
    tmp_path: Path, checkpoint: Path, on_a_gpu: None, settings: dict[str, Any], message: str
):
    with pytest.raises(PlacementError, match=message):
        finetune("classification", tmp_path, checkpoint, {**BF16, **settings})
    assert not (tmp_path / "out").exists()
