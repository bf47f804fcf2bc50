"""Commands timed by turns, each in a process of its own: what the benchmarks of speed and memory share."""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

Result = dict[str, float]


def measured(arguments: Sequence[str]) -> Result:
    """Runs Python with these arguments; its last line of output is a JSON object of numbers, see `report`.

    Returns:
        These numbers.

    Raises:
        SystemExit: it failed.
    """
    process = subprocess.run([sys.executable, *arguments], stdout=subprocess.PIPE, text=True)
    if process.returncode:
        raise SystemExit(f"failed: {' '.join(arguments)}")
    result: Result = json.loads(process.stdout.splitlines()[-1])
    return result


def report(**numbers: float) -> None:
    """Prints what a side has measured, and ``peak_mib``, the most memory that it took: of a GPU's where it used one."""
    import torch

    on_gpu = torch.cuda.max_memory_reserved() / 2**20 if torch.cuda.is_available() else 0
    print(json.dumps({**numbers, "peak_mib": on_gpu or peak_mib()}))


def peak_mib() -> float:
    """The most that this process had resident at any time.

    Of the process itself: what the system counts for its parent begins with the parent's own.
    """
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(peak.split()[1]) / 1024


@dataclass
class Steps:
    """The trainings of a process: the end of each step, and the lengths of its inputs.

    Attributes:
        ends: seconds of ``time.perf_counter``.
        lengths: for each step the tokens of its inputs, without padding, one tensor for what is computed at once.
    """

    ends: list[float] = field(default_factory=list)
    lengths: list[list[Tensor]] = field(default_factory=list)

    def timed(self, first: int) -> tuple[float, list[int]]:
        """Seconds from the end of a step to that of the last, and the lengths of the inputs in between."""
        lengths = [length for step in self.lengths[first + 1 :] for tensor in step for length in tensor.tolist()]
        return self.ends[-1] - self.ends[first], lengths


def step_clock() -> Steps:
    """Has every Trainer of this process note its steps, without waiting for a device."""
    from transformers import TrainerCallback, trainer

    steps = Steps()

    class Clock(TrainerCallback):
        def on_train_begin(self, *args: Any, model: Any, **kwargs: Any) -> None:
            model.register_forward_pre_hook(self.note_lengths, with_kwargs=True)

        def note_lengths(self, model: Any, args: Any, inputs: dict[str, Any]) -> None:
            if model.training:
                steps.lengths[-1].append(inputs["attention_mask"].sum(dim=-1))

        def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
            steps.lengths.append([])

        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            steps.ends.append(time.perf_counter())

    trainer.DEFAULT_CALLBACKS.append(Clock)
    return steps


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
