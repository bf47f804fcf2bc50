"""Two processes whose layers are compiled: the losses and weights of one process without a compiler."""

from __future__ import annotations

import numpy as np
import pytest

from tests.training.conftest import curve

from .conftest import NO_REPORT, TORCHRUN, weights

pytestmark = pytest.mark.multiprocess

RUN = "--placement cpu --global-train-batch-size 8 --learning-rate 1e-3 --max-steps 4".split()
RUN += ["--set", "train.logging_steps=1", *NO_REPORT]
COMPILED = ["--set", "train.torch_compile=true", "--set", "train.torch_compile_backend=aot_eager"]
COUNTING = """\
import sys, torch
from bertkit.cli.app import main

try:
    main()
finally:
    print("compiles" if torch._dynamo.utils.counters["stats"]["unique_graphs"] > 1 else "plain", file=sys.stderr)
"""


def test_two_processes_that_accumulate(bertkit, tmp_path, start, glue_folder):
    (tmp_path / "counting.py").write_text(COUNTING)
    command = ["finetune", "glue", "--task", "sst2", "--model", start, "--data-dir", glue_folder, *RUN]
    done = bertkit([*command, "--output-dir", tmp_path / "one"])
    assert done.returncode == 0, done.stderr
    command += [*COMPILED, "--set", "placement.per_device_train_batch_size=2", "--output-dir", tmp_path / "two"]
    done = bertkit(command, TORCHRUN, [tmp_path / "counting.py"])
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines().count("compiles") == 2
    np.testing.assert_allclose(curve(tmp_path / "two"), curve(tmp_path / "one"), rtol=1e-4)
    expected, got = weights(tmp_path / "one"), weights(tmp_path / "two")
    assert got.keys() == expected.keys()
    for name, tensor in expected.items():
        if not name.endswith("key.bias"):  # softmax does not see it: its gradient is rounding, which Adam makes large
            np.testing.assert_allclose(got[name], tensor, rtol=1e-4, atol=1e-5, err_msg=name)
