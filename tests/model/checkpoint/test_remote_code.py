"""Code of checkpoints: run only where it is asked for, from one revision, which is said."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CONFIGURATION = """
import pathlib
from transformers import BertConfig
(pathlib.Path.home() / "ran").touch()


class TheirConfig(BertConfig):
    model_type = "theirs"
"""
MODEL = """
import torch
from transformers import BertForSequenceClassification
from .configuration_theirs import TheirConfig


class TheirModelForSequenceClassification(BertForSequenceClassification):
    config_class = TheirConfig

    def forward(self, input_ids=None, attention_mask=None, **kwargs):
        outputs = super().forward(input_ids, attention_mask, **kwargs)
        outputs.logits = torch.zeros_like(outputs.logits) + torch.tensor([0.0, 9.0])  # as no other network does
        return outputs
"""
# Prints for each name and value of ``trust_remote_code`` the label, or the message of the error, and what else is said.
PROGRAM = """
import contextlib, io, json, sys
import bertkit
from bertkit.runtime.errors import BertkitError
for name, trust in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            found = bertkit.load(f"ada/{name}", trust_remote_code=trust).predict("a film")[0]["label"]
        except BertkitError as error:
            found = str(error)
    print(json.dumps([found, said.getvalue()]))
"""


@pytest.fixture
def with_code(stock_models, tmp_path) -> Path:
    """A classifier of a type of its own, with its code."""
    names = ["bad", "good"]
    folder = stock_models.stock_checkpoint(tmp_path / "theirs", "bert", "AutoModelForSequenceClassification", names)
    add_code(folder, "AutoModelForSequenceClassification", "modeling_theirs.TheirModelForSequenceClassification")
    return folder


def add_code(folder: Path, auto_class: str, reference: str, family: str = "theirs") -> None:
    (folder / "configuration_theirs.py").write_text(CONFIGURATION)
    (folder / "modeling_theirs.py").write_text(MODEL)
    config = json.loads((folder / "config.json").read_text())
    code = {"AutoConfig": "configuration_theirs.TheirConfig", auto_class: reference}
    config |= {"model_type": family, "architectures": [reference.rpartition(".")[2]], "auto_map": code}
    (folder / "config.json").write_text(json.dumps(config))


@pytest.fixture
def run(forks: Any, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """``run(arguments)``: the command in a fork, for which the folder ``home`` is that of the user."""
    (tmp_path / "home").mkdir()

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        environment = {**forks.environment, "HOME": str(tmp_path / "home")}
        command = [forks.folder / "bertkit", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, env=environment)

    return run


def test_code_runs_only_on_request(run, with_code, tmp_path):
    home = tmp_path / "home"
    refused = run("predict", with_code, "a film")
    assert refused.returncode == 2
    assert "--trust-remote-code" in refused.stderr
    assert not (home / "ran").exists()
    done = run("predict", with_code, "a film", "--trust-remote-code", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["predictions"][0]["label"] == "good"
    assert f"{with_code}: running code, configuration_theirs.py of the folder {with_code}\n" in done.stderr
    assert "modeling_theirs.py of the folder" in done.stderr
    assert (home / "ran").exists()


@pytest.mark.slow
def test_the_other_commands_run_it_too(run, with_code, tmp_path):
    rest = ("--trust-remote-code",)
    (tmp_path / "validation.csv").write_text("sentence,label\na film,good\na plot,bad\n")
    data = ("--validation-file", tmp_path / "validation.csv", "--text-column", "sentence")
    scored = run("evaluate", with_code, *data, *rest, "--json")
    assert scored.returncode == 0, scored.stderr
    assert json.loads(scored.stdout)["metrics"]["eval_accuracy"] == 0.5
    exported = run("export", with_code, tmp_path / "stock", *rest)
    assert exported.returncode == 2
    assert "export it with --to onnx" in exported.stderr
    assert not (tmp_path / "stock").exists()
    filled = run("fill-mask", with_code, "a [MASK]", *rest)
    assert filled.returncode == 2
    assert "(TheirModelForSequenceClassification) and has no masked-LM head" in filled.stderr


@pytest.mark.slow
def test_the_server_runs_it_too(run, with_code, tmp_path):
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    pytest.importorskip("prometheus_client")
    refused = run("serve", with_code, "--port", "0")
    assert refused.returncode == 2
    assert "--trust-remote-code" in refused.stderr
    command = [sys.executable, "-m", "bertkit", "serve", str(with_code), "--port", "0", "--trust-remote-code"]
    environment = {**os.environ, "HOME": str(tmp_path / "home"), "HF_MODULES_CACHE": str(tmp_path / "modules")}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as server:
        try:
            said = ""
            while "http://" not in said and (line := server.stderr.readline()):
                said += line
            request = urllib.request.Request(re.search(r"http://\S+:\d+", said)[0], b'{"inputs": "a film"}')
            request.add_header("Content-Type", "application/json")
            with urllib.request.urlopen(request) as answer:
                assert {each["label"] for each in json.load(answer)[0]} == {"good", "bad"}
        finally:
            server.terminate()


@pytest.mark.parametrize(
    ("family", "code", "said"),
    [
        ("theirs", "class TheirConfig: model_type = 'others'", "its code defines 'others'"),
        ("theirs", "import no_such_package_at_all", "no_such_package_at_all"),
        ("theirs", "raise ValueError('theirs is broken')", "theirs is broken"),
        ("roberta", CONFIGURATION, "its code redefines the type 'roberta'"),
    ],
)
@pytest.mark.slow
def test_code_that_cannot_be_run_is_one_message(run, with_code, family, code, said):
    reference = "modeling_theirs.TheirModelForSequenceClassification"
    add_code(with_code, "AutoModelForSequenceClassification", reference, family)
    (with_code / "configuration_theirs.py").write_text(code)
    done = run("predict", with_code, "a film", "--trust-remote-code")
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_checkpoint_without_code_says_so(run, stock_models, tmp_path):
    folder = stock_models.stock_checkpoint(tmp_path / "bert", "bert", "AutoModelForSequenceClassification")
    done = run("predict", folder, "a film", "--trust-remote-code")
    assert done.returncode == 0
    assert f"{folder} needs no code of its own; --trust-remote-code changes nothing" in done.stderr


def test_code_of_the_hub_runs_on_request_with_its_revision_said(with_code, hub_models, with_hub):
    """Code that fails fails alike the second time, as in a notebook in which a missing package is installed between."""
    files = {path.name: path.read_bytes() for path in with_code.iterdir()}
    broken = files | {"modeling_theirs.py": b"import no_such_package_at_all"}
    calls = [("film", False), ("broken", True), ("broken", True), ("film", True)]
    with hub_models.ModelHub() as hub:
        for name, content in (("film", files), ("broken", broken)):
            hub.repositories[f"ada/{name}"] = hub_models.Repository(branches={"main": content})
        [refused, _], [first, _], [second, _], [label, said] = with_hub(hub.endpoint, PROGRAM, calls)
    assert "--trust-remote-code" in refused
    assert "no_such_package_at_all" in first
    assert second == first
    assert label == "good"
    assert re.search(r"ada/film: running code, configuration_theirs\.py of ada/film at revision \w+\n", said)
