"""Ensembles are refused where one network is needed."""

from __future__ import annotations

import json

import pytest

import bertkit
from bertkit.errors import CheckpointError


def test_an_ensemble_is_neither_exported_nor_pushed(tmp_path):
    folder = tmp_path / "ensemble"
    folder.mkdir()
    (folder / "ensemble.json").write_text(json.dumps({"members": ["members/01", "members/02"]}))
    message = "an ensemble, whose 2 networks have no common form .* give a single run, such as the folder best/"
    with pytest.raises(CheckpointError, match=message):
        bertkit.export(folder, tmp_path / "out")
    with pytest.raises(CheckpointError, match=message):
        bertkit.push(folder, "ada/film")
    assert not (tmp_path / "out").exists()
