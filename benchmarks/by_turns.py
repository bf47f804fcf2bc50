"""Commands timed by turns, each in a process of its own: what the benchmarks of speed and memory share."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

Result = dict[str, float]


def measured(arguments: Sequence[str]) -> Result:
    """Runs Python with these arguments; its last line of output is a JSON object of numbers.

    Returns:
        These numbers, and ``peak_mib``, the most memory that the process had resident at any time.

    Raises:
        SystemExit: it failed.
    """
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = process.stdout.read().splitlines()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"failed: {' '.join(arguments)}")
    return {**json.loads(lines[-1]), "peak_mib": usage.ru_maxrss / 1024}


def by_turns(sides: Mapping[str, Sequence[str]], rounds: int) -> dict[str, Result]:
    """The medians of what the sides give, each run once in every round, so that a busy moment meets all of them."""
    found: dict[str, list[Result]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side, arguments in sides.items():
            found[side].append(measured(arguments))
    return {
        side: {name: statistics.median(each[name] for each in results) for name in results[0]}
        for side, results in found.items()
    }


def machine() -> dict[str, Any]:
    """Versions and hardware, for the record."""
    import torch

    names = ("torch", "transformers", "accelerate")
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()
    return {**{name: version(name) for name in names}, "device": device, "threads": torch.get_num_threads()}
