"""``train.label_smoothing_factor``: changes the loss of one class per row or word; other tasks refuse it."""

from __future__ import annotations

import json

import pytest

from bertkit.runtime.errors import RecipeError
from bertkit.training.runs.pretrain import pretrain
from tests.devices.conftest import finetune
from tests.training.conftest import SMALL, STRAIGHT, TINY


@pytest.fixture
def train(checkpoint, tmp_path):
    """Fine-tunes for a few steps on a task, into a folder with the name of the factor; returns their mean loss."""

    def run(kind: str, factor: float) -> float:
        values = {**SMALL, **STRAIGHT, "train.max_steps": 6, "train.label_smoothing_factor": factor}
        if kind == "multi-label":
            values |= {"train.head": "random", "train.contrast_steps": 0}
        out = finetune(kind, tmp_path, checkpoint, values, name=str(factor))
        return json.loads((out / "train_results.json").read_text())["train_loss"]

    return run


@pytest.mark.parametrize("kind", ["classification", "ner", "multiple-choice"])
def test_labels_are_smoothed(train, kind):
    assert train(kind, 0.5) != pytest.approx(train(kind, 0.0), rel=1e-6)


@pytest.mark.parametrize("kind", ["regression", "multi-label", "squad"])
def test_other_labels_are_refused_before_the_run(train, tmp_path, kind):
    with pytest.raises(RecipeError, match=r"train\.label_smoothing_factor: is for one class per row or word"):
        train(kind, 0.5)
    assert not (tmp_path / "0.5").exists()
    assert train(kind, 0.0) > 0


def test_pretraining_is_refused_before_the_run(corpus, tmp_path):
    values = {**TINY, "train.label_smoothing_factor": 0.1}
    with pytest.raises(RecipeError, match=r"train\.label_smoothing_factor: is for fine-tuning"):
        pretrain("bert-tiny", corpus=[corpus], output_dir=tmp_path / "run", overrides=values)
    assert not (tmp_path / "run").exists()
