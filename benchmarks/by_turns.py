"""Shared parts of the benchmarks of speed and memory: sides timed by turns in processes of their own; matrix products.

Dimensions: L layers, H hidden size, S tokens of a sequence.
"""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

Result = dict[str, float]

SIZES = {"tiny": (2, 128), "mini": (4, 256), "6x384": (6, 384), "base": (12, 768), "large": (24, 1024)}
"""Name → L and H; the feed-forward layers are 4 H wide."""


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

    on_gpu = torch.cuda.max_memory_reserved() / 2**20 if torch.cuda.is_initialized() else 0
    print(json.dumps({**numbers, "peak_mib": on_gpu or peak_mib()}))


def peak_mib() -> float:
    """The most that this process had resident at any time.

    Of the process itself: what the system counts for its parent begins with the parent's own.
    """
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(peak.split()[1]) / 1024


def by_turns(sides: Mapping[str, Sequence[str]], rounds: int) -> dict[str, Result]:
    """The medians of what the sides give, each run once in every round, so that a busy moment meets all of them.

    Each result is also a line on stderr, see `note_round`.
    """
    results: dict[str, list[Result]] = {side: [] for side in sides}
    for number in range(rounds):
        for side, arguments in sides.items():
            results[side].append(measured(arguments))
            note_round(number + 1, side, results[side][-1])
    return {
        side: {name: statistics.median(each[name] for each in of_side) for name in of_side[0]}
        for side, of_side in results.items()
    }


def note_round(number: int, side: str, result: Result) -> None:
    """Prints a JSON object with what a side gave in a round on stderr, where ``run_all.py`` reads it."""
    print(json.dumps({"round": number, "side": side, **result}), file=sys.stderr, flush=True)


def rounded(results: Mapping[str, Result], digits: int) -> dict[str, Result]:
    """The numbers of all sides, for printing."""
    return {side: {name: round(value, digits) for name, value in each.items()} for side, each in results.items()}


def machine() -> dict[str, Any]:
    """Versions and hardware, for the record."""
    import torch

    names = ("torch", "transformers", "accelerate")
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()
    return {**{name: version(name) for name in names}, "device": device, "threads": torch.get_num_threads()}


@dataclass
class Steps:
    """The trainings of a process: the end of each step, and the lengths of its inputs.

    Attributes:
        marks: the end of each step: of ``time.perf_counter``, or an event that the device records when it is there.
        lengths: for each step the tokens of its inputs, without padding, one tensor for what is computed at once.
    """

    marks: list[Any] = field(default_factory=list)
    lengths: list[list[Tensor]] = field(default_factory=list)

    @property
    def ends(self) -> list[float]:
        """Seconds from the end of the first step to that of each, as the device that computes them has it."""
        first = self.marks[0]
        if isinstance(first, float):
            return [mark - first for mark in self.marks]
        self.marks[-1].synchronize()
        return [first.elapsed_time(mark) / 1000 for mark in self.marks]

    def timed(self, first: int) -> tuple[float, list[int]]:
        """Seconds from the end of a step to that of the last, and the lengths of the inputs in between."""
        if len(self.marks) <= first + 1:
            raise SystemExit(f"{len(self.marks)} steps are too few to time any")
        lengths = [length for step in self.lengths[first + 1 :] for tensor in step for length in tensor.tolist()]
        ends = self.ends
        return ends[-1] - ends[first], lengths


def step_clock() -> Steps:
    """Has every Trainer of this process note its steps, without waiting for a device."""
    import torch
    from transformers import TrainerCallback, trainer

    steps = Steps()

    class Clock(TrainerCallback):
        def on_train_begin(self, *args: Any, model: Any, **kwargs: Any) -> None:
            note = torch.compiler.disable(self.note_lengths)  # else the model would be compiled again in each step
            model.register_forward_pre_hook(note, with_kwargs=True)

        def note_lengths(self, model: Any, args: Any, inputs: dict[str, Any]) -> None:
            if model.training:
                steps.lengths[-1].append(inputs["attention_mask"].sum(dim=-1))

        def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
            steps.lengths.append([])

        def on_step_end(self, args: Any, *_: Any, **kwargs: Any) -> None:
            if args.device.type == "cpu":
                steps.marks.append(time.perf_counter())
                return
            steps.marks.append(torch.Event(device=args.device.type, enable_timing=True))
            steps.marks[-1].record()

    trainer.DEFAULT_CALLBACKS.append(Clock)
    return steps


def shape_of(size: str) -> dict[str, int]:
    """The fields of a configuration that a size decides: attention heads are 64 wide, and two at the least."""
    layers, width = SIZES[size]
    return {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": max(2, width // 64),
        "intermediate_size": 4 * width,
    }


def of_layers(layers: int, width: int, lengths: Iterable[int], read: int | None = None) -> float:
    """Multiplications and additions of L layers, forward, for sequences of these lengths.

    Args:
        read: tokens of a sequence whose output is read; the last layer computes only keys and values of the others.
    """
    total = 0.0
    for length in lengths:
        total += layers * (24 * length * width**2 + 4 * length**2 * width)
        if read is not None:
            total -= max(layers and length - read, 0) * (20 * width**2 + 4 * length * width)
    return total


def placement_of(device: str) -> dict[str, Any]:
    """Settings of bertkit for ``cpu`` or ``cuda``, and one process where several GPUs are visible."""
    return {"placement.device": "cpu" if device == "cpu" else "gpu", "placement.num_processes": 1}


def rate_alone(precision: str, device: str, width: int, tokens: int) -> float:
    """Multiplications and additions a second of (tokens, H) × (H, 4 H), the best of ten, by bertkit's linear layer.

    Args:
        precision: ``bf16``, or ``no`` for float32.
    """
    import torch

    from bertkit.runtime.placement.processor import fast_products

    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    left = torch.randn(tokens, width, dtype=kind, device=device)
    layer = torch.nn.Linear(width, 4 * width, bias=False, dtype=kind, device=device)
    best = float("inf")
    products = 5 if device == "cpu" else 500  # on a GPU one takes less time than its start
    with fast_products([layer]), torch.inference_mode():
        for _ in range(10):
            started = time.perf_counter()
            for _ in range(products):
                layer(left)
            if device != "cpu":
                torch.accelerator.synchronize()
            best = min(best, (time.perf_counter() - started) / products)
    return 8 * tokens * width**2 / best
