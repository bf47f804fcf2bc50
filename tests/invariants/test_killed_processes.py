"""A process or a data worker of a run that is killed: one message says so, and the command that continues the run."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from .conftest import NO_REPORT

pytestmark = pytest.mark.multiprocess

RUN = "--placement cpu --global-train-batch-size 8 --set train.save_steps=4 --set train.logging_steps=1".split()
RUN += "--set train.lr_scheduler_type=constant --set train.warmup_steps=0".split() + NO_REPORT


@pytest.fixture
def started(forks: Any) -> Callable[[list[str | Path]], subprocess.Popen[str]]:
    def start(command: list[str | Path]) -> subprocess.Popen[str]:
        words, pipe = [forks.python, "-m", "bertkit", *map(str, command)], subprocess.PIPE
        return subprocess.Popen(words, env=forks.environment, stdout=pipe, stderr=pipe, text=True)

    return start


@pytest.fixture
def command(start: Path, glue_folder: Path) -> list[str | Path]:
    return ["finetune", "glue", "--task", "sst2", "--model", start, "--data-dir", glue_folder, *RUN]


def wait_for(path: Path, run: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while not path.exists():
        assert run.poll() is None, run.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_killed_process_is_reported(tmp_path, command, bertkit, started, forks):
    out = tmp_path / "out"
    run = started([*command, "--max-steps", "200", "--num-processes", "2", "--output-dir", out])
    wait_for(out / "checkpoint-8", run)
    os.kill(children(forks.process_of(run))[1], signal.SIGKILL)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 137
    assert "Traceback" not in said
    [line] = [line for line in said.splitlines() if "error" in line]
    assert "process 1 of 2 (counted from 0) was killed by SIGKILL (signal 9), probably because the machine ran" in line
    again = shlex.split(line.partition("To continue: ")[2])
    assert again[0] == "bertkit"
    assert again[-1] == "--resume"
    words = ["12" if word == "200" else word for word in again[1:]]
    done = bertkit(words)
    assert done.returncode == 0, done.stderr
    assert "resuming from" in done.stderr


@pytest.mark.parametrize("processes", [1, 2])
def test_a_killed_data_worker_is_reported(tmp_path, command, started, forks, processes):
    out = tmp_path / "out"
    more = ["--num-processes", processes, "--set", "placement.dataloader_num_workers=1", "--max-steps", "2000"]
    run = started([*command, *more, "--output-dir", out])
    wait_for(out / "checkpoint-8", run)
    process = forks.process_of(run)
    if processes == 2:
        process = int((forks.folder / str(children(process)[1])).read_text())
    deadline = time.monotonic() + 120
    while run.poll() is None and time.monotonic() < deadline:  # one that has done its work is not missed
        with suppress(OSError):
            for worker in children(process):
                os.kill(worker, signal.SIGKILL)
        time.sleep(0.2)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 2, said
    assert "Traceback" not in said
    [line] = [line for line in said.splitlines() if "error" in line]
    assert re.search(
        r"DataLoader worker \(pid\(?s?\)? ?[\d, ]+\).*with --resume continues from the last checkpoint", line
    )
    assert ("process 1: " in line) == (processes == 2)
