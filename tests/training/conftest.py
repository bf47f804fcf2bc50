"""Small data that a tiny BERT can be trained on in seconds."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import TrainingArguments

from bertkit.model.loss_bert import loss_of_problem
from bertkit.tasks.base import labelled_items
from bertkit.training.steps import Objective

TINY = {
    "model.num_hidden_layers": 1,
    "model.hidden_size": 32,
    "model.num_attention_heads": 2,
    "model.intermediate_size": 64,
    "model.max_position_embeddings": 32,
    "data.vocab_size": 120,
    "data.max_seq_length": 32,
    "data.max_predictions_per_seq": 5,
    "train.global_train_batch_size": 16,
    "train.max_steps": 6,
    "train.logging_steps": 2,
    "train.learning_rate": 1e-3,
    "placement.mixed_precision": "no",
    "placement.device": "cpu",
}

# Fine-tuning or pre-training of few steps without dropout, whose numbers do not depend on the placement.
SMALL = {
    "model.hidden_dropout_prob": 0.0,
    "model.attention_probs_dropout_prob": 0.0,
    "train.global_train_batch_size": 8,
    "train.num_train_epochs": 1,
    "train.logging_steps": 1,
    "train.learning_rate": 1e-3,
    "placement.device": "cpu",
    "placement.mixed_precision": "no",
}


def assert_same_runs(one: Any, other: Any) -> None:
    """Compares the curves and results of two runs, up to rounding."""
    curves = []
    for run in (one, other):
        state = json.loads((run.output_dir / "trainer_state.json").read_text())
        steps = [entry for entry in state["log_history"] if "grad_norm" in entry]
        curves.append([(step["loss"], step["grad_norm"], step["num_input_tokens_seen"]) for step in steps])
    np.testing.assert_allclose(*curves, rtol=1e-5)
    times = ("runtime", "per_second", "timing", "flos")
    results = [{key: value for key, value in run.metrics.items() if not key.endswith(times)} for run in (one, other)]
    assert results[0] == pytest.approx(results[1], rel=1e-5)


class Labels(Objective):
    """Objective of ``logits`` against ``labels``: class ids, or floats of a problem type."""

    label_columns = ("labels",)

    def __init__(self, problem: str = "single_label_classification"):
        self.problem = problem

    def count(self, batch: Any) -> Any:
        return labelled_items(batch)

    def loss(self, outputs: Any, batch: Any, count: Any) -> Any:
        return loss_of_problem(self.problem, outputs["logits"], batch["labels"], count)


def arguments_for(folder: Path, **values: Any) -> TrainingArguments:
    """Those of a run in ``folder`` on the CPU that logs every step and shows nothing."""
    return TrainingArguments(
        output_dir=str(folder), use_cpu=True, logging_steps=1, report_to="none", disable_tqdm=True, **values
    )


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch) -> Path:
    """Twelve documents of plain text, and a cache of their own."""
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HOME", str(tmp_path / "cache"))
    words = "the cat dog sees likes a small old red house tree river near under and".split()
    rng = random.Random(0)
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(12):
        sentences = [" ".join(rng.choices(words, k=rng.randint(4, 9))).capitalize() + "." for _ in range(30)]
        (folder / f"{number:02}.txt").write_text("\n".join(sentences))
    return folder


@pytest.fixture
def glue(tmp_path: Path) -> Path:
    """Verdicts that a word decides: 96 to train on, 24 to test, and an unlabelled test set."""
    rng = random.Random(1)
    folder = tmp_path / "glue" / "SST-2"
    folder.mkdir(parents=True)

    def rows(number: int) -> list[tuple[str, int]]:
        labels = [index % 2 for index in range(number)]
        nouns = [rng.choice(["film", "story", "plot"]) for _ in labels]
        verdicts = [("awful", "lovely")[label] for label in labels]
        return [(f"the {noun} is {word}", label) for noun, word, label in zip(nouns, verdicts, labels, strict=True)]

    for name, number in (("train", 96), ("dev", 24)):
        lines = [f"{text}\t{label}" for text, label in rows(number)]
        (folder / f"{name}.tsv").write_text("\n".join(["sentence\tlabel", *lines]) + "\n")
    test = [f"{index}\t{text}" for index, (text, _) in enumerate(rows(10))]
    (folder / "test.tsv").write_text("\n".join(["index\tsentence", *test]) + "\n")
    return folder.parent
