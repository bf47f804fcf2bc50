"""What a recipe's ``placement`` block may say about where a run happens; `bertkit.placement.resolve` works it out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class PlacementSettings:
    """The ``placement`` block of a recipe.

    Attributes:
        device: ``auto`` takes the accelerator that accelerate finds, else the CPU; ``cpu`` and ``gpu`` insist on one,
            ``xla`` on what torch_xla computes on, a TPU for one.
        strategy: what several processes share: ``ddp`` the batch, ``fsdp`` also weights, gradients and optimizer
            states. ``auto`` is what the launcher says, which is ``ddp`` unless accelerate's says ``fsdp``.
        num_processes: processes on each machine, one for each device. ``None`` is as many as a launcher has started;
            without a launcher one, or with ``ddp`` and ``fsdp`` one for each GPU.
        mixed_precision: ``auto`` is bf16 where the device computes it fast, else float32 (``no``).
        per_device_train_batch_size: sequences one device takes at once; ``None`` chooses the largest divisor of the
            global batch up to 32 (CPU) or 256 (GPU) of 128 tokens, fewer where they are longer. The rest is gradient
            accumulation.
        per_device_eval_batch_size: sequences in one evaluation batch; does not change any score.
        dataloader_num_workers: processes that prepare batches beside each training process.
        preprocessing_num_workers: processes that tokenize a corpus; ``None`` is one for each core that may be used.
        gradient_checkpointing: recompute activations in the backward pass: less memory, about a third more time.
        fixed_shapes: give every batch one shape, for devices that compile each shape anew: inputs are padded to
            ``max_seq_length``, and an epoch's last batch is filled up with examples that count for nothing. ``None`` is
            on XLA alone.
        attn_implementation: attention kernel as transformers names it (``sdpa``, ``eager``, ``flash_attention_2``,
            ``flex_attention``); ``None`` leaves the choice to transformers.
        cpu_speed_ups: on a CPU, train with `bertkit.training.cpu`: the same numbers up to rounding, except that dropout
            draws other units of the same distribution. Has no effect on other devices.
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
            raise ValueError("num_processes: fsdp shares a model among at least 2 processes, got 1")
        if self.per_device_train_batch_size is not None and self.per_device_train_batch_size < 1:
            raise ValueError(f"per_device_train_batch_size: {self.per_device_train_batch_size} is not at least 1")
        if self.per_device_eval_batch_size < 1:
            raise ValueError(f"per_device_eval_batch_size: {self.per_device_eval_batch_size} is not at least 1")
        if self.dataloader_num_workers < 0:
            raise ValueError(f"dataloader_num_workers: {self.dataloader_num_workers} is negative")
        if self.preprocessing_num_workers is not None and self.preprocessing_num_workers < 1:
            raise ValueError(f"preprocessing_num_workers: {self.preprocessing_num_workers} is not at least 1")
