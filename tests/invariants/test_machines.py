"""Two machines, each with its own rendezvous and its own cache: each prepares the corpus once, the first one writes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from tests.training.conftest import curve

from .conftest import NO_DROPOUT, NO_REPORT

pytestmark = pytest.mark.multiprocess

RUN = "--placement cpu --recipe bert-tiny --vocab-size 90 --max-seq-length 32 --json".split()
RUN += "--global-train-batch-size 8 --set train.logging_steps=1 --set model.num_hidden_layers=1".split()
RUN += ["--set", "model.hidden_size=32", "--set", "model.intermediate_size=64", *NO_DROPOUT, *NO_REPORT]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def on_two_machines(command: list[str], folder: Path) -> list[tuple[str, str]]:
    """Returns the output of both, each with two processes."""
    words = "-m torch.distributed.run --nnodes 2 --nproc-per-node 2 --master-addr 127.0.0.1 --master-port"
    port, runs = str(free_port()), []
    for machine in (0, 1):
        settings = {"OMP_NUM_THREADS": "1", "HF_HOME": str(folder / f"home {machine}"), "HF_HUB_OFFLINE": "1"}
        program = [sys.executable, *words.split(), port, "--node-rank", str(machine), "-m", "bertkit", *command]
        pipe = subprocess.PIPE
        runs.append(subprocess.Popen(program, env={**os.environ, **settings}, stdout=pipe, stderr=pipe, text=True))
    printed = [run.communicate(timeout=300) for run in runs]
    for run, (_, err) in zip(runs, printed, strict=True):
        assert run.returncode == 0, err
    return printed


def test_pretraining(bertkit, tmp_path, corpus):
    command = ["pretrain", "--corpus", str(corpus), *RUN, "--max-steps", "3", "--streaming"]
    one = bertkit([*command, "--output-dir", tmp_path / "one"])
    assert one.returncode == 0, one.stderr
    (first, _), (second, said) = on_two_machines([*command, "--output-dir", str(tmp_path / "two")], tmp_path)
    results = json.loads(first)
    assert second == ""
    assert "placement:" not in said
    np.testing.assert_allclose(curve(tmp_path / "two"), curve(tmp_path / "one"), rtol=1e-5)
    assert results["eval_loss"] == pytest.approx(json.loads(one.stdout)["eval_loss"], rel=1e-5)
    for machine in (0, 1):  # each has prepared the text for itself
        assert any((tmp_path / f"home {machine}" / "bertkit").rglob("*.arrow"))


def test_a_lost_machine_is_replaced(bertkit, tmp_path, corpus):
    """The processes of a machine are killed; torchrun restarts the others when a new machine has joined."""
    command = ["pretrain", "--corpus", str(corpus), *RUN, "--max-steps", "40", "--set", "train.save_steps=5"]
    one = bertkit([*command, "--output-dir", tmp_path / "one"])
    assert one.returncode == 0, one.stderr

    port, out, logs = free_port(), tmp_path / "two", []
    words = f"torch.distributed.run --nnodes 2 --nproc-per-node 1 --max-restarts 3 --rdzv-id {port} "
    words += f"--rdzv-backend c10d --rdzv-endpoint 127.0.0.1:{port} "
    words += "--local-addr 127.0.0.1 --rdzv-conf keep_alive_interval=1,keep_alive_max_attempt=2"

    def machine(name: str) -> subprocess.Popen[bytes]:
        settings = {"OMP_NUM_THREADS": "1", "HF_HOME": str(tmp_path / f"home {name}"), "HF_HUB_OFFLINE": "1"}
        # With a shared store, torch 2.13 tells a machine that joins later no master address.
        settings["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
        program = [
            sys.executable,
            "-m",
            *words.split(),
            "-m",
            "bertkit",
            *command,
            "--resume",
            "--output-dir",
            str(out),
        ]
        logs.append(tmp_path / f"{name}.log")
        with logs[-1].open("wb") as log:
            return subprocess.Popen(
                program, env={**os.environ, **settings}, stdout=log, stderr=log, start_new_session=True
            )

    machines = [machine("first")]
    time.sleep(1)  # the first one holds the store of the rendezvous
    machines.append(machine("second"))
    try:
        wait_for(out / "checkpoint-10", machines)
        kill_session(machines.pop())
        time.sleep(5)  # torchrun takes a machine for lost when it has been silent for two intervals of a second
        machines.append(machine("third"))
        for each in machines:
            assert each.wait(timeout=300) == 0, [log.read_text() for log in logs]
    finally:
        for each in machines:
            kill_session(each)
    said = logs[2].read_text() + logs[0].read_text()
    assert "resuming from" in said
    np.testing.assert_allclose(curve(out), curve(tmp_path / "one"), rtol=1e-4)


def wait_for(path: Path, running: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + 200
    while not path.exists():
        assert time.monotonic() < deadline
        assert all(each.poll() is None for each in running)
        time.sleep(0.05)


def kill_session(leader: subprocess.Popen[bytes]) -> None:
    """Kills a launcher and its processes, which torchrun puts into sessions of their own."""
    try:
        family = [*psutil.Process(leader.pid).children(recursive=True), psutil.Process(leader.pid)]
    except psutil.NoSuchProcess:
        return
    for each in family:
        try:
            each.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue
    leader.wait()
