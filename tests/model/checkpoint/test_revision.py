"""Checkpoints of a given revision of the Hub."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from bertkit.cli.app import app
from bertkit.runtime.errors import CheckpointError

PROGRAM = """
import json, sys
import bertkit
from bertkit.runtime.errors import BertkitError
for revision in json.loads(sys.argv[1]):
    try:
        print(json.dumps(bertkit.load("ada/film", revision=revision).predict("a film")[0]["label"]))
    except BertkitError as error:
        print(json.dumps(str(error)))
"""


def test_everything_is_read_from_the_revision(stock_models, hub_models, with_hub, tmp_path):
    branches = {}
    for branch, labels in (("main", ["old", "old2"]), ("v1", ["new", "new2"])):
        folder = stock_models.stock_checkpoint(tmp_path / branch, "bert", "AutoModelForSequenceClassification", labels)
        branches[branch] = {path.name: path.read_bytes() for path in folder.iterdir()}
    with hub_models.ModelHub() as hub:
        hub.repositories["ada/film"] = hub_models.Repository(branches=branches)
        main, v1, missing = with_hub(hub.endpoint, PROGRAM, ["main", "v1", "v9"])
    assert main in ("old", "old2")
    assert v1 in ("new", "new2")
    assert missing.startswith("ada/film at revision v9: ")


@pytest.mark.parametrize(
    "command", ["predict a", "evaluate", "embed a --output v.npz", "fill-mask [MASK]", "export out"]
)
def test_the_commands_take_it(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    name, *rest = command.split()
    refused = CliRunner().invoke(app, [name, str(tmp_path), *rest, "--revision", "v1"])
    assert isinstance(refused.exception, CheckpointError)
    assert "a folder has no revisions; remove --revision v1" in str(refused.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]
