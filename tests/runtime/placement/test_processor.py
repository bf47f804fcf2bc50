"""Linear layers by oneDNN: the results and gradients of ``nn.Linear`` up to rounding."""

from __future__ import annotations

import platform

import pytest
import torch
from torch import nn

from bertkit.runtime.placement import processor as module
from bertkit.runtime.placement.processor import OneDnnLinear, fast_products, has_onednn, outruns_mkl

pytestmark = pytest.mark.numeric
with_onednn = pytest.mark.skipif(not has_onednn(), reason="needs AVX-512 and torch with oneDNN")


@pytest.mark.parametrize(
    ("vendor", "has", "expected"),
    [("AuthenticAMD", True, True), ("GenuineIntel", True, False), ("AuthenticAMD", False, False)],
)
def test_onednn_on_avx_512_other_than_intels(monkeypatch, vendor, has, expected):
    monkeypatch.setattr(module, "has_onednn", lambda: has)
    monkeypatch.setattr(module, "_cpuinfo", lambda: ["processor\t: 0", f"vendor_id\t: {vendor}"])
    assert outruns_mkl.__wrapped__() is expected
    monkeypatch.setattr(module, "_cpuinfo", list)
    assert not outruns_mkl.__wrapped__()


def check_both_ways(layer: nn.Linear, states: torch.Tensor, gradient: torch.Tensor) -> None:
    """Compares outputs and gradients of a layer with those of the same layer by oneDNN."""
    expected = computed(layer, states, gradient)
    layer.__class__ = OneDnnLinear
    for one, other in zip(computed(layer, states, gradient), expected, strict=True):
        torch.testing.assert_close(one, other)


def computed(layer: nn.Linear, states: torch.Tensor, gradient: torch.Tensor) -> list[torch.Tensor | None]:
    """Returns the outputs and the gradients of the states and of all weights."""
    states = states.clone().requires_grad_()
    layer.zero_grad()
    outputs = layer(states)
    outputs.backward(gradient)
    return [outputs.detach(), states.grad, *(None if each.grad is None else each.grad for each in layer.parameters())]


@with_onednn
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("frozen", [(), ("weight",), ("bias",)])
@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5), (2, 0, 5)])
def test_outputs_and_gradients_are_those_of_nn_linear(shape, frozen, bias):
    torch.manual_seed(0)
    layer, states, gradient = nn.Linear(5, 7, bias=bias), torch.randn(shape), torch.randn(*shape[:-1], 7)
    for name in frozen:
        if getattr(layer, name) is not None:
            getattr(layer, name).requires_grad_(False)
    check_both_ways(layer, states, gradient)


@with_onednn
@pytest.mark.parametrize("strides", ["transposed", "sliced", "repeated"])
def test_states_and_gradients_may_have_any_strides(strides):
    torch.manual_seed(0)
    layer = nn.Linear(5, 7)
    states, gradient = (
        {
            "transposed": torch.randn(width, 6).t(),
            "sliced": torch.randn(6, 3, width)[:, 1],
            "repeated": torch.randn(1, width).expand(6, width),  # as the gradient of a sum
        }[strides]
        for width in (5, 7)
    )
    check_both_ways(layer, states, gradient)


@with_onednn
@pytest.mark.parametrize("bias", [torch.randn(14)[::2], torch.randn(1).expand(7)], ids=["sliced", "repeated"])
def test_a_bias_may_have_any_strides(bias):
    layer = nn.Linear(5, 7)
    layer.bias = nn.Parameter(bias)
    check_both_ways(layer, torch.randn(6, 5), torch.randn(6, 7))


@with_onednn
def test_outputs_may_be_changed_in_place():
    torch.manual_seed(0)
    layer, states, bias = nn.Linear(4, 6), torch.randn(2, 3, 4), torch.randn(1, requires_grad=True)

    def gradients() -> tuple[torch.Tensor, ...]:
        turned = layer(states).permute(0, 2, 1)
        turned += bias
        return torch.autograd.grad(turned.square().sum(), [layer.weight, layer.bias, bias])

    expected = gradients()
    layer.__class__ = OneDnnLinear
    for one, other in zip(gradients(), expected, strict=True):
        torch.testing.assert_close(one, other)


@with_onednn
def test_a_second_derivative_is_refused_rather_than_wrong():
    layer, states = OneDnnLinear(5, 7), torch.randn(3, 5, requires_grad=True)
    (gradient,) = torch.autograd.grad(layer(states).square().sum(), states, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_types_are_multiplied_as_before(monkeypatch, dtype):
    monkeypatch.setattr(module, "product", None)
    layer = OneDnnLinear(5, 7, dtype=dtype)
    states = torch.ones(3, 5, dtype=dtype)
    assert torch.equal(layer(states), nn.functional.linear(states, layer.weight, layer.bias))


def test_autocast_multiplies_as_before(monkeypatch):
    monkeypatch.setattr(module, "product", None)
    with torch.autocast("cpu", torch.bfloat16):
        assert OneDnnLinear(5, 7)(torch.ones(3, 5)).dtype == torch.bfloat16


def test_layers_are_changed_within_the_context_only(monkeypatch):
    monkeypatch.setattr(module, "outruns_mkl", lambda: True)
    model = nn.Sequential(nn.Linear(5, 7), nn.Sequential(nn.Linear(7, 2)), nn.Bilinear(2, 2, 2))
    layers, names = [model[0], model[1][0], model[2]], list(model.state_dict())
    with fast_products(model.modules()):
        assert [type(each) for each in layers] == [OneDnnLinear, OneDnnLinear, nn.Bilinear]
        assert list(model.state_dict()) == names
    assert [type(each) for each in layers] == [nn.Linear, nn.Linear, nn.Bilinear]


def test_layers_are_as_before_after_an_error_and_where_onednn_is_slower(monkeypatch):
    monkeypatch.setattr(module, "outruns_mkl", lambda: True)
    layer = nn.Linear(5, 7)
    with pytest.raises(RuntimeError, match="shapes"), fast_products([layer]):
        nn.functional.linear(torch.ones(2, 3), layer.weight)
    assert type(layer) is nn.Linear
    monkeypatch.setattr(module, "outruns_mkl", lambda: False)
    with fast_products([layer]):
        assert type(layer) is nn.Linear


@pytest.mark.parametrize(
    ("cpuinfo", "name", "features"),
    [
        ("model name\t: Some CPU @ 2 GHz\nflags\t\t: fpu avx2 avx512f fma sse\n", "Some CPU @ 2 GHz",
         ["avx2", "avx512f", "fma"]),
        ("CPU implementer : 0x41\nFeatures\t: fp asimd sve\n", platform.processor() or platform.machine(),
         ["asimd", "sve"]),
    ],
)  # fmt: skip
def test_the_processor_is_read_from_the_kernel(monkeypatch, cpuinfo, name, features):
    monkeypatch.setattr(module, "_cpuinfo", cpuinfo.splitlines)
    assert module.processor() == name
    assert module.cpu_features() == features
