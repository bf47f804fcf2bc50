"""Weights in half precision: under autocast, those of a layer are cast by one kernel instead of one for each.

Autocast casts every weight in each step, and the gradient of each back: a third of the kernels of a step of BERT. On
GPUs, steps of small models wait for the start of kernels. The values are those of autocast.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from transformers import PreTrainedModel

from bertkit.model.modeling_bert import LayerNorm
from bertkit.training.tuning import layers_of

_IN_HALF = (nn.Linear, LayerNorm)
"""Classes of modules that compute in the precision of autocast on every device; subclasses may read other weights."""

_WEIGHTS = ("weight", "bias")


class _Cast(torch.autograd.Function):
    """Casts tensors by one kernel, and their gradients back by another."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.dtypes = [weight.dtype for weight in weights]
        ctx.set_materialize_grads(False)
        return _copies(weights, [dtype] * len(weights))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        given = [number for number, gradient in enumerate(gradients) if gradient is not None]
        copies = _copies([gradients[number] for number in given], [ctx.dtypes[number] for number in given])
        by_place = dict(zip(given, copies, strict=True))
        return (None, *(by_place.get(number) for number in range(len(gradients))))


def _copies(tensors: Any, dtypes: list[torch.dtype]) -> tuple[Tensor, ...]:
    copies = [torch.empty_like(each, dtype=dtype) for each, dtype in zip(tensors, dtypes, strict=True)]
    if copies:
        torch._foreach_copy_(copies, list(tensors))
    return tuple(copies)


@contextmanager
def cast_by_layer(model: PreTrainedModel) -> Iterator[None]:
    """Context in which autocast meets weights of the encoder's layers that have its precision already.

    Modules have cast weights while their layer computes; their parameters stay what they are. A family without a list
    of layers stays as it is. Weights must not be sharded.
    """
    handles = []
    for layer in layers_of(model) or ():
        modules = [module for module in layer.modules() if type(module) in _IN_HALF]
        handles.append(layer.register_forward_pre_hook(partial(_cast_weights, modules)))
        handles.append(layer.register_forward_hook(partial(_uncover_parameters, modules), always_call=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _cast_weights(modules: Sequence[nn.Module], layer: nn.Module, inputs: Any) -> None:
    device = next(layer.parameters()).device.type
    if not torch.is_autocast_enabled(device):
        return
    dtype = torch.get_autocast_dtype(device)
    weights = [(module, name, getattr(module, name)) for module in modules for name in _WEIGHTS]
    for is_trained in (True, False):  # else those that are not would get gradients too
        found = [each for each in weights if each[2] is not None and each[2].requires_grad is is_trained]
        copies: tuple[Tensor, ...] = _Cast.apply(dtype, *(weight for *_, weight in found))  # type: ignore[no-untyped-call]
        for (module, name, _), copy in zip(found, copies, strict=True):
            vars(module)[name] = copy  # found before the parameter of this name


def _uncover_parameters(modules: Sequence[nn.Module], *_: Any) -> None:
    for module in modules:
        for name in _WEIGHTS:
            vars(module).pop(name, None)
