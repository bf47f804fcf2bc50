"""Faster dropout for CPUs, where torch's dropout takes up to a third of a training step, drawing one number per unit.

Here four units share 64 random bits, 16 each. Attention with dropout saves one tensor of weights and a mask of one byte
per weight for the backward pass, and is computed a few sequences at a time. The samples differ from torch's as with
another seed; the distribution is the same, with the probability rounded to a multiple of 2⁻¹⁶ and kept units scaled
accordingly. All bits come from torch's generator, so seeds, resumption and activation recomputation work as in torch.

Dimensions: B sequences, A heads, S tokens, P ≤ S tokens that attend to them, D width of a head.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

ATTENTION = "sdpa_fast_dropout"  # name of `attention_forward` in transformers' registry

_STEPS = 1 << 16  # number of 16-bit values
_SCORES_AT_ONCE = 1 << 21  # 8 MiB of float32


def kept_units(shape: torch.Size, p: float) -> tuple[Tensor, float]:
    """Samples the units to keep with probability 1 − p, 0 < p ≤ 1: uint8 mask, 1 = keep, and the scale of the kept."""
    kept = min(round((1 - p) * _STEPS), _STEPS - 1)
    count = shape.numel()
    bits = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(1 << 63), None).view(torch.int16)[:count]
    return (bits < kept - _STEPS // 2).view(torch.uint8).view(shape), _STEPS / kept if kept else 0.0


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, p: float) -> Tensor:
        kept, ctx.scale = kept_units(states.shape, p)
        ctx.save_for_backward(kept)
        return (states * kept).mul_(ctx.scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return (gradient * kept).mul_(ctx.scale), None


class FastDropout(nn.Dropout):
    """``nn.Dropout`` for floating-point tensors on a CPU; not in place."""

    def forward(self, states: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return states
        dropped: Tensor = _Dropout.apply(states, self.p)  # type: ignore[no-untyped-call]
        return dropped


class _Attention(torch.autograd.Function):
    """Computes softmax(q kᵀ · scaling + bias), with dropout, times v; saves softmax and byte mask, both (B, A, P, S).

    Scores and softmax are float32; all other products have the inputs' dtype, as in kernels without dropout.
    """

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, scaling: float, p: float
    ) -> Tensor:
        kept, ctx.scale = kept_units(torch.Size([*query.shape[:-1], key.shape[2]]), p)
        ctx.scaling = scaling
        probabilities = torch.empty(kept.shape, dtype=query.dtype)
        context = _by_token(query)
        wide = torch.promote_types(query.dtype, torch.float32)
        for rows in _pieces(kept):
            scores = (query[rows].to(wide) * scaling) @ key[rows].to(wide).transpose(-1, -2)
            if bias is not None:
                scores.add_(bias[rows])
            probabilities[rows] = _softmax_(scores)
            torch.mul((probabilities[rows] * kept[rows]) @ value[rows], ctx.scale, out=context[rows])
        ctx.save_for_backward(query, key, value, probabilities, kept, context)
        return context

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, probabilities, kept, context = ctx.saved_tensors
        of_query, of_key, of_value = _by_token(query), _by_token(key), _by_token(value)
        # Σ_j P_ij ∂L/∂P_ij, which the gradient of a softmax subtracts, is the product of a context and its gradient.
        shares = (gradient * context).sum(dim=-1, keepdim=True).mul_(1 / ctx.scale)
        for rows in _pieces(kept):
            of_context, of_softmax = gradient[rows], probabilities[rows]
            torch.mul((of_softmax * kept[rows]).transpose(-1, -2) @ of_context, ctx.scale, out=of_value[rows])
            of_scores = of_context @ value[rows].transpose(-1, -2)
            of_scores.mul_(kept[rows]).sub_(shares[rows]).mul_(of_softmax)
            torch.mul(of_scores @ key[rows], ctx.scale * ctx.scaling, out=of_query[rows])
            torch.mul(of_scores.transpose(-1, -2) @ query[rows], ctx.scale * ctx.scaling, out=of_key[rows])
        return of_query, of_key, of_value, None, None, None


def _softmax_(scores: Tensor) -> Tensor:
    """Computes the softmax over the last dimension in place; torch's is slow for fewer than 16 elements, a SIMD
    vector."""
    if scores.shape[-1] >= 16:
        return torch.softmax(scores, dim=-1, out=scores)
    scores.sub_(scores.amax(dim=-1, keepdim=True)).exp_()
    return scores.div_(scores.sum(dim=-1, keepdim=True))


def _by_token(heads: Tensor) -> Tensor:
    """Returns an empty tensor (B, A, S, D) with the memory layout (B, S, A, D), a view of (B, S, H)."""
    batch_size, num_heads, length, width = heads.shape
    return heads.new_empty(batch_size, length, num_heads, width).transpose(1, 2)


def _pieces(scores: Tensor) -> Iterator[slice]:
    """Returns the slices of sequences that are computed together, for (B, A, P, S) scores."""
    at_once = max(1, _SCORES_AT_ONCE // scores[0].numel())
    return (slice(start, start + at_once) for start in range(0, len(scores), at_once))


def attention_forward(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Computes attention as transformers' ``sdpa``, with the dropout of this module on a CPU.

    Takes query (B, A, P, D), key and value (B, A, S, D), and boolean masks that broadcast to (B, A, P, S), True =
    attend; returns the weighted values, (B, P, A, D), and None. Scores and probabilities are float32 under autocast
    too.
    """
    is_ours = 0 < dropout < 1 and query.device.type == "cpu" and key.shape == value.shape
    is_ours = is_ours and (attention_mask is None or attention_mask.dtype == torch.bool)
    if not is_ours or kwargs.get("is_causal") or getattr(module, "is_causal", False):
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
    bias = None
    if attention_mask is not None:
        bias = torch.zeros(attention_mask.shape).masked_fill_(~attention_mask, torch.finfo(torch.float32).min)
        bias = bias.expand(len(query), *bias.shape[1:])
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    with torch.autocast("cpu", enabled=False):
        context = _Attention.apply(query, key, value, bias, scaling, dropout)  # type: ignore[no-untyped-call]
    return context.transpose(1, 2), None


AttentionInterface.register(ATTENTION, attention_forward)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)


@contextmanager
def fast_dropout(model: PreTrainedModel) -> Iterator[None]:
    """Context in which the model uses the dropout of this module; weights and evaluation do not change."""
    modules = [module for module in model.modules() if type(module) is nn.Dropout and not module.inplace]
    implementation = model.config._attn_implementation
    for module in modules:
        module.__class__ = FastDropout
    if implementation == "sdpa":
        model.set_attn_implementation(ATTENTION)
    try:
        yield
    finally:
        for module in modules:
            module.__class__ = nn.Dropout
        if implementation == "sdpa":
            model.set_attn_implementation(implementation)
