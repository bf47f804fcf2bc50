"""Attention kernels that cannot compute with a run's precision or dropout."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bertkit.errors import PlacementError
from bertkit.training.evaluation import in_float32

from .conftest import finetune


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"placement.attn_implementation": "flash_attention_2"}, "needs half precision"),
        ({"placement.attn_implementation": "flex_attention"}, "set model.attention_probs_dropout_prob=0"),
        ({"placement.attn_implementation": "fast"}, "is not available"),
    ],
)
def test_kernel_is_refused_before_the_run(tmp_path: Path, checkpoint: Path, settings: dict[str, Any], message: str):
    with pytest.raises(PlacementError, match=message):
        finetune("classification", tmp_path, checkpoint, {**settings, "placement.mixed_precision": "no"})
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("kernel", "expected"), [("flash_attention_2", ["sdpa", "flash_attention_2"]), ("eager", [])])
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
