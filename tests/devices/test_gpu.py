"""Runs on a GPU: they end, wait for it only between steps, and give what the CPU gives.

With ``BERTKIT_TEST_DEVICE=cpu`` the same tests run on the CPU, so that only CUDA is new to them on a GPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import TrainerCallback

import bertkit

from .conftest import DATA, finetune, texts

DEVICE = os.environ.get("BERTKIT_TEST_DEVICE", "cuda")
IS_GPU = DEVICE == "cuda"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(IS_GPU and not torch.cuda.is_available(), reason="no CUDA device"),
]
ON_GPU = pytest.mark.skipif(not IS_GPU, reason="of CUDA alone")
NO_DROPOUT = {"model.hidden_dropout_prob": 0.0, "model.attention_probs_dropout_prob": 0.0}
RUN = {
    "placement.device": DEVICE,
    "train.max_steps": 20,
    "train.global_train_batch_size": 4,
    "train.learning_rate": 1e-3,
    "train.logging_steps": 10,
    "train.save_strategy": "no",
    "train.load_best_model_at_end": False,
}
PRECISIONS = {"no": 1e-4, "bf16": 2e-2} | ({"fp16": 5e-3} if IS_GPU else {})
"""Precision → relative tolerance of losses against those of the CPU in float32."""


class _NoWaits(TrainerCallback):
    """Lets torch raise an error where a step waits for the GPU, from its begin to the update of the weights."""

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if IS_GPU and state.global_step > 0:  # kernels are loaded in the first step
            torch.cuda.set_sync_debug_mode("error")

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if IS_GPU:
            torch.cuda.set_sync_debug_mode("default")


def losses(folder: Path) -> list[float]:
    history = json.loads((folder / "trainer_state.json").read_text())["log_history"]
    return [entry["loss"] for entry in history if "loss" in entry]


def results(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "all_results.json").read_text())


@pytest.mark.parametrize("kind", DATA)
def test_finetuning_ends_without_waits(tmp_path: Path, checkpoint: Path, kind: str):
    out = finetune(kind, tmp_path, checkpoint, RUN, callbacks=[_NoWaits()])
    assert results(out)["eval_loss"] > 0
    assert bertkit.load(out, device=DEVICE) is not None


@pytest.mark.parametrize("pair_objective", ["nsp", "sop", "none"])
def test_pretraining_ends_without_waits(tmp_path: Path, checkpoint: Path, corpus: Path, pair_objective: str):
    overrides = {**RUN, "task.pair_objective": pair_objective, "data.max_predictions_per_seq": 5}
    bertkit.pretrain(
        corpus=[corpus],
        model=str(checkpoint),
        output_dir=tmp_path / "out",
        callbacks=[_NoWaits()],
        overrides={**overrides, "data.max_seq_length": 32},
    )
    assert results(tmp_path / "out")["train_loss"] > 0


@pytest.mark.parametrize(("precision", "tolerance"), PRECISIONS.items())
def test_losses_are_those_of_the_cpu(tmp_path: Path, checkpoint: Path, precision: str, tolerance: float):
    overrides = {**RUN, **NO_DROPOUT, "train.logging_steps": 1}
    here = {"placement.device": DEVICE, "placement.mixed_precision": precision}
    expected = finetune("classification", tmp_path, checkpoint, {**overrides, "placement.device": "cpu"}, name="cpu")
    out = finetune("classification", tmp_path, checkpoint, {**overrides, **here})
    assert len(losses(out)) == 20
    assert losses(out) == pytest.approx(losses(expected), rel=tolerance)


def test_resumed_run_equals_undisturbed(tmp_path: Path, checkpoint: Path):
    class Stopped(Exception):
        pass

    class Stop(TrainerCallback):
        def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            raise Stopped

    overrides = {**RUN, "train.logging_steps": 1, "train.save_strategy": "steps", "train.save_steps": 10}
    whole = finetune("classification", tmp_path, checkpoint, overrides, name="whole")
    with pytest.raises(Stopped):
        finetune("classification", tmp_path, checkpoint, overrides, callbacks=[Stop()])
    out = finetune("classification", tmp_path, checkpoint, overrides, resume=True)
    assert losses(out) == pytest.approx(losses(whole), rel=1e-4)


@ON_GPU
def test_step_is_repeated_with_less_memory(tmp_path: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]):
    total = torch.cuda.get_device_properties(0).total_memory
    sizes = {"model.num_hidden_layers": 12, "model.hidden_size": 768, "model.intermediate_size": 3072}
    corpus = tmp_path / "text.txt"
    corpus.write_text("\n".join(texts(20_000)))
    torch.cuda.set_per_process_memory_fraction(6e9 / total)
    try:
        bertkit.pretrain(
            "bert-base",
            corpus=[corpus],
            output_dir=tmp_path / "out",
            overrides={
                **sizes,
                "placement.device": DEVICE,
                "placement.per_device_train_batch_size": 256,
                "train.global_train_batch_size": 256,
                "train.max_steps": 2,
                "model.vocab_size": 90,
            },
        )
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert "at once and more accumulation steps" in capsys.readouterr().err


@pytest.mark.parametrize("kernel", ["sdpa", "flash_attention_2"])
def test_kernels_train_and_evaluate(tmp_path: Path, checkpoint: Path, kernel: str):
    if kernel == "flash_attention_2":
        pytest.importorskip("flash_attn", reason="flash-attn is not installed")
    precision = "bf16" if IS_GPU else "no"
    overrides = {**RUN, "placement.attn_implementation": kernel, "placement.mixed_precision": precision}
    assert results(finetune("classification", tmp_path, checkpoint, overrides))["eval_loss"] > 0


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_compiled_losses_are_near(tmp_path: Path, checkpoint: Path):
    overrides = {**RUN, **NO_DROPOUT, "train.logging_steps": 1, "train.max_steps": 4}
    expected = finetune("classification", tmp_path, checkpoint, overrides, name="eager")
    out = finetune("classification", tmp_path, checkpoint, {**overrides, "train.torch_compile": True})
    assert losses(out) == pytest.approx(losses(expected), rel=1e-2)  # TF32 on a GPU


@ON_GPU
def test_peak_memory_is_near_the_estimate(tmp_path: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]):
    torch.cuda.reset_peak_memory_stats()
    finetune("classification", tmp_path, checkpoint, RUN)
    assert "memory: about" in capsys.readouterr().err
    assert torch.cuda.max_memory_allocated() < 1 << 30  # of a BERT of two layers


@pytest.mark.skipif(IS_GPU and torch.cuda.device_count() < 2, reason="one GPU")
def test_two_devices_equal_one(tmp_path: Path, checkpoint: Path):
    overrides = {**RUN, **NO_DROPOUT, "train.logging_steps": 1}
    one = finetune("classification", tmp_path, checkpoint, overrides, name="one")
    rows, out = tmp_path / "rows.jsonl", tmp_path / "two"
    settings = {**overrides, "data.max_seq_length": 32}
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "bertkit", "finetune"]
    command += ["classification", "--train-file", str(rows), "--validation-file", str(rows), "--model", str(checkpoint)]
    command += [part for key, value in settings.items() for part in ("--set", f"{key}={json.dumps(value)}")]
    subprocess.run([*command, "--output-dir", str(out)], check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert losses(out) == pytest.approx(losses(one), rel=1e-4)
