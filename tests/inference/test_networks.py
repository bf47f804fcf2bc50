"""Ensembles are refused where one network is needed."""

from __future__ import annotations

import json

import pytest

import bertkit
from bertkit.runtime.errors import CheckpointError
from tests.fine_tuned import fine_tuned


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


@pytest.mark.parametrize("file", ["ensemble.json", "model.onnx"])
def test_what_has_no_encoder_of_its_own_has_no_vectors(checkpoint, tmp_path, file):
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((checkpoint / name).read_bytes())
    (tmp_path / file).write_text("{}")
    with pytest.raises(CheckpointError, match="an ONNX model or an ensemble, which computes no vectors"):
        bertkit.load(tmp_path).embed("a film")


def test_members_of_one_kind_predict_choices_of_any_number(checkpoint, tmp_path):
    member = fine_tuned("choices", checkpoint, tmp_path / "ensemble" / "one")
    (tmp_path / "ensemble" / "ensemble.json").write_text(json.dumps({"members": ["one"] * 3}))
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "ensemble" / name).write_bytes((member / name).read_bytes())
    lines = ["the film\tis good\tis bad", "the plot\tis good\tis bad\tis awful"]
    of_members, of_one = (bertkit.load(place).predict(lines) for place in (tmp_path / "ensemble", member))
    for own, expected in zip(of_members, of_one, strict=True):
        assert own["probabilities"] == pytest.approx(expected["probabilities"])
