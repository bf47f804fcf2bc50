"""The processor: its name and features, and faster float32 matrix products.

torch multiplies float32 matrices by MKL, which uses AVX2 on CPUs other than Intel's. oneDNN, another part of torch,
uses AVX-512 wherever the CPU has it, and takes half the time on CPUs that compute 512 bits at once. The results differ
by rounding.

Dimensions: I input features, O output features.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.parametrize import is_parametrized

# Features of CPUs on which speed, and the last digits of results, depend.
_FEATURES = re.compile(
    r"avx2|avx512f|avx512_bf16|avx512_vnni|avx_vnni|amx_(?:tile|bf16|int8)|fma|sve2?|asimd|bf16|i8mm"
)


def processor() -> str:
    """Returns the name of the processor."""
    for line in _cpuinfo():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def cpu_features() -> list[str]:
    """Returns the features of the processor on which speed depends; empty where they are not known."""
    for line in _cpuinfo():
        if line.startswith(("flags", "Features")):
            return sorted(filter(_FEATURES.fullmatch, set(line.partition(":")[2].split())))
    return []


def _cpuinfo() -> list[str]:
    """Returns the lines of ``/proc/cpuinfo``; none on systems other than Linux."""
    with suppress(OSError):
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    return []


def has_onednn() -> bool:
    """Returns whether this torch has the operators of oneDNN and this CPU has AVX-512.

    The operators are those of torch's compiler; another version of torch may lack them.
    """
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    return torch._C._has_mkldnn and all(
        hasattr(torch.ops.mkldnn, name) for name in ("_linear_pointwise", "_reorder_linear_weight")
    )


@cache
def outruns_mkl() -> bool:
    """Returns whether oneDNN is expected to multiply float32 matrices faster than MKL.

    That is with AVX-512, on CPUs other than Intel's; False where the maker is not known.
    """
    lines = _cpuinfo()
    return has_onednn() and bool(lines) and not any("GenuineIntel" in line for line in lines)


def product(states: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Computes states · weightᵀ + bias, (…, O) float32, by oneDNN.

    Args:
        states: (…, I) float32.
        weight: (O, I) float32, possibly transposed or packed.
        bias: (O) float32.
    """
    bias = None if bias is None else bias.contiguous()  # oneDNN ignores its stride
    result: Tensor = torch.ops.mkldnn._linear_pointwise(states, weight, bias, "none", [], "")
    return result


class _Linear(torch.autograd.Function):
    """Computes (N, I) · (O, I)ᵀ + (O) = (N, O) by oneDNN.

    Rows have one dimension, since `product` returns a view for more, and no view that a function has made may be
    changed in place, as DeBERTa does.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(rows, weight)
        return product(rows, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight = ctx.saved_tensors
        of_rows, of_weight, of_bias = ctx.needs_input_grad
        return (
            product(gradient, weight.t()) if of_rows else None,
            product(gradient.t(), rows.t()) if of_weight else None,
            gradient.sum(dim=0) if of_bias else None,
        )


class OneDnnLinear(nn.Linear):
    """``nn.Linear`` that multiplies float32 matrices on the CPU by oneDNN, and all others as ``nn.Linear`` does.

    Gradients have no gradients of their own.
    """

    def forward(self, states: Tensor) -> Tensor:
        is_ours = states.dtype == self.weight.dtype == torch.float32 and states.device.type == "cpu"
        is_ours = is_ours and type(self.weight) in (Tensor, nn.Parameter)  # subclasses multiply in their own way
        if not is_ours or states.numel() == 0 or torch.is_autocast_enabled("cpu"):  # oneDNN refuses zero rows
            return super().forward(states)
        rows = states.reshape(-1, states.shape[-1])
        result: Tensor = _Linear.apply(rows, self.weight, self.bias)  # type: ignore[no-untyped-call]
        return result.view(*states.shape[:-1], -1)


@contextmanager
def fast_products(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Context in which the linear layers among modules multiply by oneDNN where it is faster; weights do not change."""
    layers: list[nn.Module] = []
    if outruns_mkl():
        layers += [module for module in modules if type(module) is nn.Linear]
    for layer in layers:
        layer.__class__ = OneDnnLinear
    try:
        yield
    finally:
        for layer in layers:
            if not is_parametrized(layer):  # its class is one of its own then
                layer.__class__ = nn.Linear
