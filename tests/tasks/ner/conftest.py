"""Tasks of tagging, a tokenizer, and scores of a model that is sure of the tags."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertkit.model.checkpoint.load import load_tokenizer
from bertkit.tasks.ner.task import NerTask

# Two texts, the tags of their words, and the spans of their entities.
ANN, OSLO = "Ann Lee left 👩\u200d🚒 Oslo", "أوسلو في النرويج"
TAGS = [["B-PER", "I-PER", "O", "O", "O", "B-LOC"], ["B-LOC", "O", "B-LOC"]]
SPANS = [[(0, 7, "PER"), (17, 21, "LOC")], [(0, 5, "LOC"), (9, 16, "LOC")]]


@pytest.fixture
def task(task_of_files: Callable[..., Any]) -> Callable[..., NerTask]:
    """Builds a task of files, each given by its content: ``task(train_conll=…, context=…, strict=…)``."""
    return partial(task_of_files, NerTask)


@pytest.fixture
def tokenizer(checkpoint: Path) -> Any:
    return load_tokenizer(checkpoint)


def outputs_that_say(labels: list[list[int]], features: dict[str, list[Any]], classes: int) -> np.ndarray:
    """Outputs (N, S, C) of a model that is sure of a label for each word, padded as a batch is."""
    longest = max(map(len, features["input_ids"]))
    outputs = np.full((len(features["input_ids"]), longest, classes), -100.0, np.float32)
    for row, (example, words) in enumerate(zip(features["example"], features["word_ids"], strict=True)):
        outputs[row, : len(words)] = 0
        for token, word in enumerate(words):
            if word >= 0:
                outputs[row, token, labels[example][word]] = 5
    return outputs
