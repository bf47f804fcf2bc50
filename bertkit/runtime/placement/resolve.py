"""Settings of a placement, and their resolution: device, precision, and the division of the global batch.

A placement must not change the results of a run (beyond rounding): ``train.global_train_batch_size`` of the recipe is
the same in every placement, as ``per-device batch × gradient accumulation × processes``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from bertkit.runtime.errors import PlacementError
from bertkit.runtime.options import check_ranges, option, setting
from bertkit.runtime.placement.processes import started_processes, usable_cores
from bertkit.runtime.progress import counted

if TYPE_CHECKING:
    import torch

# Default tokens per device and forward pass: 32 and 256 sequences of 128 tokens, enough to utilize the device.
_USUAL_TOKENS = {"cpu": 32 * 128, "cuda": 256 * 128}

JOINED = "joined"
"""Value of ``attn_implementation``: sequences without padding, see `bertkit.model.joined`."""


@dataclass(frozen=True, kw_only=True)
class PlacementSettings:
    """Settings of the ``placement`` block of a recipe."""

    device: Literal["auto", "cpu", "gpu", "xla"] = setting(
        "`auto` selects the accelerator that accelerate finds, else the CPU; `cpu` and `gpu` require that "
        "device, `xla` the device of torch_xla, such as a TPU.",
        default="auto",
    )
    strategy: Literal["auto", "ddp", "fsdp"] = setting(
        "What is divided among several processes: `ddp` the batch; `fsdp` also weights, gradients and optimizer"
        " states. `auto` follows the launcher: `ddp` unless that of accelerate sets `fsdp`.",
        default="auto",
    )
    num_processes: int | None = option(
        "Number of processes on each machine, one per device; by default as many as a launcher has started, "
        "without a launcher 1, or with `ddp` and `fsdp` one per GPU.",
        default=None,
        ge=1,
        le=1024,
        rare=True,
    )
    mixed_precision: Literal["auto", "no", "bf16", "fp16"] = setting(
        "`auto` selects that of accelerate's launcher, else bf16 if the device computes it fast, fp16 on older CUDA "
        "GPUs, or float32 (`no`).",
        default="auto",
    )
    per_device_train_batch_size: int | None = setting(
        "Sequences per device and forward pass; `null` for the largest divisor of the sequences per process up "
        "to 32 (CPU) or 256 (GPU) of 128 tokens, fewer for longer sequences. Gradient accumulation covers the "
        "rest of the global batch.",
        default=None,
        ge=1,
        le=2**20,
    )
    per_device_eval_batch_size: int = setting(
        "Sequences per evaluation batch; does not change scores.", default=64, ge=1, le=2**20
    )
    dataloader_num_workers: int | None = setting(
        "Number of data loader workers per training process; `null` for 2 on a CUDA GPU, else 0.",
        default=None,
        ge=0,
        le=1024,
    )
    preprocessing_num_workers: int | None = setting(
        "Number of processes that tokenize a corpus; `null` for one per available core.", default=None, ge=1, le=1024
    )
    gradient_checkpointing: bool = setting(
        "Recompute activations in the backward pass: less memory, about a third more time.", default=False
    )
    fixed_shapes: bool | None = setting(
        "Pad all inputs to `max_seq_length`, for devices that compile every new shape. `null` for True on XLA only.",
        default=None,
    )
    attn_implementation: str | None = setting(
        "Attention implementation of transformers (`sdpa`, `eager`, `flash_attention_2`, `flex_attention`), or "
        "`joined`: the sequences of a batch in one row, without padding, on a CUDA GPU. `null` for the default of "
        "transformers.",
        default=None,
    )
    cpu_speed_ups: bool = setting(
        "On a CPU, train with `bertkit.training.cpu`: the same results up to rounding, except that dropout "
        "draws other units of the same distribution. No effect on other devices.",
        default=True,
    )

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Placement resolved for this machine; batch sizes are in sequences."""

    device: str
    num_processes: int
    strategy: Literal["single", "ddp", "fsdp"]
    mixed_precision: Literal["no", "bf16", "fp16"]
    per_device_train_batch_size: int
    gradient_accumulation_steps: int
    settings: PlacementSettings

    @property
    def global_train_batch_size(self) -> int:
        return self.per_device_train_batch_size * self.gradient_accumulation_steps * self.num_processes

    @property
    def fixed_shapes(self) -> bool:
        """Returns whether all batches have the same shape."""
        return self.device == "xla" if self.settings.fixed_shapes is None else self.settings.fixed_shapes

    @property
    def autocast_dtype(self) -> torch.dtype | None:
        """Returns the dtype in which a run computes outputs; None for float32. Weights are always float32."""
        import torch

        return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.mixed_precision)

    @property
    def dataloader_num_workers(self) -> int:
        if self.settings.dataloader_num_workers is None:
            return 2 if self.device == "cuda" else 0
        return self.settings.dataloader_num_workers

    @property
    def preprocessing_num_workers(self) -> int:
        return self.settings.preprocessing_num_workers or usable_cores()

    def training_arguments(self) -> dict[str, Any]:
        """Returns this placement as arguments of ``transformers.TrainingArguments``.

        The Trainer autocasts itself, to `autocast_dtype`. accelerate's bf16 copies all outputs to float32, casts the
        weights with FSDP, and stores them in bf16 on XLA; its fp16 is needed for the scaler of the gradients.

        Raises:
            PlacementError: the CPU is requested, but accelerate would use XLA.
        """
        if self.device == "cpu" and _finds_xla():
            raise PlacementError(
                "placement.device: cpu is requested, but accelerate trains on XLA if torch_xla is installed; set "
                "USE_TORCH_XLA=0 in the environment to train on the CPU"
            )
        fsdp = {
            "version": 2,
            "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",  # the layers that the model names in _no_split_modules
            "state_dict_type": "FULL_STATE_DICT",  # checkpoints for use in any placement
            "activation_checkpointing": self.settings.gradient_checkpointing,
        }
        return {
            "per_device_train_batch_size": self.per_device_train_batch_size,
            "per_device_eval_batch_size": self.settings.per_device_eval_batch_size,
            "gradient_accumulation_steps": self.gradient_accumulation_steps,
            "fp16": self.mixed_precision == "fp16",
            "use_cpu": self.device == "cpu",
            "dataloader_num_workers": self.dataloader_num_workers,
            "dataloader_pin_memory": self.device not in ("cpu", "xla", "mps"),
            # On XLA the outputs of each batch leave the device: appending to earlier ones would compile for each batch.
            **({"eval_accumulation_steps": 1} if self.device == "xla" else {}),
            "activation_checkpointing": self.settings.gradient_checkpointing and self.strategy != "fsdp",
            **({"fsdp": True, "fsdp_config": fsdp} if self.strategy == "fsdp" else {}),
        }

    def describe_processes(self) -> str:
        """Describes the number of processes and the strategy."""
        return "1 process" if self.num_processes == 1 else f"{self.num_processes} processes ({self.strategy})"

    def describe_precision(self) -> str:
        """Describes the precision of the computation."""
        return {"no": "float32", "bf16": "bf16 autocast", "fp16": "fp16 autocast"}[self.mixed_precision]

    def describe_batch(self) -> str:
        """Describes the division of the global batch.

        >>> Placement(device="cpu", num_processes=1, strategy="single", mixed_precision="no",
        ...           per_device_train_batch_size=8, gradient_accumulation_steps=4,
        ...           settings=PlacementSettings()).describe_batch()
        '32 sequences per step = 8 per device × 4 accumulated × 1 process'
        """
        processes = counted(self.num_processes, "process", "processes")
        device, accumulated = self.per_device_train_batch_size, self.gradient_accumulation_steps
        cut = f"{device} per device × {accumulated} accumulated × {processes}"
        return f"{self.global_train_batch_size} sequences per step = {cut}"


class ProcessesNeeded(PlacementError):
    """Raised if the placement needs several processes and this process was started without a launcher.

    Attributes:
        num_processes: number of processes; the ``bertkit`` command starts them (`bertkit.runtime.placement.launch`).
    """

    def __init__(self, num_processes: int):
        super().__init__(
            f"placement: {num_processes} processes are required, but only one was started; start them with the "
            f"bertkit command, torchrun --nproc-per-node {num_processes}, or "
            f"accelerate launch --num_processes {num_processes}"
        )
        self.num_processes = num_processes


def place(
    settings: PlacementSettings, global_train_batch_size: int, max_seq_length: int = 128, *, joins_batch: bool = False
) -> Placement:
    """Resolves the placement of a run on this machine and divides its global batch.

    Args:
        settings: settings of the ``placement`` block.
        global_train_batch_size: sequences per optimizer step over all processes, at least 1.
        max_seq_length: maximum number of tokens of a sequence.
        joins_batch: the loss compares the sequences of a global batch, which is computed at once.

    Raises:
        ProcessesNeeded: as `check_processes`.
        PlacementError: as `check_processes`; or the batch cannot be divided as requested, the device or the precision
            is not available, or XLA would run in several processes.
    """
    check_processes(settings)
    device = find_device(settings)
    num_processes = started_processes()
    whole = (None, global_train_batch_size)
    if joins_batch and (num_processes > 1 or settings.per_device_train_batch_size not in whole):
        raise PlacementError(
            f"placement: the loss compares all {global_train_batch_size} examples of a batch, which have to be "
            "computed at once: use one process, and placement.per_device_train_batch_size=null"
        )
    if global_train_batch_size % num_processes:
        raise PlacementError(
            f"train.global_train_batch_size: {global_train_batch_size} sequences cannot be divided evenly among "
            f"{num_processes} processes; use a multiple of {num_processes}"
        )
    per_process = global_train_batch_size // num_processes
    most = max(_USUAL_TOKENS.get(device, _USUAL_TOKENS["cuda"]) // max(max_seq_length, 128), 1)
    usual = per_process if joins_batch else largest_divisor(per_process, most)
    per_device = settings.per_device_train_batch_size or usual
    if per_process % per_device:
        works = ", ".join(str(size) for size in range(1, per_process + 1) if per_process % size == 0)
        raise PlacementError(
            f"placement.per_device_train_batch_size: {per_device} does not divide the {per_process} sequences that "
            f"each process takes from the global batch of {global_train_batch_size}; use one of {works}"
        )
    strategy = _strategy(settings) if num_processes > 1 else "single"
    precision = _precision(settings.mixed_precision, device, strategy == "fsdp")
    return Placement(
        device=device,
        num_processes=num_processes,
        strategy=strategy,
        mixed_precision=precision,
        per_device_train_batch_size=per_device,
        gradient_accumulation_steps=per_process // per_device,
        settings=settings,
    )


def check_processes(settings: PlacementSettings) -> None:
    """Compares the number of processes of a placement with the number that a launcher has started.

    Raises:
        ProcessesNeeded: the placement needs several processes, and there is no launcher.
        PlacementError: the launcher has started a different number; the number is not given and cannot be inferred;
            ``fsdp`` has only one process; or one process sees several GPUs, for which transformers has DataParallel.
    """
    world = os.environ.get("WORLD_SIZE")
    if world is not None:
        here = int(os.environ.get("LOCAL_WORLD_SIZE", world))
        if settings.num_processes not in (None, here):
            raise PlacementError(
                f"placement.num_processes: {settings.num_processes}, but the launcher has started {here} on this "
                f"machine; give --num-processes {here}, remove it, or start bertkit without the launcher"
            )
        if _strategy(settings) == "fsdp" and world == "1":
            raise PlacementError("placement.strategy: fsdp needs at least 2 processes, but only one was started")
        return
    if settings.num_processes == 1:
        if settings.strategy == "fsdp":
            raise PlacementError("placement.num_processes: fsdp needs at least 2 processes, got 1")
        return
    if settings.num_processes is not None:
        raise ProcessesNeeded(settings.num_processes)
    gpus = 0 if settings.device == "cpu" else visible_gpus()
    if settings.strategy != "auto":
        if gpus == 0:
            find_device(settings)  # raises if the device that is asked for is not there
            raise PlacementError(
                f"placement.strategy: {settings.strategy} on CPUs needs the number of processes; "
                f"give --num-processes, such as 2"
            )
        if gpus > 1:
            raise ProcessesNeeded(gpus)
        if settings.strategy == "fsdp":
            raise PlacementError("placement.strategy: fsdp needs at least 2 GPUs, but only 1 is visible")
    elif gpus > 1:
        raise PlacementError(
            f"{gpus} GPUs are visible; give --placement ddp to train on all of them, one process each (fsdp if the "
            "model is too large for one), or --placement single_gpu to train on the first"
        )


def visible_gpus() -> int:
    """Returns the number of accelerator devices visible to this process."""
    import torch

    return torch.accelerator.device_count() if torch.accelerator.is_available() else 0


def _strategy(settings: PlacementSettings) -> Literal["ddp", "fsdp"]:
    if settings.strategy == "auto":
        return "fsdp" if os.environ.get("ACCELERATE_USE_FSDP", "").lower() in ("1", "true") else "ddp"
    return settings.strategy


def find_device(settings: PlacementSettings) -> str:
    """Returns torch's name of the kind of device that settings choose.

    Raises:
        PlacementError: it is not available, or a run on XLA has several processes.
    """
    import torch

    if settings.device == "xla" and not _finds_xla():
        raise PlacementError(
            "placement.device: xla, but torch_xla cannot be imported, or USE_TORCH_XLA disables it; install the "
            "torch_xla for this version of torch (docs/guides/tpu.md), or choose another placement"
        )
    if settings.device == "xla" or (settings.device == "auto" and _finds_xla()):
        processes = started_processes()
        if processes > 1:
            raise PlacementError(f"{processes} processes on XLA: a run on XLA uses one process; start a single one")
        return "xla"
    available = torch.accelerator.is_available()
    if settings.device == "gpu" and not available:
        raise PlacementError("placement.device: gpu, but torch finds no usable GPU; use auto or cpu")
    if settings.device == "cpu" or not available:
        return "cpu"
    kind = torch.accelerator.current_accelerator()
    assert kind is not None  # since is_available() is true
    return str(kind.type)


def _finds_xla() -> bool:
    """Returns whether accelerate would use XLA: torch_xla is installed and USE_TORCH_XLA does not disable it."""
    if find_spec("torch_xla") is None:  # accelerate takes long to import, and need not be asked then
        return False
    from accelerate.utils import is_torch_xla_available

    return bool(is_torch_xla_available())


def _precision(asked: str, device: str, is_sharded: bool) -> Literal["no", "bf16", "fp16"]:
    """Returns the precision of training: that asked for, or for ``auto`` that of accelerate's launcher or the device.

    Raises:
        PlacementError: fp16 is asked for without a GPU, or for sharded weights.
    """
    others = "bf16, no or auto"
    if asked == "auto":
        asked, others = os.environ.get("ACCELERATE_MIXED_PRECISION", ""), "bf16 or no"
        if asked not in ("bf16", "fp16"):  # the launcher's "no" is also the default, so it does not count as a choice
            if computes_bf16_fast(device):
                return "bf16"
            return "fp16" if device == "cuda" and not is_sharded else "no"  # as T4 and V100
    if asked == "fp16" and device in ("cpu", "xla"):
        raise PlacementError(f"placement.mixed_precision: fp16 needs a GPU; on this {device.upper()} use {others}")
    if asked == "fp16" and is_sharded:
        raise PlacementError(f"placement.mixed_precision: fp16 is not supported with fsdp; use {others}")
    return "fp16" if asked == "fp16" else "bf16" if asked == "bf16" else "no"


def computes_bf16_fast(device: str) -> bool:
    """Returns whether ``device`` computes bf16 natively: CUDA GPUs with bf16, TPUs, CPUs with AVX512-BF16 or AMX.

    A CPU without those instructions computes bf16 by conversion, several times slower than float32.
    """
    import torch

    from bertkit.runtime.placement.processor import cpu_features

    if device == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device == "xla":
        from torch_xla import runtime

        return bool(runtime.device_type() == "TPU")
    return device == "cpu" and not {"avx512_bf16", "amx_bf16"}.isdisjoint(cpu_features())


def largest_divisor(number: int, limit: int) -> int:
    """Returns the largest divisor of ``number`` that is at most ``limit``.

    >>> largest_divisor(256, 32), largest_divisor(100, 32), largest_divisor(7, 4)
    (32, 25, 1)
    """
    return max(size for size in range(1, min(number, limit) + 1) if number % size == 0)
