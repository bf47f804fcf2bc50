"""Kernels of a run: those that cannot compute with its precision or dropout, and what GPUs get by default."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bertkit.runtime.errors import PlacementError
from bertkit.runtime.placement.resolve import Placement, PlacementSettings, place
from bertkit.tasks.registry import load_recipe
from bertkit.training import arguments
from bertkit.training.evaluation import float32_products, in_float32
from bertkit.training.runs import resolve as runs_resolve
from bertkit.training.trainer import BertkitTrainer

from .conftest import finetune


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"placement.attn_implementation": "flash_attention_2"}, "needs half precision"),
        ({"placement.attn_implementation": "flex_attention"}, "no gradients|set model.attention_probs_dropout_prob=0"),
        ({"placement.attn_implementation": "fast"}, "is not available"),
    ],
)
def test_kernel_is_refused_before_the_run(tmp_path: Path, checkpoint: Path, settings: dict[str, Any], message: str):
    with pytest.raises(PlacementError, match=message):
        finetune("classification", tmp_path, checkpoint, {**settings, "placement.mixed_precision": "no"})
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [("flash_attention_2", ["sdpa", "flash_attention_2"]), ("joined", ["sdpa", "joined"]), ("eager", [])],
)
def test_evaluations_leave_flash_attention(kernel: str, expected: list[str]):
    kernels: list[str] = []
    model: Any = SimpleNamespace(
        config=SimpleNamespace(_attn_implementation=kernel), set_attn_implementation=kernels.append
    )
    with in_float32(model):
        assert kernels == expected[:1]
    assert kernels == expected


def test_evaluations_have_no_tf32(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.backends, "fp32_precision", "tf32")
    with in_float32(SimpleNamespace(config=SimpleNamespace(_attn_implementation="sdpa"))):  # type: ignore[arg-type]
        assert torch.backends.fp32_precision == "ieee"
    assert torch.backends.fp32_precision == "tf32"


def test_products_are_set_and_restored_each_time(monkeypatch: pytest.MonkeyPatch):
    """Also the second time, which transformers' own switch does not do."""
    monkeypatch.setattr(torch.backends, "fp32_precision", "none")
    for _ in range(2):
        with float32_products("tf32"):
            assert torch.backends.fp32_precision == "tf32"
            with float32_products("ieee"):
                assert torch.backends.fp32_precision == "ieee"
            assert torch.backends.fp32_precision == "tf32"
        assert torch.backends.fp32_precision == "none"


@pytest.mark.parametrize(
    ("train", "mixed_precision", "expected"),
    [({}, "no", True), ({"train.tf32": False}, "no", False), ({}, "bf16", False)],
)
def test_gpus_train_float32_with_tf32(
    monkeypatch: pytest.MonkeyPatch, train: dict[str, Any], mixed_precision: Any, expected: bool
):
    monkeypatch.setattr(arguments, "is_torch_tf32_available", lambda: True)
    on_cpu = place(PlacementSettings(device="cpu", mixed_precision=mixed_precision), 8)
    recipe = load_recipe("finetune/glue/sst2", train)
    assert arguments.has_tf32(recipe, replace(on_cpu, device="cuda")) is expected
    assert not arguments.has_tf32(recipe, on_cpu)


@pytest.mark.parametrize(("device", "expected"), [("cpu", 14), ("cuda", 16)])
def test_gpus_get_lengths_of_multiples_of_8(
    tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch, device: str, expected: int
):
    class Stopped(Exception):
        pass

    of_placement = runs_resolve.padding_rule

    def padding_rule(placement: Placement, *given: Any) -> Any:
        return of_placement(replace(placement, device=device), *given)

    def first_batches(trainer: BertkitTrainer, **_: Any) -> None:
        for loader in (trainer.get_train_dataloader(), trainer.get_eval_dataloader()):
            assert next(iter(loader))["input_ids"].shape[1] == expected
        raise Stopped

    monkeypatch.setattr(runs_resolve, "padding_rule", padding_rule)
    monkeypatch.setattr(BertkitTrainer, "train", first_batches)
    with pytest.raises(Stopped):
        finetune("classification", tmp_path, checkpoint, {"placement.cpu_speed_ups": False, "data.folds": 0})
