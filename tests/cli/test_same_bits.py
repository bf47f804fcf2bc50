"""Commands give the same bits for the same weights at any address; some CPUs' MKL does so only when it is asked."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import sys
from bertkit.cli.app import _set_environment
_set_environment()
assert "torch" not in sys.modules  # MKL reads its environment once
import torch

def at(values, offset):
    return torch.empty(values.numel() + offset)[offset:].view(values.shape).copy_(values)

torch.manual_seed(0)
for rows in (1, 5):
    states, weight, bias = torch.randn(rows, 32), torch.randn(64, 32), torch.randn(64)
    expected = torch.nn.functional.linear(states, weight, bias)
    for one in range(8):
        for two in range(8):
            outputs = torch.nn.functional.linear(at(states, one), at(weight, two), bias)
            assert torch.equal(outputs, expected), (rows, one, two)
"""


def test_a_product_does_not_depend_on_addresses():
    environment = {name: value for name, value in os.environ.items() if name != "MKL_CBWR"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_users_choice_stays(monkeypatch):
    from bertkit.cli.app import _set_environment

    monkeypatch.setattr(os, "environ", {**os.environ, "MKL_CBWR": "AVX2"})
    _set_environment()
    assert os.environ["MKL_CBWR"] == "AVX2"
