"""Damaged checkpoints are refused with one CheckpointError that says what is wrong; tests/hostile generates more."""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import bertkit
from bertkit.model.checkpoint.faults import reading
from bertkit.model.checkpoint.load import longest_of_tokenizer
from bertkit.runtime.errors import CheckpointError

TEXTS = ["the plot is lovely", "a good film"]


@pytest.fixture
def copied(fine_tuned: Callable[[str], Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(fine_tuned("film"), tmp_path / "copy"))


def edit(file: Path, change: Callable[[Any], Any]) -> None:
    """Applies a change to the content of a JSON file."""
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


def predict(folder: Path) -> None:
    bertkit.load(folder, device="cpu").predict(TEXTS)


def embed(folder: Path) -> None:
    bertkit.load(folder, device="cpu").embed(TEXTS)


def refusal(folder: Path, use: Callable[[Path], object] = predict) -> str:
    with pytest.raises(CheckpointError) as caught:
        use(folder)
    assert str(folder) in str(caught.value)
    return str(caught.value)


def test_a_lack_of_memory_is_no_damage(copied):
    with pytest.raises(RuntimeError, match="can't allocate memory"), reading(copied, "model"):
        torch.empty(1 << 50)


@pytest.mark.parametrize("content", ["[]", "null"])
def test_a_config_that_is_no_object(copied, content):
    (copied / "config.json").write_text(content)
    assert f"{copied}/config.json: expected a JSON object, got " in refusal(copied)


def test_a_quantized_checkpoint(copied):
    edit(copied / "config.json", lambda config: config.update(quantization_config={"quant_method": "awq", "bits": 4}))
    assert "config.json has a quantization_config" in refusal(copied)


def test_kernels_named_by_checkpoints_are_not_loaded(copied):
    edit(copied / "config.json", lambda config: config.update(attn_implementation="someone/kernel"))
    predict(copied)


@pytest.mark.parametrize("use", [predict, embed])
def test_files_that_do_not_belong_together(copied, use):
    edit(copied / "config.json", lambda config: config.update(num_hidden_layers=1))
    assert "1 layers, but the weights hold more, such as bert.encoder.layer.1." in refusal(copied, use)
    edit(copied / "config.json", lambda config: config.update(num_hidden_layers=2))
    edit(copied / "tokenizer.json", lambda content: content["model"]["vocab"].update(further=4000))
    assert "the tokenizer gives 'further' the id 4000, but the model has embeddings for" in refusal(copied, use)


def test_a_tokenizer_without_padding_or_masks(copied):
    edit(copied / "tokenizer_config.json", lambda config: config.update(pad_token=None, model_max_length=math.inf))
    assert "the tokenizer has no padding token" in refusal(copied)
    assert longest_of_tokenizer(str(copied)) == sys.maxsize
    edit(copied / "tokenizer_config.json", lambda config: config.update(model_input_names=["input_ids"]))
    assert "the tokenizer gives no attention_mask" in refusal(copied)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda task: ["glue"], "bertkit_task in config.json is"),
        (lambda task: {}, "fine-tuned for the task None"),
        (lambda task: {"kind": ["glue"]}, "fine-tuned for the task ['glue']"),
        (lambda task: {"kind": task["kind"]}, "this version of bertkit does not know (task: missing; data: missing)"),
        (lambda task: task["task"].update(label_names="bad"), "task.label_names: expected a list"),
        (lambda task: task["data"].update(max_seq_length="32"), "max_seq_length: expected an integer, got '32'"),
        (lambda task: task["task"].update(label_names=["a", "b"]), "has 3 labels, but its bertkit_task has 2"),
    ],
)
def test_a_task_that_is_none(copied, change, expected):
    """A change returns another record, or edits the one there is."""

    def change_task(config):
        changed = change(config["bertkit_task"])
        config["bertkit_task"] = config["bertkit_task"] if changed is None else changed

    edit(copied / "config.json", change_task)
    assert expected in refusal(copied)


def test_weights_of_nan_are_refused_by_every_use(copied, checkpoint, tmp_path):
    pretrained = Path(shutil.copytree(checkpoint, tmp_path / "pretrained"))
    for folder in (copied, pretrained):
        tensors = load_file(folder / "model.safetensors")
        tensors["bert.embeddings.LayerNorm.weight"].fill_(float("nan"))
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    expected = "the model computes NaN or infinite values"
    assert expected in refusal(copied)
    assert expected in refusal(copied, embed)
    assert expected in refusal(pretrained, lambda folder: bertkit.load(folder).fill_mask("a [MASK] film"))
    assert expected in refusal(copied, lambda folder: bertkit.export(folder, tmp_path / "out"))
    assert not (tmp_path / "out").exists()
