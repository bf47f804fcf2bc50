"""Outputs of teachers in a folder of the test."""

from __future__ import annotations

from pathlib import Path

import pytest

RUN = {
    "data.max_seq_length": 16,
    "train.learning_rate": 1e-3,
    "train.max_steps": 4,
    "train.logging_steps": 1,
    "train.global_train_batch_size": 8,
    "train.save_strategy": "no",
    "train.eval_strategy": "no",
    "train.load_best_model_at_end": False,
    "placement.mixed_precision": "no",
    "placement.device": "cpu",
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch) -> Path:
    """The folder of the outputs of teachers."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "bertkit" / "teachers"
