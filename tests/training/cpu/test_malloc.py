"""Freed memory is kept: what a step takes again costs no page faults."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource, torch
from bertkit.training.cpu import keep_freed_memory
kept = {keep} and keep_freed_memory()
def step():
    return [torch.empty(10_000_000).fill_(1) for _ in range(3)]  # three times 40 MB
for _ in range(8):
    step()  # until there is room for what comes and goes
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    step()
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(keep: bool) -> tuple[str, int]:
    program = FAULTS.format(keep=keep)
    kept, count = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    return kept, int(count)


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc gives memory back so soon")
def test_freed_memory_is_reused():
    kept, with_it = faults(keep=True)
    not_kept, without = faults(keep=False)
    assert (kept, not_kept) == ("True", "False")
    assert with_it < without / 10
