"""What a run is going to take: the lines that it begins with, and a formula for its memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel

from bertkit.placement.resolve import Placement
from bertkit.training.cpu import attention_kernel

_WEIGHT, _GRADIENT, _MOMENTS = 4, 4, 8  # bytes for each parameter: float32, and AdamW's two moments
_GIB = 1 << 30


@dataclass(frozen=True)
class MemoryEstimate:
    """What a device has to hold in a step, in bytes.

    Attributes:
        states: weights, gradients and AdamW's two moments: 16 bytes for each parameter that is trained, 4 for each that
            is not; with FSDP every process's share of that; and buffers.
        activations: what the forward pass keeps for the backward pass; ``None`` for encoders whose sizes the formula
            does not know.
    """

    states: int
    activations: int | None

    def __str__(self) -> str:
        states = f"{self.states / _GIB:.2f} GiB of weights, gradients and AdamW's moments"
        if self.activations is None:
            return f"{states}, and activations that are not estimated for such inputs"
        total = self.states + self.activations
        return f"about {total / _GIB:.2f} GiB a device = {states} + {self.activations / _GIB:.2f} GiB of activations"


def estimate_memory(
    model: PreTrainedModel, placement: Placement, max_seq_length: int, logits_per_sequence: int = 0
) -> MemoryEstimate:
    """Memory of one device in a training step, by formula; the device's own context and buffers come on top.

    A layer keeps for each token 8 H + 2 I numbers: the inputs of its four dense layers, queries, keys, values, the
    activation's input and the two sums before the layer norms. They have 4 bytes in float32; in bf16 autocast 2, and
    4 H more of 4 bytes, the residual stream. Dropout keeps 2 H masks, of 1 byte; torch's own on a CPU of 4. Attention
    that is computed in full (``eager``; on a CPU also ``sdpa`` with dropout) keeps A S weights for each token, with
    dropout three times; with the dropout of `bertkit.training.cpu` once, and as many masks of 1 byte. Gradient
    checkpointing keeps H for each layer, and one layer's own. Logits take as many bytes again for their gradients.

    Args:
        model: read for the number of its parameters, its configuration and its kind of dropout.
        placement: read for the per-device batch, the precision and what is shared.
        max_seq_length: S, of the longest inputs; one input for each sequence of the batch.
        logits_per_sequence: numbers that a language model's head gives for each sequence.
    """
    parameters = list(model.parameters())
    states = sum(
        parameter.numel() * (_WEIGHT + (_GRADIENT + _MOMENTS) * parameter.requires_grad) for parameter in parameters
    )
    if placement.strategy == "fsdp":
        states //= placement.num_processes
    states += sum(buffer.nbytes for buffer in model.buffers())
    config = model.config
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    if not all(isinstance(getattr(config, name, None), int) for name in names):
        return MemoryEstimate(states, None)
    hidden, intermediate, layers, heads = (int(getattr(config, name)) for name in names)
    is_half, on_cpu = placement.mixed_precision != "no", placement.device == "cpu"
    token = (8 * hidden + 2 * intermediate) * 4
    if is_half:
        token = token // 2 + 4 * hidden * 4
    number = 2 if is_half else 4
    kernel, mask = attention_kernel(model)
    if getattr(config, "hidden_dropout_prob", 0):
        token += 2 * hidden * (mask or (4 if on_cpu else 1))
    dropout = bool(getattr(config, "attention_probs_dropout_prob", 0))
    if kernel == "sdpa" and dropout and mask:
        token += heads * max_seq_length * (number + mask)
    elif kernel == "eager" or (kernel == "sdpa" and dropout and on_cpu):
        token += heads * max_seq_length * (3 if dropout else 1) * number
    tokens = placement.per_device_train_batch_size * max_seq_length
    kept = tokens * layers * token
    if placement.settings.gradient_checkpointing:
        kept = tokens * (layers * hidden * 4 + token)
    logits = placement.per_device_train_batch_size * logits_per_sequence * 2 * number
    return MemoryEstimate(states, kept + logits)


def start_lines(
    model: PreTrainedModel, placement: Placement, max_seq_length: int, train_set: Any, logits_per_sequence: int = 0
) -> list[str]:
    """What a run says before its first step: where it runs, how its batch is cut, and what memory that takes.

    Args:
        model, placement, max_seq_length, logits_per_sequence: as for `estimate_memory`.
        train_set: read for the form of its first example: one input, or several.
    """
    tokens = placement.global_train_batch_size * max_seq_length
    memory = estimate_memory(model, placement, max_seq_length, logits_per_sequence)
    first = train_set[0]["input_ids"]
    if len(first) and isinstance(first[0], list):  # choices, or the windows of a text: their number is the example's
        memory = MemoryEstimate(memory.states, None)
        size = f"inputs of up to {max_seq_length} tokens"
    else:
        size = f"up to {tokens:,} tokens a step"
    where = f"{device_name(placement.device)}, {placement.describe_processes()}, {placement.describe_precision()}"
    return [
        f"placement: {where}, attention {attention_kernel(model)[0]}",
        f"batch: {placement.describe_batch()}; {size}",
        f"memory: {memory}",
    ]


def device_name(device: str) -> str:
    """A device for people: what it is, and on a CPU how many threads each process has."""
    if device == "cuda":
        return str(torch.cuda.get_device_name())
    threads = torch.get_num_threads()
    return f"cpu with {threads} thread{'s' if threads > 1 else ''}" if device == "cpu" else device
