"""Device and precision of inference."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from bertkit.runtime.errors import PlacementError
from bertkit.runtime.placement.processes import started_processes
from bertkit.runtime.placement.resolve import PlacementSettings, find_device

if TYPE_CHECKING:
    import torch

Precision = Literal["auto", "float32", "bf16", "fp16"]

EVALUATION_PRECISION: Precision = "float32"
"""Precision of a run's scores and predictions at its end, and of those that are computed again later, on any device."""


def inference_device(device: Literal["auto", "cpu"] = "auto") -> str:
    """Returns the device for inference in one process: the (first) accelerator, else the CPU.

    On machines with XLA it is the CPU, since inputs have many shapes and XLA compiles every shape. For the same reason,
    oneDNN keeps only a few kernels; this works only if oneDNN has not been used before.

    Raises:
        PlacementError: the name is another one, or a launcher has started several processes, which would all compute
            the same.
    """
    if device not in ("auto", "cpu"):
        raise PlacementError(f"device {device!r}: expected auto or cpu")
    processes = started_processes()
    if processes > 1:
        raise PlacementError(
            f"prediction uses a single process, and this is one of {processes}; use bertkit without a launcher"
        )
    # By default, oneDNN and what torch builds on it keep 1024 kernels each, up to 0.5 MiB apiece. To make one anew
    # takes little time beside a batch.
    for variable in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(variable, "64")
    found = find_device(PlacementSettings(device=device))
    return "cpu" if found == "xla" else found


def inference_dtype(precision: Precision, device: str) -> torch.dtype:
    """Returns the type of weights and activations for inference.

    Args:
        precision: ``auto`` is fp16 on CUDA GPUs, whose logits are nearer to those of float32 than those of bf16, which
            has 8 significant bits instead of 11; float32 on all other devices.
        device: from `inference_device`.

    Raises:
        PlacementError: the device does not have the precision, or its name is unknown.
    """
    import torch

    dtypes = {"float32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
    if precision == "auto":
        return torch.float16 if device == "cuda" else torch.float32
    if precision not in dtypes:
        raise PlacementError(f"--precision {precision}: expected auto, {', '.join(dtypes)}")
    if precision == "fp16" and device == "cpu":
        raise PlacementError("--precision fp16 needs a GPU; on this CPU use float32, bf16 or auto")
    return dtypes[precision]
