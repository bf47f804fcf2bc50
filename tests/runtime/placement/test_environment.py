"""``bertkit env`` describes the machine, without paths, user names and secrets."""

from __future__ import annotations

import getpass
import json
import platform
import socket
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import torch

import bertkit
from bertkit import environment
from bertkit.runtime.placement import environment as module


def test_it_names_versions_processor_and_devices():
    found = environment()
    assert found["torch"] == torch.__version__.partition("+")[0] or found["torch"] == torch.__version__
    assert platform.python_version() in found["python"]
    assert found["cores"] >= 1
    assert found["gpus"] == [torch.cuda.get_device_name(each) for each in range(torch.cuda.device_count())]
    assert json.loads(json.dumps(found)) == found
    assert all(not isinstance(value, dict) for value in found.values())


def test_it_names_nothing_private(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("MKL_CBWR", "/home/ada/secret")  # not a value that it has
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    found = environment()
    text = json.dumps(found)
    assert "hf_secret" not in text
    assert "/home/ada" not in text
    assert found["OMP_NUM_THREADS"] == "2"
    for private in (str(Path.home()), socket.gethostname(), str(Path(torch.__file__).parent)):
        assert private == "/" or private not in text
    if len(getpass.getuser()) > 4:
        assert getpass.getuser() not in text


def test_extras_are_named_with_what_they_lack(monkeypatch):
    described = {"Provides-Extra": ["dev", "excel", "lora", "serve"]}
    monkeypatch.setattr(module, "metadata", lambda _: SimpleNamespace(get_all=described.get))
    lines = [
        "torch>=2",
        "peft>=1; extra == 'lora'",
        "a>=1; extra == 'serve'",
        "b>=1; python_version<'3' and extra=='serve'",
        "c>=1; extra == 'dev'",
    ]
    monkeypatch.setattr(module, "requires", lambda _: lines)
    assert module.extras() == {"lora": ["peft"], "serve": ["a"]}
    monkeypatch.setattr(module, "_version", lambda package: None if package == "peft" else "1")
    shown = environment()
    assert not {"extra_dev", "extra_excel"} & set(shown)  # the second has no packages, so nothing that it can lack
    assert shown["extra_lora"] == "without peft"
    assert shown["extra_serve"] == "installed"


def test_a_source_tree_that_is_not_installed_has_no_extras(monkeypatch):
    def of(package):
        if package == "bertkit":
            raise PackageNotFoundError(package)
        return "1.0"

    monkeypatch.setattr(module, "version", of)
    facts = environment()
    assert facts["bertkit"] == bertkit.__version__
    assert not [name for name in facts if name.startswith("extra_")]
