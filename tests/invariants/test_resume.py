"""The files of a checkpoint do not depend on the placement: any other one continues from it, to the same weights."""

from __future__ import annotations

import signal
import subprocess

import numpy as np
import pytest

from tests.stock_models import stock_checkpoint
from tests.training.conftest import curve

from .conftest import NO_REPORT, weights

pytestmark = pytest.mark.multiprocess

RUN = "--placement cpu --global-train-batch-size 8 --learning-rate 1e-3 --set train.logging_steps=1".split()
RUN += "--set train.save_steps=1 --set train.lr_scheduler_type=constant --set train.warmup_steps=0".split() + NO_REPORT
FSDP = ["--num-processes", "2", "--set", "placement.strategy=fsdp"]
# Each placement writes and reads; 37 examples make epochs of five steps, so that each run begins within one.
WAY = [(2, FSDP), (4, ["--num-processes", "2"]), (7, []), (9, FSDP)]


def test_from_one_placement_to_the_next(bertkit, tmp_path, start, glue_folder):
    command = ["finetune", "glue", "--task", "sst2", "--model", start, "--data-dir", glue_folder, *RUN]
    done = bertkit([*command, "--max-steps", "9", "--output-dir", tmp_path / "one"])
    assert done.returncode == 0, done.stderr
    for steps, placement in WAY:
        resume = ["--resume"] if steps > 2 else []
        done = bertkit([*command, "--max-steps", steps, *placement, *resume, "--output-dir", tmp_path / "many"])
        assert done.returncode == 0, done.stderr
    assert len(curve(tmp_path / "many")) == 9
    np.testing.assert_allclose(curve(tmp_path / "many"), curve(tmp_path / "one"), rtol=1e-5)
    expected, got = weights(tmp_path / "one"), weights(tmp_path / "many")
    for name, tensor in expected.items():
        if name.endswith("key.bias"):  # softmax does not see it: its gradient is rounding, which Adam makes large
            continue
        np.testing.assert_allclose(got[name], tensor, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_killed_pretraining_ends_with_same_bits(bertkit, forks, tmp_path, corpus, start, family):
    folder, out = start, tmp_path / "killed"
    if family != "bert":
        folder = stock_checkpoint(tmp_path / "start", family, "AutoModelForMaskedLM", initializer_range=0.02)
    command = ["pretrain", "--model", folder, "--pair-objective", "none", "--corpus", corpus, *RUN]
    command += ["--max-steps", "12", "--max-seq-length", "32"]
    done = bertkit([*command, "--output-dir", tmp_path / "straight"])
    assert done.returncode == 0, done.stderr
    process = [forks.python, "-m", "bertkit", *map(str, command), "--output-dir", str(out)]
    with subprocess.Popen(
        process, env=forks.environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as run:
        assert run.stderr is not None
        for line in run.stderr:
            if "step 6/" in line:
                run.send_signal(signal.SIGKILL)
                break
        run.stderr.read()
    assert run.returncode == -signal.SIGKILL
    done = bertkit([*command, "--output-dir", out, "--resume"])
    assert done.returncode == 0, done.stderr
    assert "resuming from" in done.stderr
    assert curve(out) == curve(tmp_path / "straight")
    expected, got = weights(tmp_path / "straight"), weights(out)
    assert got.keys() == expected.keys()
    assert all(np.array_equal(got[name], expected[name]) for name in expected)
