"""The quickstart with fewer steps; ``scripts/check_wheel.sh`` runs the whole one and checks its scores."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from functools import partial

import pytest

from bertkit.features.tour.quickstart import Tour, quickstart, report
from bertkit.training.runs.pretrain import pretrain


@pytest.mark.slow
def test_the_tour_writes_and_proposes_what_works(tmp_path, monkeypatch, capsys, forks):
    monkeypatch.setattr("bertkit.features.tour.quickstart._DOCUMENTS", 200)
    short = {"train.max_steps": 20, "train.logging_steps": 5}
    monkeypatch.setattr("bertkit.training.runs.pretrain.pretrain", partial(pretrain, overrides=short))
    started = time.monotonic()
    folder = tmp_path / "my tour"
    tour = json.loads(report(quickstart(folder), as_json=True))
    assert tour["seconds"] <= time.monotonic() - started
    assert "synthetic" in capsys.readouterr().err
    assert tour["pretraining"]["eval_masked_lm_loss"] < tour["first_masked_lm_loss"]
    for row in tour["predictions"]:
        assert row["label"] in ("kind", "unkind")
    for name in ("pretrained", "finetuned", "from-scratch"):
        assert "synthetic" in (folder / name / "README.md").read_text()
    lines = report(Tour(**{**tour, "output_dir": folder})).splitlines()
    proposed = [shlex.split(line) for line in lines if line.startswith("  bertkit ") and tour["output_dir"] in line]
    assert [words[1] for words in proposed] == ["predict", "explain"]
    for _, *words in proposed:
        subprocess.run([forks.folder / "bertkit", *words], check=True, capture_output=True, env=forks.environment)
    assert (folder / "inside.html").is_file()
