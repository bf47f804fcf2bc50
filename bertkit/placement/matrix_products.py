"""Faster float32 matrix products on CPUs.

torch multiplies float32 matrices by MKL, which uses AVX2 on CPUs other than Intel's. oneDNN, another part of torch,
uses AVX-512 wherever the CPU has it, and takes half the time on CPUs that compute 512 bits at once. The results differ
by rounding.

Dimensions: I input features, O output features.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


def has_onednn() -> bool:
    """Returns whether this torch has the operators of oneDNN and this CPU has AVX-512.

    The operators are those of torch's compiler; another version of torch may lack them.
    """
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    return torch._C._has_mkldnn and all(
        hasattr(torch.ops.mkldnn, name) for name in ("_linear_pointwise", "_reorder_linear_weight")
    )


def outruns_mkl(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Returns whether oneDNN multiplies float32 matrices faster than MKL: with AVX-512, on CPUs other than Intel's."""
    return has_onednn() and cpuinfo.exists() and "GenuineIntel" not in cpuinfo.read_text()


def product(states: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Computes states · weightᵀ + bias by oneDNN.

    Args:
        states: (…, I) float32.
        weight: (O, I) float32, possibly transposed or packed.
        bias: (O) float32.

    Returns:
        (…, O) float32.
    """
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
        is_float32 = states.dtype == self.weight.dtype == torch.float32 and states.device.type == "cpu"
        if not is_float32 or states.numel() == 0 or torch.is_autocast_enabled("cpu"):  # oneDNN refuses zero rows
            return super().forward(states)
        rows = states.reshape(-1, self.in_features)
        result: Tensor = _Linear.apply(rows, self.weight, self.bias)  # type: ignore[no-untyped-call]
        return result.view(*states.shape[:-1], self.out_features)


def use_fast_products(model: nn.Module) -> list[nn.Module]:
    """Lets the linear layers of a model multiply by oneDNN where it is faster; weights do not change.

    Returns:
        The layers that were changed.
    """
    layers: list[nn.Module] = []
    if outruns_mkl():
        layers += [module for module in model.modules() if type(module) is nn.Linear]
    for layer in layers:
        layer.__class__ = OneDnnLinear
    return layers


@contextmanager
def fast_products(model: nn.Module) -> Iterator[None]:
    """Context in which `use_fast_products` applies to a model."""
    layers = use_fast_products(model)
    try:
        yield
    finally:
        for layer in layers:
            layer.__class__ = nn.Linear
