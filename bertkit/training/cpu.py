"""Speed-ups of training on CPUs, which a run takes from `cpu_speed_ups`.

They do not change results beyond rounding, except that dropout samples different units from the same distribution.

oneDNN compiles kernels for each shape and caches 1,024 of them. A step of BERT takes about twenty per length, so with
hundreds of different lengths it would compile kernels in almost every step: lengths are rounded up. Examples of
pre-training are padded to the maximum length; since the loss is a mean over the global batch, they can be regrouped by
length within it, and padding that no example needs is removed.

By default glibc returns large blocks to the system immediately. A step frees and allocates hundreds of MiB, and the
system has to map and clear the pages each time, which takes a quarter of a step.

torch's dropout takes up to a third of a training step, drawing one number per unit. Here four units share 64 random
bits, 16 each. Attention with dropout saves one tensor of weights and a mask of one byte per weight for the backward
pass, and is computed a few sequences at a time. The samples differ from torch's as with another seed; the distribution
is the same, with the probability rounded to a multiple of 2⁻¹⁶ and kept units scaled accordingly. All bits come from
torch's generator, so seeds, resumption and activation recomputation work as in torch.

Dimensions: B sequences, A heads, S tokens, P ≤ S tokens that attend to them, D width of a head.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from bertkit.runtime.placement.processor import fast_products
from bertkit.runtime.placement.resolve import Placement
from bertkit.training.batches import batch_size

_OF_TOKENS = ("input_ids", "attention_mask", "token_type_ids")  # (B, S); other tensors have other columns
# glibc's malloc.h
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4
_NEVER = -1
_GROWN_BY = 64 << 20  # bytes

ATTENTION = "sdpa_fast_dropout"  # name of `attention_forward` in transformers' registry

_STEPS = 1 << 16  # number of 16-bit values
_SCORES_AT_ONCE = 1 << 21  # 8 MiB of float32


@dataclass(frozen=True, kw_only=True)
class CpuSpeedUps:
    """Speed-ups of a run; methods of speed-ups that are off return their arguments unchanged.

    Attributes:
        is_on: the run is on a CPU, and ``placement.cpu_speed_ups`` is not false.
        regroups: examples may move between the micro-batches of a step.
        compiles: the layers are compiled by ``train.torch_compile``.
    """

    is_on: bool = False
    regroups: bool = False
    compiles: bool = False

    def micro_batches(self, batches: list[dict[str, Tensor]]) -> list[dict[str, Tensor]]:
        """Returns the micro-batches of a step, regrouped by length; their number and sizes stay the same.

        Args:
            batches: all micro-batches of this process in the step, padded on the right.
        """
        return group_by_length(batches) if self.regroups else batches

    @contextmanager
    def applied(self, model: nn.Module) -> Iterator[None]:
        """Context that applies the speed-ups to a model and to this process during training.

        The process keeps freed memory until it ends.
        """
        if self.is_on:
            keep_freed_memory()
        if not self.is_on or self.compiles:  # Inductor fails on their autograd functions
            yield
            return
        with fast_dropout(model), fast_products(model.modules()):
            yield


def cpu_speed_ups(placement: Placement, *, compiles: bool = False, is_padded: bool = False) -> CpuSpeedUps:
    """Returns the speed-ups of a run in a placement.

    Args:
        placement: source of the device, ``cpu_speed_ups`` and ``fixed_shapes``.
        compiles: ``train.torch_compile`` is on.
        is_padded: all examples are padded to the maximum length, as those of pre-training.
    """
    is_on = placement.device == "cpu" and placement.settings.cpu_speed_ups
    # A compiler would make kernels for each length of the groups.
    regroups = is_on and is_padded and not placement.fixed_shapes and not compiles
    return CpuSpeedUps(is_on=is_on, regroups=regroups, compiles=compiles)


def attention_kernel(model: PreTrainedModel) -> tuple[str, int | None]:
    """Returns transformers' name of the attention kernel, and the bytes per element of dropout masks.

    The bytes are None for torch's dropout.
    """
    kernel = str(model.config._attn_implementation)
    is_fast = kernel == ATTENTION or any(isinstance(module, FastDropout) for module in model.modules())
    return "sdpa" if kernel == ATTENTION else kernel, 1 if is_fast else None


def rounded_length(max_seq_length: int, length: int) -> int:
    """Rounds up a length by at most a sixteenth, to one of sixteen values between powers of two, but not beyond
    ``max_seq_length``.

    >>> [rounded_length(500, length) for length in (5, 31, 33, 65, 130, 257, 499)]
    [5, 31, 34, 68, 136, 272, 500]
    """
    step = max(1, 1 << length.bit_length() - 1 >> 4)
    return max(length, min(-(-length // step) * step, max_seq_length))


def group_by_length(batches: Sequence[Mapping[str, Tensor]]) -> list[dict[str, Tensor]]:
    """Sorts examples by length, longest first, into as many batches of the same sizes, cut by `rounded_length`.

    Args:
        batches: micro-batches of one step, padded on the right as given by ``attention_mask``. May be empty.
    """
    if not batches:
        return []
    examples = {name: torch.cat([batch[name] for batch in batches]) for name in batches[0]}
    lengths, order = examples["attention_mask"].sum(dim=-1).sort(descending=True, stable=True)
    first, grouped = 0, []
    for size in map(batch_size, batches):
        rows = order[first : first + size]
        columns = rounded_length(examples["input_ids"].shape[-1], int(lengths[first]))
        grouped.append(
            {name: each[rows, :columns] if name in _OF_TOKENS else each[rows] for name, each in examples.items()}
        )
        first += size
    return grouped


def keep_freed_memory() -> bool:
    """Configures the C library to keep freed memory in this process; returns False if it is not glibc.

    Peak memory stays about the same; it is returned when the process ends.
    """
    try:
        library = ctypes.CDLL("libc.so.6")
        mallopt = library.mallopt
        is_in_use = _address(library.malloc) == _address(ctypes.CDLL(None).malloc)
    except (OSError, AttributeError, TypeError):
        return False
    settings = {_M_MMAP_MAX: 0, _M_TRIM_THRESHOLD: _NEVER, _M_TOP_PAD: _GROWN_BY}
    return is_in_use and all(mallopt(name, value) == 1 for name, value in settings.items())


def _address(function: Any) -> int | None:
    return ctypes.cast(function, ctypes.c_void_p).value


# ---- dropout --------------------------------------------------------------------------------------------------------


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

    Scores and softmax are at least float32; all other products have the inputs' dtype, as in kernels without dropout.
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
    sequences, num_heads, length, width = heads.shape
    return heads.new_empty(sequences, length, num_heads, width).transpose(1, 2)


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

    Takes query (B, A, P, D), key and value (B, A, S, D), and boolean masks of four dimensions that broadcast to
    (B, A, P, S), True = attend; returns the weighted values, (B, P, A, D), and None. Scores and their softmax are
    float32 under autocast too.
    """
    is_ours = 0 < dropout < 1 and query.device.type == "cpu" and key.shape == value.shape
    is_ours = is_ours and query.shape[1] == key.shape[1]  # some encoders share keys and values among heads
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
