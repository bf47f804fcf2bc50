"""The campaign on a GPU: order and failures of its steps, with a stand-in for python."""

from __future__ import annotations

import importlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import WORDS

SCRIPT = Path(__file__).parents[2] / "scripts" / "gpu_campaign.sh"
STEPS = ["environment", "plain", "joined", "compiled", "tests"]
TRAINED = ["pretrain.128", "sst2.6x384", "scores"]
STAND_IN = """#!/usr/bin/env bash
echo "$@" >> "$CALLS"
echo 'some words'
[[ "$*" != *"$FAILS"* ]]
"""


def load_benchmark(name: str) -> Any:
    sys.path.insert(0, str(SCRIPT.parents[1] / "benchmarks"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


def campaign(folder: Path, *arguments: str, fails: str = "none") -> tuple[subprocess.CompletedProcess[str], Path]:
    """Runs the script with data of no content; commands with the text ``fails`` exit with 1."""
    for name in ("glue/SST-2", "text/books", "checkpoint", "bin"):
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
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [f"gpu.py {name} " in call for name, call in zip(STEPS, calls, strict=True)] == [
        False,
        True,
        True,
        True,
        False,
    ]
    assert ["--small" in call for call in calls] == [False, *[device == "cpu"] * 3, False]


def test_failed_step_is_reported(tmp_path: Path):
    process, out = campaign(tmp_path, "cuda", fails="-m pytest")
    assert process.returncode == 1
    assert "failed: tests;" in process.stdout
    assert len((tmp_path / "calls").read_text().splitlines()) == len(STEPS)
    assert "some words" in (out / "tests.log").read_text()


def test_named_steps_run_alone(tmp_path: Path):
    process, out = campaign(tmp_path, "cuda", "plain", "environment")
    assert process.returncode == 0
    assert sorted(path.name for path in out.glob("*.log")) == ["environment.log", "plain.log"]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["plain", "compiled"])
def test_every_row_is_measured(tmp_path: Path, checkpoint: Path, way: str):
    """At small sizes, on a CPU, compiled without the compiler of C++."""
    draw = random.Random(0)
    rows = [f"{' '.join(draw.choices(WORDS, k=draw.randint(2, 12)))}\t{number % 2}" for number in range(80)]
    for name in ("train", "dev"):
        file = tmp_path / "glue" / "SST-2" / f"{name}.tsv"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(["sentence\tlabel", *rows]))
    (file.parent / "test.tsv").write_text("\n".join(["index\tsentence", *(f"{n}\ta film" for n in range(8))]))
    books = tmp_path / "text" / "books"
    books.mkdir(parents=True)
    for name in "abc":
        sentences = (f"{' '.join(draw.choices(WORDS, k=9)).capitalize()}." for _ in range(400))
        (books / f"{name}.txt").write_text("\n\n".join(sentences))
    output = tmp_path / "GPU.json"
    command = [sys.executable, str(SCRIPT.parents[1] / "benchmarks" / "gpu.py"), way, "--small", "--rounds", "1"]
    command += ["--data", str(tmp_path), "--model", str(checkpoint), "--output", str(output), "--seconds", "3600"]
    process = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "HF_HOME": str(tmp_path)})
    assert process.returncode == 0, process.stderr
    found = json.loads(output.read_text())
    assert list(found["rows"]) == [*TRAINED, *(["predict", "embed"] if way == "plain" else [])]
    render = load_benchmark("render")
    assert "Not measured" not in "\n".join(render.gpu({"gpu": found}))


@pytest.mark.parametrize("arguments", [("cuda", "nothing"), ("tpu",)])
def test_unknown_words_are_refused(tmp_path: Path, arguments: tuple[str, ...]):
    process, out = campaign(tmp_path, *arguments)
    assert process.returncode == 2
    assert process.stderr
    assert not out.exists()
