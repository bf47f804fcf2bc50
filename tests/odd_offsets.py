"""Weights at other addresses than torch's own, as those of a memory-mapped file are: an emulation for tests.

The kernels of a CPU may choose their order of summation by the address of a matrix. torch allocates at multiples of 64
bytes; the weights of a file that is mapped lie wherever its header ends. Here every weight of a model lies at an
address that is not such a multiple, and two models of one test at different places.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

_RANDOM = random.Random(0)


def moved(values: Tensor) -> Tensor:
    """Returns a copy whose address is not a multiple of 64 bytes; other than dense tensors on a CPU as they are."""
    if values.device.type != "cpu" or values.layout != torch.strided or not values.is_contiguous():
        return values
    offset = _RANDOM.randint(1, 15)
    storage = torch.empty(values.numel() + offset, dtype=values.dtype)
    return storage[offset:].view(values.shape).copy_(values)


@contextmanager
def odd_offsets() -> Iterator[None]:
    """Within it, weights lie at odd offsets: those of modules that are built and of models that are loaded."""
    register, load = nn.Module.register_parameter, PreTrainedModel.from_pretrained.__func__

    def register_moved(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        if parameter is not None:
            parameter.data = moved(parameter.data)
        register(module, name, parameter)

    def load_moved(cls: type[PreTrainedModel], *args: Any, **kwargs: Any) -> Any:
        loaded = load(cls, *args, **kwargs)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        for parameter in model.parameters():
            parameter.data = moved(parameter.data)
        return loaded

    nn.Module.register_parameter = register_moved
    PreTrainedModel.from_pretrained = classmethod(load_moved)
    try:
        yield
    finally:
        nn.Module.register_parameter = register
        PreTrainedModel.from_pretrained = classmethod(load)
