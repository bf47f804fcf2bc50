"""Checkpoints that cannot be trusted, through the real command: exit code 2, one message, nothing written."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file


@pytest.fixture
def classifier(fine_tuned) -> Path:
    """A classifier of fifteen labels."""
    return fine_tuned("intents")


def refuse(word):
    raise AssertionError(f"{word} is not JSON")


def test_piped_texts_do_not_answer_questions(bertkit, checkpoint, tmp_path, monkeypatch):
    folder = Path(shutil.copytree(checkpoint, tmp_path / "copy"))
    (folder / "theirs.py").write_text(f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\n")
    file = folder / "tokenizer_config.json"
    auto_map = {"auto_map": {"AutoTokenizer": ["theirs.Theirs", None]}, "tokenizer_class": "Theirs"}
    file.write_text(json.dumps({**json.loads(file.read_text()), **auto_map}))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"y\ny\n")))
    outcome = bertkit("embed", folder, "--input", "-", "--output", tmp_path / "out.jsonl")
    outcome.refuses("bertkit does not run code of tokenizers")
    assert "[y/N]" not in outcome.err
    assert not (tmp_path / "ran").exists()
    assert not list(tmp_path.glob("out*"))


def test_weights_of_nan_give_no_prediction(bertkit, classifier, tmp_path):
    folder = Path(shutil.copytree(classifier, tmp_path / "copy"))
    tensors = load_file(folder / "model.safetensors")
    tensors["classifier.bias"][3] = float("nan")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (tmp_path / "data.csv").write_text("text,label\ngood,i1\nbad,i2\n")
    for command in (
        ("predict", folder, "a film"),
        ("predict", folder, "a film", "--json"),
        ("predict", folder, "a film", "--output", tmp_path / "out.jsonl"),
        ("evaluate", folder, "--validation-file", tmp_path / "data.csv", "--json"),
    ):
        bertkit(*command).refuses(f"{folder}: the model computes NaN or infinite values")
    assert not list(tmp_path.glob("out*"))


def test_an_undefined_metric_is_null(bertkit, fine_tuned, tmp_path):
    """The correlation with constant labels is 0/0."""
    (tmp_path / "data.csv").write_text("one,two,score\na,good,1\na,bad,1\n")
    outcome = bertkit("evaluate", fine_tuned("pairs"), "--validation-file", tmp_path / "data.csv", "--json")
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out, parse_constant=refuse)["metrics"]["eval_pearson"] is None
