"""A run on a small table, whose rows are scored by folds, and texts without labels."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from bertkit import finetune

FAST = {
    "data.max_seq_length": 16,
    "train.max_steps": 4,
    "train.learning_rate": 1e-3,
    "train.contrast_steps": 2,
    "train.report": False,
    "placement.mixed_precision": "no",
    "placement.device": "cpu",
}
WORDS = {"good": "a lovely film", "bad": "the awful plot", "fair": "a story or film"}


@pytest.fixture(scope="session")
def trained(checkpoint, tmp_path_factory):
    """Returns a function that fine-tunes on a file."""

    def run(file: Path, **overrides: object) -> Path:
        folder = tmp_path_factory.mktemp("next") / "run"
        finetune("classification", model=str(checkpoint), train_file=str(file), output_dir=folder,
                 overrides=FAST | {key.replace("__", "."): value for key, value in overrides.items()})  # fmt: skip
        return folder

    return run


@pytest.fixture(scope="session")
def labelled(tmp_path_factory) -> Path:
    """Thirty-six labelled texts of three classes."""
    path = tmp_path_factory.mktemp("labelled") / "labelled.csv"
    rows = [(f"{words} {place}", label) for place in range(12) for label, words in WORDS.items()]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    return path


@pytest.fixture(scope="session")
def scored(trained, labelled) -> Path:
    """A run whose rows are scored by folds."""
    return trained(labelled)


@pytest.fixture
def unlabelled(tmp_path) -> Path:
    """Forty other texts with a number each, a copy of one of them, and a labelled text."""
    path = tmp_path / "unlabelled.csv"
    texts = [f"{words} is {place}" for place in range(20) for words in list(WORDS.values())[:2]]
    texts += [f"{texts[0]} ", f"{WORDS['good']} 3"]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("id", "text"), *enumerate(texts)])
    return path
