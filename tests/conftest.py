"""Fixtures that several rooms share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def tiny_sizes() -> dict[str, Any]:
    """A BERT that fits in the head: 2 layers, 32 wide, 4 heads, 99 words, 16 positions, no dropout."""
    return {
        "vocab_size": 99,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 37,
        "max_position_embeddings": 16,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }


@pytest.fixture
def tiny_config(tiny_sizes: dict[str, Any]) -> Any:
    """The configuration of that BERT."""
    from bertkit import BertConfig

    return BertConfig(**tiny_sizes)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pre-trained BERT as a run leaves it, but tiny and with random weights; 64 positions."""
    import torch

    from bertkit import BertConfig, BertForPreTraining
    from bertkit.corpus.tokenizer import train_tokenizer

    folder = tmp_path_factory.mktemp("checkpoint")
    tokenizer = train_tokenizer(["a good bad film story, the plot is lovely or awful"] * 3, 90, model_max_length=64)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **sizes)
    BertForPreTraining(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of the real data sets, or a skip that says why."""
    folder = Path(os.environ.get("BERTKIT_REAL_DATA") or Path(__file__).parents[2] / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no real data: {folder} does not exist; set BERTKIT_REAL_DATA")
    return folder
