"""The campaign on a GPU: order and failures of its steps, with a stand-in for python."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "gpu_campaign.sh"
STEPS = ["environment", "tests", "pretraining", "sst2_speed", "sst2", "squad"]
STAND_IN = """#!/usr/bin/env bash
echo "$@" >> "$CALLS"
echo 'some words'; echo '{"rate": 0.5}'
[[ "$*" != *"$FAILS"* ]]
"""


def campaign(folder: Path, *arguments: str, fails: str = "none") -> tuple[subprocess.CompletedProcess[str], Path]:
    """Runs the script with data of no content; commands with the text ``fails`` exit with 1."""
    for name in ("glue/SST-2", "squad", "text/books", "checkpoint", "bin"):
        (folder / name).mkdir(parents=True)
    python = folder / "bin" / "python"
    python.write_text(STAND_IN)
    python.chmod(0o755)
    environment = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}", "FAILS": fails}
    environment["CALLS"] = str(folder / "calls")
    command = ["bash", str(SCRIPT), str(folder), str(folder / "checkpoint"), str(folder / "out"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment), folder / "out"


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_all_steps_run_in_order(tmp_path: Path, device: str):
    process, out = campaign(tmp_path, device)
    assert process.returncode == 0, process.stderr
    assert [line.partition(":")[0] for line in (out / "steps.txt").read_text().splitlines()] == STEPS
    assert (out / "table.pretraining.jsonl").read_text() == '{"rate": 0.5}\n'
    assert (out / "table.sst2_speed.jsonl").read_text() == '{"rate": 0.5}\n'
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [f"--device {device}" in call for call in calls] == [False, False, True, True, False, False]


def test_failed_step_is_reported(tmp_path: Path):
    process, out = campaign(tmp_path, "cuda", fails="-m pytest")
    assert process.returncode == 1
    assert "failed: tests;" in process.stdout
    assert len((tmp_path / "calls").read_text().splitlines()) == len(STEPS)
    assert "some words" in (out / "tests.log").read_text()


def test_named_steps_run_alone(tmp_path: Path):
    process, out = campaign(tmp_path, "cuda", "pretraining", "environment")
    assert process.returncode == 0
    assert sorted(path.name for path in out.glob("*.log")) == ["environment.log", "pretraining.log"]


@pytest.mark.parametrize("arguments", [("cuda", "nothing"), ("tpu",)])
def test_unknown_words_are_refused(tmp_path: Path, arguments: tuple[str, ...]):
    process, out = campaign(tmp_path, *arguments)
    assert process.returncode == 2
    assert process.stderr
    assert not out.exists()
