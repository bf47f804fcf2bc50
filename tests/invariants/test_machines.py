"""Two machines, each with its own rendezvous and its own cache: each prepares the corpus once, the first one writes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from .conftest import NO_DROPOUT, curve

pytestmark = pytest.mark.multiprocess

RUN = "--placement cpu --recipe bert-tiny --vocab-size 90 --max-steps 3 --max-seq-length 32 --json".split()
RUN += "--global-train-batch-size 8 --set train.logging_steps=1 --set model.num_hidden_layers=1".split()
RUN += ["--set", "model.hidden_size=32", "--set", "model.intermediate_size=64", *NO_DROPOUT]


def launcher(kind: str, machine: int, port: int) -> list[str]:
    """Two machines of two processes each, or for accelerate of one."""
    if kind == "torchrun":
        words = f"torch.distributed.run --nnodes 2 --node-rank {machine} --nproc-per-node 2"
        return f"-m {words} --master-addr 127.0.0.1 --master-port {port}".split()
    words = f"accelerate.commands.launch --multi_gpu --num_machines 2 --machine_rank {machine} --num_processes 2"
    words += f" --main_process_ip 127.0.0.1 --main_process_port {port} --mixed_precision no --dynamo_backend no"
    return f"-m {words}".split()


def on_two_machines(kind: str, command: list[str], folder: Path) -> list[tuple[str, str]]:
    """Returns the output of both."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    runs = []
    for machine in (0, 1):
        settings = {"OMP_NUM_THREADS": "1", "HF_HOME": str(folder / f"home {machine}"), "HF_HUB_OFFLINE": "1"}
        words = [sys.executable, *launcher(kind, machine, port), "-m", "bertkit", *command]
        pipe = subprocess.PIPE
        runs.append(subprocess.Popen(words, env={**os.environ, **settings}, stdout=pipe, stderr=pipe, text=True))
    printed = [run.communicate(timeout=300) for run in runs]
    for run, (_, err) in zip(runs, printed, strict=True):
        assert run.returncode == 0, err
    return printed


@pytest.mark.parametrize(("kind", "streaming"), [("torchrun", False), ("torchrun", True), ("accelerate", False)])
def test_pretraining(bertkit, tmp_path, corpus, kind, streaming):
    command = ["pretrain", "--corpus", str(corpus), *RUN, *(["--streaming"] if streaming else [])]
    one = bertkit([*command, "--output-dir", tmp_path / "one"])
    assert one.returncode == 0, one.stderr
    (first, _), (second, said) = on_two_machines(kind, [*command, "--output-dir", str(tmp_path / "two")], tmp_path)
    results = json.loads(first)
    assert second == ""
    assert "placement:" not in said
    np.testing.assert_allclose(curve(tmp_path / "two"), curve(tmp_path / "one"), rtol=1e-5)
    assert results["eval_loss"] == pytest.approx(json.loads(one.stdout)["eval_loss"], rel=1e-5)
    for machine in (0, 1):  # each has prepared the text for itself
        assert any((tmp_path / f"home {machine}" / "bertkit").rglob("*.arrow"))
