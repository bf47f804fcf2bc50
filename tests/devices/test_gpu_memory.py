"""Memory of runs on a GPU: its bounds, and steps that run out of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import bertkit
from bertkit.model import loss_bert
from bertkit.model.loss_bert import mean_cross_entropy
from bertkit.training.batches import batch_size
from bertkit.training.trainer import BertkitTrainer

from .conftest import DEVICE, GPU_MARKS, IS_GPU, texts

pytestmark = GPU_MARKS
LAYERS, WIDTH, BATCH, LENGTH = (4, 512, 256, 128) if IS_GPU else (1, 32, 256, 128)
MIB = 2**20


def peak_bytes(compute: Callable[[], object]) -> int:
    """Returns the most memory that a computation takes, in bytes, beyond what is taken before."""
    if IS_GPU:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        compute()
        return torch.cuda.max_memory_allocated() - before
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        compute()
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    taken = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        taken += event.nbytes()
        peak = max(peak, taken)
    return peak


def test_masked_lm_loss_takes_quarter_in_float32(monkeypatch: pytest.MonkeyPatch):
    """The gradient of the logits in bf16, and a quarter of what a float32 copy of them would take."""
    monkeypatch.setattr(loss_bert, "_LOGITS_AT_ONCE", {})  # as on a GPU
    items, words = 256 * 20, 30_522
    logits = torch.zeros(items, words, dtype=torch.bfloat16, device="cuda" if IS_GPU else "cpu", requires_grad=True)
    labels = torch.zeros(items, dtype=torch.int64, device=logits.device)
    peak = peak_bytes(lambda: mean_cross_entropy(logits, labels).backward())
    assert logits.grad is not None
    gradient, quarter = 2 * logits.numel(), logits.numel()
    assert gradient <= peak < gradient + quarter + 8 * MIB


def pretrain(folder: Path, checkpoint: Path) -> Path:
    """Pre-trains for two steps of `BATCH` inputs of `LENGTH` tokens; returns the run directory."""
    corpus = folder / "text.txt"
    corpus.write_text("\n".join(text.capitalize() + "." for text in texts(20_000)))
    sizes = {"num_hidden_layers": LAYERS, "hidden_size": WIDTH, "intermediate_size": 4 * WIDTH}
    bertkit.pretrain(
        "bert-mini",
        corpus=[corpus],
        output_dir=folder / "out",
        overrides={
            **{f"model.{name}": value for name, value in sizes.items()},
            "task.pair_objective": "none",  # of a single document
            "data.tokenizer": str(checkpoint),
            "data.max_seq_length": LENGTH,
            "data.phases": {LENGTH: 1.0},
            "data.validation_fraction": 0.0,
            "train.global_train_batch_size": BATCH,
            "train.max_steps": 2,
            "train.save_strategy": "no",
            "placement.device": DEVICE,
            "placement.num_processes": 1,
            "placement.per_device_train_batch_size": BATCH,
        },
    )
    return folder / "out"


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Memory for less than half of `BATCH` inputs at once; on a CPU larger batches raise torch's error."""
    if IS_GPU:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(1.5e9 / total)
        yield
        torch.cuda.set_per_process_memory_fraction(1.0)
        return
    compute = BertkitTrainer.compute_part

    def limited(self: Any, model: Any, inputs: dict[str, Any], count: Any) -> Any:
        if batch_size(inputs) > BATCH // 3:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB.")
        return compute(self, model, inputs, count)

    monkeypatch.setattr(BertkitTrainer, "compute_part", limited)
    yield


@pytest.mark.usefixtures("little_memory")
def test_step_is_repeated_with_less_memory(tmp_path: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]):
    out = pretrain(tmp_path, checkpoint)
    assert "at once and more accumulation steps" in capsys.readouterr().err
    assert (out / "model.safetensors").exists()


@pytest.mark.skipif(not IS_GPU, reason="a CPU has no count of memory that a run took")
def test_peak_is_near_the_estimate(tmp_path: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]):
    peak = peak_bytes(lambda: pretrain(tmp_path, checkpoint))
    estimate = re.search(r"memory: about ([\d.]+) (MiB|GiB)", capsys.readouterr().err)
    assert estimate is not None
    estimated = float(estimate[1]) * {"MiB": MIB, "GiB": 1024 * MIB}[estimate[2]]
    assert estimated / 2 < peak < 1.5 * estimated + 64 * MIB
