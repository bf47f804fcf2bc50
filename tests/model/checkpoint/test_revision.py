"""Checkpoints of a given revision of the Hub."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from bertkit.model.checkpoint.remote import at_revision
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


def test_without_a_revision_the_name_is_kept(tmp_path):
    assert at_revision(tmp_path, None) == str(tmp_path)


def test_a_folder_has_no_revisions(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(CheckpointError, match="a folder has no revisions; remove --revision v1"):
        at_revision(tmp_path, "v1")


def test_the_commands_take_it(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    rest = {
        "predict": ["a"],
        "evaluate": [],
        "embed": ["a", "--output", "v.npz"],
        "fill-mask": ["[MASK]"],
        "export": ["out"],
    }
    for command, arguments in rest.items():
        done = subprocess.run(
            [sys.executable, "-m", "bertkit", command, str(tmp_path), *arguments, "--revision", "v1"],
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
        assert done.returncode == 2
        assert "a folder has no revisions; remove --revision v1" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]
