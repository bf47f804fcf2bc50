"""Memory that runs out in one of two processes: that one halves what it takes at once, and the numbers are the same."""

from __future__ import annotations

import numpy as np
import pytest

from tests.training.conftest import curve

from .conftest import NO_REPORT, TORCHRUN

pytestmark = pytest.mark.multiprocess

# The command line on machines of which the second has memory for two sentences of the batch.
LIMITED = """\
import functools, os, torch
from bertkit.cli.app import main
from bertkit.model.modeling_bert import BertForSequenceClassification as Head

forward = Head.forward

@functools.wraps(forward)
def limited(self, *args, **kwargs):
    if self.training and os.environ["RANK"] == "1" and len(kwargs["input_ids"]) > 2:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
    return forward(self, *args, **kwargs)

Head.forward = limited
main()
"""


def run(bertkit, tmp_path, start, glue_folder, name, module, *flags):
    command = ["finetune", "glue", "--task", "sst2", "--model", start, "--data-dir", glue_folder, "--placement", "cpu"]
    command += ["--global-train-batch-size", "16", "--max-steps", "4", "--set", "train.logging_steps=1"]
    return bertkit([*command, *NO_REPORT, *flags, "--output-dir", tmp_path / name], TORCHRUN, module)


def test_one_of_two_processes(bertkit, tmp_path, start, glue_folder):
    (tmp_path / "limited.py").write_text(LIMITED)
    enough = run(bertkit, tmp_path, start, glue_folder, "enough", ["-m", "bertkit"])
    assert enough.returncode == 0, enough.stderr
    limited = run(bertkit, tmp_path, start, glue_folder, "limited", [tmp_path / "limited.py"])
    assert limited.returncode == 0, limited.stderr
    np.testing.assert_allclose(curve(tmp_path / "limited"), curve(tmp_path / "enough"), rtol=1e-5)
    said = [line for line in limited.stderr.splitlines() if "out of memory" in line]
    assert [line[:31] for line in said] == ["process 1: out of memory with 8", "process 1: out of memory with 4"]
    assert "continuing with 2 at once" in said[-1]


def test_sharded_run_says_how_to_continue(bertkit, tmp_path, start, glue_folder):
    (tmp_path / "limited.py").write_text(LIMITED)
    fsdp = ["--set", "placement.strategy=fsdp"]
    done = run(bertkit, tmp_path, start, glue_folder, "limited", [tmp_path / "limited.py"], *fsdp)
    assert done.returncode != 0
    assert done.stderr.count("bertkit: error:") == 1
    assert "--resume --set placement.per_device_train_batch_size=4" in done.stderr
