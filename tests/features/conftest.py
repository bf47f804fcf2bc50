"""Fixtures of several features; the command line for the tests of their commands."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.conftest import bertkit

__all__ = ["bertkit"]


@pytest.fixture(scope="session")
def serve_extra() -> None:
    """Skips a test if the extra is not installed."""
    for module in ("fastapi", "uvicorn", "prometheus_client", "httpx"):
        pytest.importorskip(module, reason=f"the extra serve is not installed: {module}")


@pytest.fixture
def quick() -> dict[str, Any]:
    """Overrides for runs of two steps on the CPU, in float32, without checkpoints."""
    return {
        "data.max_seq_length": 16,
        "train.max_steps": 2,
        "train.eval_strategy": "no",
        "train.save_strategy": "no",
        "train.load_best_model_at_end": False,
        "train.global_train_batch_size": 4,
        "train.learning_rate": 1e-3,
        "placement.mixed_precision": "no",
        "placement.device": "cpu",
    }


@pytest.fixture(scope="session")
def onnx_extra() -> None:
    """Skips a test if the extra is not installed."""
    for module in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(module, reason=f"the extra onnx is not installed: {module}")
