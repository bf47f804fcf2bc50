"""The launchers: each starts the same run; what goes wrong is said once, and nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from tests.training.conftest import curve

from .conftest import NO_REPORT, TORCHRUN

pytestmark = pytest.mark.multiprocess

# With --multi_gpu accelerate starts the processes as torchrun does.
ACCELERATE = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1"]
ACCELERATE += ["--mixed_precision", "no", "--dynamo_backend", "no"]
RUN = ["--global-train-batch-size", "8", "--max-steps", "2", "--set", "train.logging_steps=1", "--json", *NO_REPORT]


def test_every_launcher_gives_the_same_run(bertkit, tmp_path, start, ner_files):
    command = ["finetune", "ner", "--model", start, *RUN]
    command += [part for split, file in ner_files.items() for part in (f"--{split}-file", file)]
    on_cpu = ["--set", "placement.device=cpu", "--set", "placement.mixed_precision=no"]
    ways = {
        "bertkit": ([], ["--placement", "ddp", "--num-processes", "2", *on_cpu]),
        "torchrun": (TORCHRUN, ["--placement", "cpu"]),
        "accelerate": (ACCELERATE, ["--placement", "cpu"]),
    }
    for way, (launcher, placement) in ways.items():
        done = bertkit([*command, *placement, "--output-dir", tmp_path / way], launcher)
        assert done.returncode == 0, done.stderr
        metrics = json.loads(done.stdout)
        facts = json.loads((tmp_path / way / "run.json").read_text())["placement"]
        assert (facts["num_processes"], facts["strategy"], facts["device"]) == (2, "ddp", "cpu")
        [line] = [line for line in done.stderr.splitlines() if line.startswith("placement:")]
        assert "2 processes (ddp), float32, attention sdpa" in line
        np.testing.assert_allclose(curve(tmp_path / way), curve(tmp_path / "bertkit"), rtol=1e-5)
        assert metrics["eval_overall_f1"] >= 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--data-dir", "missing"], "missing"),  # found by all processes
        (["--global-train-batch-size", "9"], "9 sequences cannot be divided evenly among 2 processes"),
        (["--set", "train.learning_rat=1"], "train.learning_rat"),  # found before any is started
    ],
)
def test_wrong_input_is_said_once(bertkit, tmp_path, start, wrong, message):
    command = ["finetune", "glue", "--task", "sst2", "--model", start, "--placement", "cpu", "--num-processes", "2"]
    done = bertkit([*command, *wrong, "--output-dir", tmp_path / "out"])
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("bertkit: error:") == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_processes(forks, tmp_path, corpus, number):
    out = tmp_path / "out"
    command = [forks.python, "-m", "bertkit", "pretrain", "--recipe", "bert-tiny", "--corpus", str(corpus)]
    command += "--vocab-size 90 --max-seq-length 32 --max-steps 100000 --placement cpu --num-processes 2".split()
    with subprocess.Popen(
        [*command, "--output-dir", str(out), "--set", "train.logging_steps=1"],
        env=forks.environment,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as run:
        assert run.stderr is not None
        for line in run.stderr:
            if "step 2/" in line:
                break
        assert len(commands_with(out)) == 3  # the launcher and two processes
        if number == signal.SIGINT:
            os.killpg(run.pid, number)  # as a terminal does
        else:
            run.send_signal(number)
        rest = run.stderr.read()
    assert run.returncode == 128 + number
    assert "Traceback" not in rest
    deadline = time.monotonic() + 30
    while commands_with(out) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not commands_with(out)


def commands_with(argument: Path) -> list[str]:
    """The processes that have an argument."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if str(argument) in words:
            found.append(process.name)
    return found
