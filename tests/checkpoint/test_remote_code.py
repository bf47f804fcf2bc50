"""Code that comes with a checkpoint: never run, never asked about."""

from __future__ import annotations

import ast
import io
import json
import shutil
from pathlib import Path

import pytest

import bertkit as package
from bertkit.checkpoint.load import load_tokenizer
from bertkit.errors import CheckpointError

ROOT = Path(package.__file__).parent


@pytest.fixture
def with_code(checkpoint, tmp_path):
    """A checkpoint whose tokenizer is a class in a file of its own, which leaves a trace when it is imported."""

    def build(of_tokenizer, of_config=None):
        folder = Path(shutil.copytree(checkpoint, tmp_path / "copy"))
        (folder / "theirs.py").write_text(
            f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\n"
            "from transformers import PreTrainedTokenizerFast\n\n\n"
            "class Theirs(PreTrainedTokenizerFast):\n    pass\n"
        )
        file = folder / "tokenizer_config.json"
        stored = {**json.loads(file.read_text()), "tokenizer_class": "Theirs", "auto_map": of_tokenizer}
        file.write_text(json.dumps(stored))
        file = folder / "config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **(of_config or {})}))
        return folder

    return build


AUTO_MAPS = [
    {"AutoTokenizer": ["theirs.Theirs", None]},
    {"AutoTokenizer": [None, "theirs.Theirs"]},
    ["theirs.Theirs", "theirs.Theirs"],
    {"AutoTokenizer": ["elsewhere/code--theirs.Theirs", None]},
]


@pytest.mark.parametrize("auto_map", AUTO_MAPS)
@pytest.mark.parametrize("config", [{}, {"model_type": "theirs", "auto_map": {"AutoConfig": "theirs.Config"}}])
def test_code_of_a_tokenizer_is_refused_without_a_question(with_code, auto_map, config, tmp_path, monkeypatch):
    folder = with_code(auto_map, config)
    monkeypatch.setattr("sys.stdin", io.StringIO("y\ny\n"))
    with pytest.raises(CheckpointError, match=r"names code in the checkpoint as its tokenizer \(auto_map\)"):
        load_tokenizer(folder)
    assert not (tmp_path / "ran").exists()


def test_code_of_other_classes_does_not_concern_the_tokenizer(with_code):
    folder = with_code({"AutoProcessor": "theirs.Theirs"})
    assert load_tokenizer(folder)("film")["input_ids"]


def test_nothing_is_loaded_without_saying_that_code_is_not_trusted():
    calls = [
        (path, node)
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "from_pretrained"
    ]
    assert len(calls) >= 3
    for path, call in calls:
        trusted = {keyword.arg: keyword.value for keyword in call.keywords}.get("trust_remote_code")
        assert isinstance(trusted, ast.Constant), f"{path}, line {call.lineno}: give trust_remote_code=False"
        assert trusted.value is False
