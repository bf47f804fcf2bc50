"""Tiny checkpoints of several families, with a tokenizer of 60 pieces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[Any], Path]:
    """Saves a model of 60 pieces and 40 tokens with a tokenizer, and returns the folder."""
    from bertkit.data.corpus.vocabulary.tokenizer import train_tokenizer

    def save(model: Any) -> Path:
        folder = tmp_path / "model"
        text = "a good bad film story, the plot is lovely or awful"
        train_tokenizer([text] * 3, 60, model_max_length=40).save_pretrained(folder)
        model.save_pretrained(folder)
        return folder

    return save


@pytest.fixture
def of_family(encoder: Any, saved: Callable[[Any], Path]) -> Path:
    """A checkpoint of each family with a masked-LM head and random weights."""
    import torch
    from transformers import AutoModelForMaskedLM

    torch.manual_seed(0)
    encoder.initializer_range = 0.3  # attention far from equal
    return saved(AutoModelForMaskedLM.from_config(encoder))
