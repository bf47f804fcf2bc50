"""Runs on a GPU: they end, wait for it only where they report, and give what the CPU gives."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import TrainerCallback

import bertkit

from .conftest import DATA, DEVICE, GPU_MARKS, IS_GPU, finetune

pytestmark = GPU_MARKS
NO_DROPOUT = {"model.hidden_dropout_prob": 0.0, "model.attention_probs_dropout_prob": 0.0}
PLACE = {"placement.device": DEVICE, "placement.num_processes": 1}  # also where several GPUs are visible
RUN = {
    **PLACE,
    "train.max_steps": 20,
    "train.global_train_batch_size": 4,
    "train.learning_rate": 1e-3,
    "train.logging_steps": 10,
    "train.save_strategy": "no",
    "train.load_best_model_at_end": False,
}
EXACT = {"placement.mixed_precision": "no", "train.tf32": False}
ROUNDING = 1e-3 if IS_GPU else 1e-4
"""Relative difference of two runs in float32: on a GPU sums have no fixed order, and AdamW enlarges it."""
PRECISIONS = {"no": ROUNDING, "bf16": 2e-2} | ({"fp16": 5e-3} if IS_GPU else {})
"""Precision → relative tolerance of losses against those of the CPU in float32."""


class _NoWaits(TrainerCallback):
    """Lets torch raise an error where a run waits for the GPU between two reports.

    That is from the second step on, when kernels are loaded, except from the update of the weights before a log or the
    end of an epoch to the begin of the next step.
    """

    def __init__(self) -> None:
        self.steps = 0

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.steps += 1
        if IS_GPU and state.global_step > 0:
            torch.cuda.set_sync_debug_mode("error")

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        done = state.global_step + 1
        of_epoch = -(-len(kwargs["train_dataloader"]) // args.gradient_accumulation_steps)
        reports = done % state.logging_steps == 0 or done % of_epoch == 0 or done == state.max_steps
        if IS_GPU and reports:
            torch.cuda.set_sync_debug_mode("default")


@pytest.fixture
def no_waits() -> Iterator[_NoWaits]:
    callback = _NoWaits()
    yield callback
    if IS_GPU:
        torch.cuda.set_sync_debug_mode("default")
    assert callback.steps == RUN["train.max_steps"]


def losses(folder: Path) -> list[float]:
    history = json.loads((folder / "trainer_state.json").read_text())["log_history"]
    return [entry["loss"] for entry in history if "loss" in entry]


def results(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "all_results.json").read_text())


@pytest.mark.parametrize("kind", DATA)
def test_finetuning_ends_without_waits(tmp_path: Path, checkpoint: Path, no_waits: _NoWaits, kind: str):
    out = finetune(kind, tmp_path, checkpoint, RUN, callbacks=[no_waits])
    assert results(out)["eval_loss"] > 0
    assert bertkit.load(out) is not None


@pytest.mark.parametrize(
    "overrides",
    [
        {"train.class_weights": "balanced"},
        {"model.lora": {"r": 2}},
        {"data.long_text": "chunk", "data.max_seq_length": 8},
        {"placement.per_device_train_batch_size": 2},
        {"placement.gradient_checkpointing": True},
        {"placement.dataloader_num_workers": 2},
    ],
    ids=lambda overrides: next(iter(overrides)),
)
def test_settings_end_without_waits(tmp_path: Path, checkpoint: Path, no_waits: _NoWaits, overrides: dict[str, Any]):
    out = finetune("classification", tmp_path, checkpoint, {**RUN, **overrides}, callbacks=[no_waits])
    assert results(out)["eval_loss"] > 0


def test_lstm_of_features_trains(tmp_path: Path, checkpoint: Path):
    overrides = {"model.feature_layers": [0, 1, 2], "model.feature_lstm_size": 8}
    assert results(finetune("ner", tmp_path, checkpoint, {**RUN, **overrides}))["eval_loss"] > 0


@pytest.mark.parametrize("pair_objective", ["nsp", "sop", "none"])
def test_pretraining_ends_without_waits(
    tmp_path: Path, checkpoint: Path, corpus: Path, no_waits: _NoWaits, pair_objective: str
):
    overrides = {**RUN, "task.pair_objective": pair_objective, "data.max_predictions_per_seq": 5}
    bertkit.pretrain(
        corpus=[corpus],
        model=str(checkpoint),
        output_dir=tmp_path / "out",
        callbacks=[no_waits],
        overrides={**overrides, "data.max_seq_length": 32},
    )
    assert results(tmp_path / "out")["train_loss"] > 0


@pytest.mark.parametrize("objective", ["distilbert", "minilm"])
def test_teaching_ends_without_waits(
    tmp_path: Path, checkpoint: Path, corpus: Path, no_waits: _NoWaits, objective: str
):
    bertkit.distill(
        checkpoint,
        student_layers=[1],
        corpus=[corpus],
        objective=objective,
        hidden=0.5 if objective == "distilbert" else None,
        output_dir=tmp_path / "out",
        callbacks=[no_waits],
        overrides={**RUN, "data.max_seq_length": 32, "data.max_predictions_per_seq": 5},
    )
    assert results(tmp_path / "out")["train_loss"] > 0


@pytest.mark.parametrize(("precision", "tolerance"), PRECISIONS.items())
def test_losses_are_those_of_the_cpu(
    tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch, precision: str, tolerance: float
):
    # Of the usual 65,536 the first gradients may overflow; their steps would be skipped.
    scaler = functools.partialmethod(torch.amp.GradScaler.__init__, init_scale=256.0)
    monkeypatch.setattr(torch.amp.GradScaler, "__init__", scaler)
    overrides = {**RUN, **NO_DROPOUT, "train.logging_steps": 1, **EXACT}
    expected = finetune("classification", tmp_path, checkpoint, {**overrides, "placement.device": "cpu"}, name="cpu")
    out = finetune("classification", tmp_path, checkpoint, {**overrides, "placement.mixed_precision": precision})
    assert len(losses(out)) == 20
    assert losses(out) == pytest.approx(losses(expected), rel=tolerance)
    assert results(out)["eval_loss"] == pytest.approx(results(expected)["eval_loss"], rel=tolerance)


def test_resumed_run_equals_undisturbed(tmp_path: Path, checkpoint: Path):
    class Stopped(Exception):
        pass

    class Stop(TrainerCallback):
        def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            raise Stopped

    overrides = {**RUN, **EXACT, "train.logging_steps": 1, "train.save_strategy": "steps", "train.save_steps": 10}
    whole = finetune("classification", tmp_path, checkpoint, overrides, name="whole")
    with pytest.raises(Stopped):
        finetune("classification", tmp_path, checkpoint, overrides, callbacks=[Stop()])
    out = finetune("classification", tmp_path, checkpoint, overrides, resume=True)
    assert losses(out) == pytest.approx(losses(whole), rel=ROUNDING)


@pytest.mark.parametrize("kernel", ["sdpa", "eager", "flash_attention_2", "joined"])
def test_kernels_train_evaluate_and_predict(tmp_path: Path, checkpoint: Path, kernel: str):
    if kernel == "flash_attention_2":
        pytest.importorskip("flash_attn", reason="flash-attn is not installed")
        if not IS_GPU:
            pytest.skip("flash-attn has no kernels for CPUs")
    precision = "bf16" if IS_GPU else "no"
    overrides = {**RUN, "placement.attn_implementation": kernel, "placement.mixed_precision": precision}
    out = finetune("classification", tmp_path, checkpoint, overrides)
    assert results(out)["eval_loss"] > 0
    [prediction] = bertkit.load(out).predict(["a lovely film"])
    assert prediction["label"] in ("a", "b")


@pytest.mark.parametrize(
    ("kernel", "dtype", "tolerance"),
    [
        ("sdpa", torch.float32, 1e-5),
        ("flex_attention", torch.float32, 1e-4),
        ("sdpa", torch.bfloat16, 5e-2),
        ("flash_attention_2", torch.bfloat16, 5e-2),
    ],
)
def test_kernels_compute_what_the_written_out_attention_does(
    tiny_sizes: dict[str, Any], kernel: str, dtype: torch.dtype, tolerance: float
):
    """Three sequences of 16, 11 and 5 tokens, padded to 16."""
    if kernel == "flex_attention" and not IS_GPU:
        pytest.skip("tests/model/test_attention.py compiles it for a CPU")
    torch.manual_seed(0)
    inputs = {
        "input_ids": torch.randint(5, 99, (3, 16)),
        "attention_mask": (torch.arange(16) < torch.tensor([16, 11, 5])[:, None]).long(),
        "token_type_ids": torch.randint(0, 2, (3, 16)),
        "masked_positions": torch.tensor([[1, 9], [2, 3], [4, 0]]),
        "labels": torch.tensor([[7, 8], [9, 10], [11, -100]]),
        "next_sentence_label": torch.tensor([0, 1, 1]),
    }
    device = "cuda" if IS_GPU else "cpu"
    inputs = {name: values.to(device) for name, values in inputs.items()}
    config = bertkit.BertConfig(**{**tiny_sizes, "hidden_size": 64})  # flex attention takes heads of 16 and more
    model = bertkit.BertForPreTraining(config).eval().to(device)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        expected = model(**inputs)
        try:
            model.set_attn_implementation(kernel)
        except ImportError as error:
            pytest.skip(f"{kernel} is not installed: {error}")
        outputs = model.to(dtype)(**inputs)
    torch.testing.assert_close(outputs.loss.float(), expected.loss, atol=tolerance, rtol=0)
    logits, expected_logits = outputs.seq_relationship_logits.float(), expected.seq_relationship_logits
    torch.testing.assert_close(logits, expected_logits, atol=tolerance, rtol=tolerance)


def test_losses_without_padding_are_near(tmp_path: Path, checkpoint: Path):
    overrides = {
        **RUN,
        **NO_DROPOUT,
        "train.logging_steps": 1,
        "train.max_steps": 4,
        "placement.mixed_precision": "bf16",
    }
    expected = finetune("classification", tmp_path, checkpoint, overrides, name="padded")
    settings = {**overrides, "placement.attn_implementation": "joined"}
    out = finetune("classification", tmp_path, checkpoint, settings, name="joined")
    assert losses(out) == pytest.approx(losses(expected), rel=5e-2)


@pytest.mark.skipif(shutil.which("cc") is None, reason="torch.compile needs a C compiler")
def test_compiled_losses_are_near(tmp_path: Path, checkpoint: Path):
    overrides = {**RUN, **NO_DROPOUT, **EXACT, "train.logging_steps": 1, "train.max_steps": 4}
    expected = finetune("classification", tmp_path, checkpoint, overrides, name="eager")
    out = finetune("classification", tmp_path, checkpoint, {**overrides, "train.torch_compile": True})
    assert losses(out) == pytest.approx(losses(expected), rel=1e-2)  # the compiler may take TF32


@pytest.mark.skipif(IS_GPU and torch.cuda.device_count() < 2, reason="one GPU")
def test_two_devices_equal_one(tmp_path: Path, checkpoint: Path):
    overrides = {**RUN, **NO_DROPOUT, **EXACT, "train.logging_steps": 1}
    one = finetune("classification", tmp_path, checkpoint, overrides, name="one")
    rows, out = tmp_path / "rows.jsonl", tmp_path / "two"
    settings = {**overrides, "placement.num_processes": 2, "data.max_seq_length": 32}
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "bertkit", "finetune"]
    command += ["classification", "--train-file", str(rows), "--validation-file", str(rows), "--model", str(checkpoint)]
    command += [part for key, value in settings.items() for part in ("--set", f"{key}={json.dumps(value)}")]
    subprocess.run([*command, "--output-dir", str(out)], check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert losses(out) == pytest.approx(losses(one), rel=ROUNDING)
