"""Queries, keys and values of BERT's attention as one product of the hidden states, for autocast on CPUs.

As three products each of them casts and reads the states, and three gradients of them are cast and added up. With short
inputs, where a product is soon done, that is a large part of its time.

Dimensions: B sequences, S tokens, H hidden size, A heads, D width of a head.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from transformers import PreTrainedModel

from bertkit.model.modeling_bert import BertSelfAttention


class _Projections(torch.autograd.Function):
    """Three float32 dense layers of one size, H to H, as one product in autocast's dtype.

    Takes (B, S, H), D, and weight and bias of each layer; returns (B, A, S, D) of each.
    """

    @staticmethod
    def forward(ctx: Any, states: Tensor, head_size: int, *layers: Tensor) -> tuple[Tensor, ...]:
        ctx.dtype, dtype = states.dtype, torch.get_autocast_dtype("cpu")
        weight, bias = (_side_by_side(parameters, dtype) for parameters in (layers[::2], layers[1::2]))
        shape = (*states.shape[:2], 3, -1, head_size)
        states = states.flatten(0, 1).to(dtype)
        ctx.save_for_backward(states, weight)
        return F.linear(states, weight, bias).view(shape).permute(2, 0, 3, 1, 4).contiguous().unbind()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        states, weight = ctx.saved_tensors
        batch_size, _, length, _ = gradients[0].shape
        # (B, S, 3, A, D), as the product is in memory
        gradient = torch.stack([each.transpose(1, 2) for each in gradients], dim=2).reshape(len(states), -1)
        of_states = (gradient @ weight).to(ctx.dtype).view(batch_size, length, -1)
        of_weights = (gradient.t() @ states).float().chunk(3)
        of_biases = gradient.sum(dim=0).float().chunk(3)
        return of_states, None, *(each for pair in zip(of_weights, of_biases, strict=True) for each in pair)


def _side_by_side(parameters: tuple[Tensor, ...], dtype: torch.dtype) -> Tensor:
    """Three parameters one below the other, cast on the way."""
    joint = torch.empty(3, *parameters[0].shape, dtype=dtype)
    for room, parameter in zip(joint, parameters, strict=True):
        room.copy_(parameter)
    return joint.flatten(0, 1)


class JointSelfAttention(BertSelfAttention):
    """``BertSelfAttention`` whose queries, keys and values are one product under autocast on a CPU."""

    def projections(self, hidden_states: Tensor) -> tuple[Tensor, ...]:
        if not torch.is_autocast_enabled("cpu") or self.query.weight.dtype != torch.float32:
            return super().projections(hidden_states)
        layers = (self.query, self.key, self.value)
        parameters = [parameter for layer in layers for parameter in (layer.weight, layer.bias)]
        heads: tuple[Tensor, ...] = _Projections.apply(  # type: ignore[no-untyped-call]
            hidden_states, self.attention_head_size, *parameters
        )
        return heads


@contextmanager
def joint_projections(model: PreTrainedModel) -> Iterator[None]:
    """Within it the model's attention is `JointSelfAttention` where it is BERT's own, with dense layers of torch.

    Layers that do something else besides, as an adapter's or those with hooks, are left to themselves.
    """
    modules = [
        module
        for module in model.modules()
        if type(module) is BertSelfAttention and all(map(_is_plain, (module.query, module.key, module.value)))
    ]
    for module in modules:
        module.__class__ = JointSelfAttention
    try:
        yield
    finally:
        for module in modules:
            module.__class__ = BertSelfAttention


def _is_plain(layer: nn.Module) -> bool:
    return type(layer) is nn.Linear and not layer._forward_hooks and not layer._forward_pre_hooks
