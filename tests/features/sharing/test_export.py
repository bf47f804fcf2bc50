"""The stock form: what plain transformers computes from it, in a process that cannot import bertkit."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bertkit
from bertkit.features.sharing import export as export_module
from bertkit.model.checkpoint.encoders import head_class
from bertkit.model.checkpoint.load import load_config, load_model, load_tokenizer
from bertkit.model.modeling_bert import AUTO_CLASSES
from bertkit.runtime.errors import BertkitError, CheckpointError, OutputError, RecipeError

from .conftest import WITHOUT_BERTKIT

HEADS = {model.__name__: auto for auto, model in AUTO_CLASSES.items()}
TEXT = "the plot is lovely, the story awful"

# Loads every export as a stranger would, and prints what it computes.
STRANGER = (
    WITHOUT_BERTKIT
    + """
import torch, transformers
from transformers import AutoTokenizer, pipeline

folder, heads, text = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
found = {}
for head, auto_class in heads.items():
    model = getattr(transformers, auto_class).from_pretrained(f"{folder}/{head}").eval()
    assert type(model).__module__ == "transformers.models.bert.modeling_bert", type(model)
    inputs = AutoTokenizer.from_pretrained(f"{folder}/{head}")([text, "a film"], padding=True, return_tensors="pt")
    if head == "BertForMultipleChoice":
        inputs = {name: values.unsqueeze(0) for name, values in inputs.items()}
    with torch.no_grad():
        found[head] = [values.tolist() for values in model(**inputs).values()]
found["pipeline"] = pipeline("text-classification", f"{folder}/BertForSequenceClassification")(text)
print(json.dumps(found, default=float))
"""
)


@pytest.fixture(scope="module")
def checkpoints(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a checkpoint of every head, of weights so large that outputs differ from text to text."""
    folder = tmp_path_factory.mktemp("heads")
    tokenizer = load_tokenizer(checkpoint)
    for number, head in enumerate(HEADS):
        torch.manual_seed(number)
        config = load_config(str(checkpoint), {"initializer_range": 0.3})
        if head == "BertForSequenceClassification":
            config.id2label = {0: "bad", 1: "good", 2: "neither"}
            config.label2id = {name: index for index, name in config.id2label.items()}
        getattr(bertkit, head)(config).save_pretrained(folder / head)
        tokenizer.save_pretrained(folder / head)
    return folder


@pytest.fixture(scope="module")
def exported(checkpoints: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    for head in HEADS:
        result = bertkit.export(checkpoints / head, folder / head)
        assert (result.model_class, result.form, result.notes) == (head, "bert", ())
        assert result.comparison.lengths[1] == 64
    return folder


@pytest.fixture(scope="module")
def stranger(exported: Path) -> dict[str, Any]:
    """Returns the outputs of the exports in a process without bertkit."""
    command = [sys.executable, "-W", "error", "-c", STRANGER, str(exported), json.dumps(HEADS), TEXT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def ours(checkpoints: Path, head: str, *texts: str) -> list[torch.Tensor]:
    model = getattr(bertkit, head).from_pretrained(checkpoints / head).eval()
    inputs = dict(load_tokenizer(checkpoints / head)(list(texts), padding=True, return_tensors="pt"))
    if head == "BertForMultipleChoice":
        inputs = {name: values.unsqueeze(0) for name, values in inputs.items()}
    with torch.no_grad():
        return list(model(**inputs).values())


@pytest.mark.slow
@pytest.mark.parametrize("head", HEADS)
def test_a_process_without_bertkit_computes_the_same(head, checkpoints, stranger):
    mine = ours(checkpoints, head, TEXT, "a film")
    assert len(mine) == len(stranger[head])
    for one, other in zip(mine, stranger[head], strict=True):
        assert one.abs().max() > 0.1
        torch.testing.assert_close(one, torch.tensor(other), rtol=0, atol=1e-5)


@pytest.mark.slow
def test_the_text_classification_pipeline_names_the_label(checkpoints, stranger):
    (probabilities,) = ours(checkpoints, "BertForSequenceClassification", TEXT)[0].softmax(-1).tolist()
    (found,) = stranger["pipeline"]
    assert found["label"] == ["bad", "good", "neither"][int(np.argmax(probabilities))]
    assert found["score"] == pytest.approx(max(probabilities), abs=1e-5)


def test_nothing_of_ours_is_left_but_the_task(checkpoints, tmp_path):
    folder = shutil.copytree(checkpoints / "BertForSequenceClassification", tmp_path / "run")
    settings = {"text_columns": ["text"], "label_column": "label", "label_names": ["bad", "good", "neither"]}
    task = {"kind": "classification", "task": settings, "data": {"max_seq_length": 32, "long_text": "chunk"}}
    config = {**json.loads((folder / "config.json").read_text()), "bertkit_task": task}
    (folder / "config.json").write_text(json.dumps(config))
    result = bertkit.export(folder, tmp_path / "out")
    names = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert {path.name for path in result.folder.iterdir()} == names
    written = json.loads((result.folder / "config.json").read_text())
    assert written["model_type"] == "bert"
    assert "auto_map" not in written
    assert written["id2label"] == {"0": "bad", "1": "good", "2": "neither"}
    assert written["bertkit_task"] == task
    assert "one window" in result.notes[0], "plain transformers does not pool the windows of long texts"


def test_untied_output_weights_stay_untied(checkpoint, tmp_path):
    config = load_config(str(checkpoint), {"tie_word_embeddings": False, "initializer_range": 0.3})
    model = bertkit.BertForMaskedLM(config)
    model.save_pretrained(tmp_path / "run")
    load_tokenizer(checkpoint).save_pretrained(tmp_path / "run")
    bertkit.export(tmp_path / "run", tmp_path / "out")
    again, _ = load_model("BertForMaskedLM", str(tmp_path / "out"), load_config(str(tmp_path / "out")), new_head=False)
    assert torch.equal(again.get_output_embeddings().weight, model.get_output_embeddings().weight)
    assert not torch.equal(again.get_output_embeddings().weight, again.get_input_embeddings().weight)


def test_every_family_of_encoders_keeps_its_form(encoder, checkpoint, tmp_path):
    tokenizer = load_tokenizer(checkpoint)
    encoder.vocab_size, encoder.num_labels = len(tokenizer), 3
    head_class("BertForSequenceClassification", encoder, "here")(encoder).save_pretrained(tmp_path / "run")
    tokenizer.save_pretrained(tmp_path / "run")
    result = bertkit.export(tmp_path / "run", tmp_path / "out")
    family = "bert" if encoder.model_type == "bertkit" else encoder.model_type
    assert json.loads((tmp_path / "out" / "config.json").read_text())["model_type"] == family
    assert result.comparison.difference <= 1e-5


def test_a_difference_is_an_error_and_leaves_nothing(checkpoints, tmp_path, monkeypatch):
    from transformers.models.bert import modeling_bert as stock

    monkeypatch.setattr(stock.BertPooler, "forward", lambda self, hidden: hidden[:, 0])
    with pytest.raises(CheckpointError, match=r"not equivalent: its outputs differ by .* nothing has been written"):
        bertkit.export(checkpoints / "BertForSequenceClassification", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_use_is_refused_first(tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    monkeypatch.setattr(export_module, "load_config", lambda *_, **__: pytest.fail("it was loaded"))
    with pytest.raises(OutputError, match="already exists"):
        bertkit.export("anything", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_unknown_architecture_is_refused(checkpoint, tmp_path):
    folder = shutil.copytree(checkpoint, tmp_path / "run")
    config = {**json.loads((folder / "config.json").read_text()), "architectures": ["BertLMHeadModel"]}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=r"the architecture in config\.json is BertLMHeadModel; expected"):
        bertkit.export(folder, tmp_path / "out")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"to": "gguf"}, "--to gguf: expected bert, onnx or sentence-transformers"),
        ({"pooling": "cls"}, "--pooling needs --to sentence-transformers"),
        ({"to": "onnx", "normalize": True}, "--normalize needs --to sentence-transformers"),
        ({"to": "sentence-transformers", "int8": True}, "--int8 needs --to onnx"),
        ({"to": "onnx", "validation_file": "x.csv"}, "--validation-file is for the scores of --int8"),
    ],
)
def test_options_of_other_forms_are_refused(checkpoint, tmp_path, given, message):
    with pytest.raises(RecipeError, match=message):
        bertkit.export(checkpoint, tmp_path / "out", **given)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("to", "module"), [("onnx", "onnxruntime"), ("sentence-transformers", "sentence_transformers")]
)
def test_a_missing_extra_is_named(checkpoint, tmp_path, monkeypatch, to, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(BertkitError, match=rf"--to {to} needs the extra {to}: pip install 'bertkit\[{to}\]'"):
        bertkit.export(checkpoint, tmp_path / "out", to=to)
    assert list(tmp_path.iterdir()) == []
