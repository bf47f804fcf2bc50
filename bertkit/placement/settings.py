"""Settings of the ``placement`` block of a recipe; `bertkit.placement.resolve` resolves them for a machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class PlacementSettings:
    """Settings of the ``placement`` block of a recipe.

    Attributes:
        device: ``auto`` selects the accelerator that accelerate finds, else the CPU; ``cpu`` and ``gpu`` require that
            device, ``xla`` the device of torch_xla, such as a TPU.
        strategy: what is divided among several processes: ``ddp`` the batch; ``fsdp`` also weights, gradients and
            optimizer states. ``auto`` follows the launcher: ``ddp`` unless that of accelerate sets ``fsdp``.
        num_processes: number of processes on each machine, one per device. ``None`` for as many as a launcher has
            started; without a launcher 1, or with ``ddp`` and ``fsdp`` one per GPU.
        mixed_precision: ``auto`` selects bf16 if the device computes it fast, else float32 (``no``).
        per_device_train_batch_size: sequences per device and forward pass; ``None`` for the largest divisor of the
            sequences per process up to 32 (CPU) or 256 (GPU) of 128 tokens, fewer for longer sequences. Gradient
            accumulation covers the rest of the global batch.
        per_device_eval_batch_size: sequences per evaluation batch; does not change scores.
        dataloader_num_workers: number of data loader workers per training process.
        preprocessing_num_workers: number of processes that tokenize a corpus; ``None`` for one per available core.
        gradient_checkpointing: recompute activations in the backward pass: less memory, about a third more time.
        fixed_shapes: pad all inputs to ``max_seq_length``, for devices that compile every new shape. ``None`` for True
            on XLA only.
        attn_implementation: attention implementation of transformers (``sdpa``, ``eager``, ``flash_attention_2``,
            ``flex_attention``); ``None`` for the default of transformers.
        cpu_speed_ups: on a CPU, train with `bertkit.training.cpu`: the same results up to rounding, except that dropout
            draws other units of the same distribution. No effect on other devices.
    """

    device: Literal["auto", "cpu", "gpu", "xla"] = "auto"
    strategy: Literal["auto", "ddp", "fsdp"] = "auto"
    num_processes: int | None = None
    mixed_precision: Literal["auto", "no", "bf16", "fp16"] = "auto"
    per_device_train_batch_size: int | None = None
    per_device_eval_batch_size: int = 64
    dataloader_num_workers: int = 0
    preprocessing_num_workers: int | None = None
    gradient_checkpointing: bool = False
    fixed_shapes: bool | None = None
    attn_implementation: str | None = None
    cpu_speed_ups: bool = True

    def __post_init__(self) -> None:
        if self.num_processes is not None and self.num_processes < 1:
            raise ValueError(f"num_processes: {self.num_processes} is not at least 1")
        if self.strategy == "fsdp" and self.num_processes == 1:
            raise ValueError("num_processes: fsdp needs at least 2 processes, got 1")
        if self.per_device_train_batch_size is not None and self.per_device_train_batch_size < 1:
            raise ValueError(f"per_device_train_batch_size: {self.per_device_train_batch_size} is not at least 1")
        if self.per_device_eval_batch_size < 1:
            raise ValueError(f"per_device_eval_batch_size: {self.per_device_eval_batch_size} is not at least 1")
        if self.dataloader_num_workers < 0:
            raise ValueError(f"dataloader_num_workers: {self.dataloader_num_workers} is negative")
        if self.preprocessing_num_workers is not None and self.preprocessing_num_workers < 1:
            raise ValueError(f"preprocessing_num_workers: {self.preprocessing_num_workers} is not at least 1")
