"""Tiny checkpoints of several families, with the tokenizer of the shared BERT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def of_family(encoder: Any, tmp_path: Path) -> Path:
    """A checkpoint of each family with a masked-LM head and random weights."""
    import torch
    from transformers import AutoModelForMaskedLM

    from bertkit.data.corpus.vocabulary.tokenizer import train_tokenizer

    tokenizer = train_tokenizer(["a good bad film story, the plot is lovely or awful"] * 3, 60, model_max_length=40)
    tokenizer.save_pretrained(tmp_path / "model")
    torch.manual_seed(0)
    encoder.initializer_range = 0.3  # attention far from equal
    AutoModelForMaskedLM.from_config(encoder).save_pretrained(tmp_path / "model")
    return tmp_path / "model"
