"""Small data that a tiny BERT can be trained on in seconds."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import TrainingArguments

from bertkit import finetune
from bertkit.model.loss_bert import loss_of_problem
from bertkit.tasks.base import Task
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

# Four steps of fine-tuning, each logged, and what leaves them without evaluations and checkpoints on the way.
FOUR_STEPS = {
    "data.max_seq_length": 16,
    "train.learning_rate": 1e-3,
    "train.max_steps": 4,
    "train.logging_steps": 1,
    "train.global_train_batch_size": 8,
    "placement.mixed_precision": "no",
    "placement.device": "cpu",
}
STRAIGHT = {"train.save_strategy": "no", "train.eval_strategy": "no", "train.load_best_model_at_end": False}


def log_history(folder: Path) -> list[dict[str, Any]]:
    """What a run has logged, in order."""
    return json.loads((folder / "trainer_state.json").read_text())["log_history"]


def logged(folder: Path, name: str = "loss") -> list[float]:
    """The values of the steps that a run has logged."""
    return [entry[name] for entry in log_history(folder) if "grad_norm" in entry]


def curve(folder: Path) -> list[list[float]]:
    """Losses, accuracies, the norm of the gradient and the learning rate of the steps that a run has logged."""
    names = ("loss", "masked_lm_loss", "next_sentence_loss", "masked_lm_accuracy", "next_sentence_accuracy")
    names += ("grad_norm", "learning_rate")
    return [[entry[name] for name in names if name in entry] for entry in log_history(folder) if "loss" in entry]


def as_if_killed(folder: Path, *, before: int) -> None:
    """Leaves what a kill before the checkpoint of that step would have left."""
    for path in folder.iterdir():
        if path.is_file() and path.name not in ("recipe.yaml", "run.json", "tokenizer.json", "tokenizer_config.json"):
            path.unlink()
        elif path.name.startswith("checkpoint-") and int(path.name.removeprefix("checkpoint-")) >= before:
            shutil.rmtree(path)


def same_weights(one: Path, other: Path) -> bool:
    first, second = (load_file(folder / "model.safetensors") for folder in (one, other))
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def assert_same_runs(one: Any, other: Any) -> None:
    """Compares the curves and results of two runs, up to rounding."""
    for name in ("loss", "grad_norm", "num_input_tokens_seen"):
        np.testing.assert_allclose(logged(one.output_dir, name), logged(other.output_dir, name), rtol=1e-5)
    times = ("runtime", "per_second", "timing", "flos")
    results = [{key: value for key, value in run.metrics.items() if not key.endswith(times)} for run in (one, other)]
    assert results[0] == pytest.approx(results[1], rel=1e-5)


class Labels(Objective):
    """Objective of ``logits`` against ``labels``: class ids, or floats of a problem type."""

    label_columns = ("labels",)
    count = Task.count

    def __init__(self, problem: str = "single_label_classification"):
        self.problem = problem

    def loss(self, outputs: Any, batch: Any, count: Any) -> Any:
        return loss_of_problem(self.problem, outputs["logits"], batch["labels"], count)


def arguments_for(folder: Path, **values: Any) -> TrainingArguments:
    """Those of a run in ``folder`` on the CPU that logs every step and shows nothing."""
    return TrainingArguments(
        output_dir=str(folder), use_cpu=True, logging_steps=1, report_to="none", disable_tqdm=True, **values
    )


@pytest.fixture
def tuned(checkpoint: Path, tmp_path: Path) -> Callable[..., Any]:
    """``tuned(recipe, overrides, name)`` fine-tunes the small checkpoint into a folder of this name."""

    def run(recipe: Any, overrides: dict[str, Any], name: str = "run", **given: Any) -> Any:
        return finetune(recipe, output_dir=tmp_path / name, overrides=overrides, **{"model": str(checkpoint), **given})

    return run


@pytest.fixture
def student(checkpoint: Path, tmp_path: Path) -> str:
    """A checkpoint with the vocabulary of the small one and other weights."""
    new_weights = pytest.importorskip("bertkit.features.tour.quickstart").new_weights
    return str(new_weights(checkpoint, tmp_path / "student", seed=7))


WORDS = "the cat dog sees likes a small old red house tree river near under and".split()


def write_corpus(folder: Path) -> Path:
    """Twelve documents of plain text."""
    rng = random.Random(0)
    folder.mkdir()
    for number in range(12):
        sentences = [" ".join(rng.choices(WORDS, k=rng.randint(4, 9))).capitalize() + "." for _ in range(30)]
        (folder / f"{number:02}.txt").write_text("\n".join(sentences))
    return folder


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Twelve documents, and a cache of their own."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HOME", str(tmp_path / "cache"))
    return write_corpus(tmp_path / "corpus")


def write_glue(folder: Path) -> Path:
    """Verdicts that a word decides: 96 to train on, 24 to test, and an unlabelled test set."""
    rng = random.Random(1)
    (folder / "SST-2").mkdir(parents=True)

    def rows(number: int) -> list[tuple[str, int]]:
        labels = [index % 2 for index in range(number)]
        nouns = [rng.choice(["film", "story", "plot"]) for _ in labels]
        verdicts = [("awful", "lovely")[label] for label in labels]
        return [(f"the {noun} is {word}", label) for noun, word, label in zip(nouns, verdicts, labels, strict=True)]

    for name, number in (("train", 96), ("dev", 24)):
        lines = [f"{text}\t{label}" for text, label in rows(number)]
        (folder / "SST-2" / f"{name}.tsv").write_text("\n".join(["sentence\tlabel", *lines]) + "\n")
    test = [f"{index}\t{text}" for index, (text, _) in enumerate(rows(10))]
    (folder / "SST-2" / "test.tsv").write_text("\n".join(["index\tsentence", *test]) + "\n")
    return folder


@pytest.fixture
def glue(tmp_path: Path) -> Path:
    return write_glue(tmp_path / "glue")


@pytest.fixture(scope="module")
def module_patch() -> Iterator[pytest.MonkeyPatch]:
    """For runs that several tests of a module share; without reports, as those of single tests."""
    from bertkit.recipe.fields import TRAIN_DEFAULTS

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TRAIN_DEFAULTS, "report", False)
        yield patch
