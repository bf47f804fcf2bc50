"""Settings of the ``placement`` block of a recipe; `bertkit.placement.resolve` resolves them for a machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bertkit.options import check_ranges, option, setting


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
    )
    mixed_precision: Literal["auto", "no", "bf16", "fp16"] = setting(
        "`auto` selects bf16 if the device computes it fast, else float32 (`no`).", default="auto"
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
    dataloader_num_workers: int = setting(
        "Number of data loader workers per training process.", default=0, ge=0, le=1024
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
        "Attention implementation of transformers (`sdpa`, `eager`, `flash_attention_2`, `flex_attention`); "
        "`null` for the default of transformers.",
        default=None,
    )
    cpu_speed_ups: bool = setting(
        "On a CPU, train with `bertkit.training.cpu`: the same results up to rounding, except that dropout "
        "draws other units of the same distribution. No effect on other devices.",
        default=True,
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.strategy == "fsdp" and self.num_processes == 1:
            raise ValueError("num_processes: fsdp needs at least 2 processes, got 1")
