"""Tiny checkpoints and tables to choose from."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

_WORDS = ("a", "film", "story", "the", "plot", "is", "or", "awful")


@pytest.fixture(scope="session")
def blind(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shared checkpoint with all weights 0, which cannot tell texts apart and expects all pieces alike."""
    import torch

    from bertkit import BertForPreTraining

    folder = tmp_path_factory.mktemp("blind")
    shutil.copytree(checkpoint, folder, dirs_exist_ok=True)
    model = BertForPreTraining.from_pretrained(folder)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def headless(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first layer of the shared checkpoint, without a masked-LM head."""
    from bertkit import BertModel

    folder = tmp_path_factory.mktemp("headless")
    shutil.copytree(checkpoint, folder, dirs_exist_ok=True)
    BertModel.from_pretrained(checkpoint, num_hidden_layers=1).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty texts that are good or bad by one word, with a number and several labels, and a second text."""
    generator, rows = np.random.default_rng(0), ["text,other,label,score,topics"]
    for number in range(60):
        word = ("bad", "good", "lovely")[number % 3]
        around = " ".join(generator.choice(_WORDS, 4))
        topics = {"bad": "plot", "good": "cast", "lovely": "cast|plot"}[word]
        rows.append(f"{around} {word},the {word} film,{word},{number % 3 + 0.25 * (number % 2)},{topics}")
    path = tmp_path_factory.mktemp("tables") / "my reviews.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="session")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty sentences in which ``film`` is an entity."""
    generator, lines = np.random.default_rng(1), []
    for _ in range(40):
        for word in (*generator.choice(("a", "story", "the", "plot"), 3), "film"):
            lines.append(f"{word}\t{'B-FILM' if word == 'film' else 'O'}")
        lines.append("")
    path = tmp_path_factory.mktemp("sentences") / "train.conll"
    path.write_text("\n".join(lines) + "\n")
    return path
