"""The quickstart itself, as a user runs it."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time

import pytest

from bertkit.tour.quickstart import Tour, report


@pytest.mark.slow
def test_the_tour_shows_what_it_promises(tmp_path):
    environment = {"PATH": "", "HOME": str(tmp_path), "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"}
    environment["OMP_NUM_THREADS"] = "1"  # two threads wait for each other while another test uses a core
    command = [sys.executable, "-m", "bertkit", "quickstart", "--output-dir", str(tmp_path / "tour"), "--json"]
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    tour = json.loads(done.stdout)
    assert tour["seconds"] <= time.monotonic() - started
    assert "synthetic" in done.stderr
    # Chance is 0.5 for both accuracies, and calling every pair random is right for less than 0.6 of them. Whether the
    # steps suffice to get from 0.7 to 0.9 depends on the masks that are drawn.
    assert tour["pretraining"]["eval_masked_lm_loss"] < 0.5 * tour["first_masked_lm_loss"]
    assert tour["pretraining"]["eval_next_sentence_accuracy"] > 0.63
    assert tour["finetuned"] > tour["from_scratch"] + 0.1
    for row in tour["predictions"]:
        assert row["label"] in ("kind", "unkind")
    for name in ("pretrained", "finetuned", "from-scratch"):
        assert "synthetic" in (tmp_path / "tour" / name / "README.md").read_text()
    lines = report(Tour(**tour)).splitlines()
    proposed = [shlex.split(line) for line in lines if line.startswith("  bertkit ") and tour["output_dir"] in line]
    assert [words[1] for words in proposed] == ["predict", "explain"]
    for words in proposed:
        subprocess.run([sys.executable, "-m", *words], check=True, capture_output=True, env=environment)
    assert (tmp_path / "tour" / "inside.html").is_file()
