"""Where a run happens: devices, precision, and how the global batch is cut into what one device takes.

Nothing here may change what a run computes (beyond rounding): the recipe's ``train.global_train_batch_size`` is kept
whatever the placement, as ``per-device batch × gradient accumulation × processes``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bertkit.errors import PlacementError

# Tokens that one device takes at once where the user does not say: 32 and 256 sequences of 128, enough to keep it busy.
_USUAL_TOKENS = {"cpu": 32 * 128, "cuda": 256 * 128}


@dataclass(frozen=True, kw_only=True)
class PlacementSettings:
    """The ``placement`` block of a recipe.

    Attributes:
        device: ``auto`` takes the accelerator that accelerate finds, else the CPU; ``cpu`` insists on the CPU.
        mixed_precision: ``auto`` is bf16 where the device computes it fast, else float32 (``no``).
        per_device_train_batch_size: sequences one device takes at once; ``None`` chooses the largest divisor of the
            global batch up to 32 (CPU) or 256 (GPU) of 128 tokens, fewer where they are longer. The rest is gradient
            accumulation.
        per_device_eval_batch_size: sequences in one evaluation batch; does not change any score.
        dataloader_num_workers: processes that prepare batches beside each training process.
        preprocessing_num_workers: processes that tokenize a corpus; ``None`` is one for each core that may be used.
        gradient_checkpointing: recompute activations in the backward pass: less memory, about a third more time.
        attn_implementation: attention kernel as transformers names it (``sdpa``, ``eager``, ``flash_attention_2``,
            ``flex_attention``); ``None`` leaves the choice to transformers.
    """

    device: Literal["auto", "cpu"] = "auto"
    mixed_precision: Literal["auto", "no", "bf16", "fp16"] = "auto"
    per_device_train_batch_size: int | None = None
    per_device_eval_batch_size: int = 64
    dataloader_num_workers: int = 0
    preprocessing_num_workers: int | None = None
    gradient_checkpointing: bool = False
    attn_implementation: str | None = None

    def __post_init__(self) -> None:
        if self.per_device_train_batch_size is not None and self.per_device_train_batch_size < 1:
            raise ValueError(f"per_device_train_batch_size: {self.per_device_train_batch_size} is not at least 1")
        if self.per_device_eval_batch_size < 1:
            raise ValueError(f"per_device_eval_batch_size: {self.per_device_eval_batch_size} is not at least 1")
        if self.dataloader_num_workers < 0:
            raise ValueError(f"dataloader_num_workers: {self.dataloader_num_workers} is negative")
        if self.preprocessing_num_workers is not None and self.preprocessing_num_workers < 1:
            raise ValueError(f"preprocessing_num_workers: {self.preprocessing_num_workers} is not at least 1")


@dataclass(frozen=True, kw_only=True)
class Placement:
    """A placement worked out for the machine at hand; ``batch`` sizes count sequences."""

    device: str
    num_processes: int
    mixed_precision: Literal["no", "bf16", "fp16"]
    per_device_train_batch_size: int
    gradient_accumulation_steps: int
    settings: PlacementSettings

    @property
    def global_train_batch_size(self) -> int:
        return self.per_device_train_batch_size * self.gradient_accumulation_steps * self.num_processes

    @property
    def preprocessing_num_workers(self) -> int:
        usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return self.settings.preprocessing_num_workers or usable

    def training_arguments(self) -> dict[str, Any]:
        """This placement in the words of ``transformers.TrainingArguments``."""
        return {
            "per_device_train_batch_size": self.per_device_train_batch_size,
            "per_device_eval_batch_size": self.settings.per_device_eval_batch_size,
            "gradient_accumulation_steps": self.gradient_accumulation_steps,
            "bf16": self.mixed_precision == "bf16",
            "fp16": self.mixed_precision == "fp16",
            "use_cpu": self.device == "cpu",
            "dataloader_num_workers": self.settings.dataloader_num_workers,
            "dataloader_pin_memory": self.device != "cpu",
            "activation_checkpointing": self.settings.gradient_checkpointing,
        }

    def describe(self) -> str:
        """One line for the log.

        >>> Placement(device="cpu", num_processes=1, mixed_precision="no", per_device_train_batch_size=8,
        ...           gradient_accumulation_steps=4, settings=PlacementSettings()).describe()
        'cpu, 1 process, float32; batch 32 = 8 a device × 4 accumulated × 1 process'
        """
        precision = {"no": "float32", "bf16": "bf16 autocast", "fp16": "fp16 autocast"}[self.mixed_precision]
        processes = f"{self.num_processes} process{'es' if self.num_processes > 1 else ''}"
        device, accumulated = self.per_device_train_batch_size, self.gradient_accumulation_steps
        return (
            f"{self.device}, {processes}, {precision}; "
            f"batch {self.global_train_batch_size} = {device} a device × {accumulated} accumulated × {processes}"
        )


def is_main_process() -> bool:
    """Whether this process is the one that writes and speaks; true where there is only one."""
    return os.environ.get("RANK", "0") == "0"


def place(settings: PlacementSettings, global_train_batch_size: int, max_seq_length: int = 128) -> Placement:
    """Works out where a run goes on this machine and how its batch is cut.

    Args:
        settings: the ``placement`` block.
        global_train_batch_size: sequences per optimizer step over all processes, at least 1.
        max_seq_length: tokens of the longest of them.

    Raises:
        PlacementError: the batch cannot be cut as asked, the precision is not to be had on the device, or several
            GPUs are visible to a single process (transformers would silently wrap the model in DataParallel).
    """
    device = _device(settings)
    num_processes = int(os.environ.get("WORLD_SIZE", "1"))
    if global_train_batch_size % num_processes:
        raise PlacementError(
            f"train.global_train_batch_size: {global_train_batch_size} sequences cannot be shared evenly by "
            f"{num_processes} processes; use a multiple of {num_processes}"
        )
    per_process = global_train_batch_size // num_processes
    usual = _USUAL_TOKENS.get(device, _USUAL_TOKENS["cuda"]) // max(max_seq_length, 128)
    per_device = settings.per_device_train_batch_size or _largest_divisor(per_process, max(usual, 1))
    if per_process % per_device:
        works = ", ".join(str(size) for size in range(1, per_process + 1) if per_process % size == 0)
        raise PlacementError(
            f"placement.per_device_train_batch_size: {per_device} does not divide the {per_process} sequences that "
            f"each of {num_processes} process(es) takes of the global batch of {global_train_batch_size}; "
            f"one of these does: {works}"
        )
    return Placement(
        device=device,
        num_processes=num_processes,
        mixed_precision=_precision(settings.mixed_precision, device),
        per_device_train_batch_size=per_device,
        gradient_accumulation_steps=per_process // per_device,
        settings=settings,
    )


def _device(settings: PlacementSettings) -> str:
    import torch

    if settings.device == "cpu" or not torch.accelerator.is_available():
        return "cpu"
    kind = torch.accelerator.current_accelerator()
    assert kind is not None  # is_available() said so
    count = torch.accelerator.device_count()
    if count > 1 and "WORLD_SIZE" not in os.environ:
        raise PlacementError(
            f"{count} devices of type {kind.type} are visible to one process; start one process for each (torchrun "
            f"--nproc-per-node {count} -m bertkit …) or show it a single one (CUDA_VISIBLE_DEVICES=0 bertkit …)"
        )
    return str(kind.type)


def _precision(asked: str, device: str) -> Literal["no", "bf16", "fp16"]:
    if asked == "auto":
        return "bf16" if computes_bf16_fast(device) else "no"
    if asked == "fp16" and device == "cpu":
        raise PlacementError("placement.mixed_precision: fp16 needs a GPU; on this CPU use bf16, no or auto")
    if asked == "fp16":
        return "fp16"
    return "bf16" if asked == "bf16" else "no"


def computes_bf16_fast(device: str, cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether matrix products in bf16 pay on ``device``: GPUs that have them, CPUs with AVX512-BF16 or AMX.

    A CPU without those instructions computes bf16 by conversion, several times slower than float32.
    """
    import torch

    if device == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device != "cpu" or not cpuinfo.exists():
        return False
    flags = next((line for line in cpuinfo.read_text().splitlines() if line.startswith("flags")), "").split()
    return "avx512_bf16" in flags or "amx_bf16" in flags


def _largest_divisor(number: int, limit: int) -> int:
    """The largest divisor of ``number`` that is at most ``limit``.

    >>> _largest_divisor(256, 32), _largest_divisor(100, 32), _largest_divisor(7, 4)
    (32, 25, 1)
    """
    return max(size for size in range(1, min(number, limit) + 1) if number % size == 0)
