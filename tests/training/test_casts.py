"""Weights that are cast layer by layer: outputs and gradients are those of autocast, and the weights stay in place."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import AutoModelForSequenceClassification

from bertkit import BertForSequenceClassification
from bertkit.model.modeling_bert import LayerNorm
from bertkit.recipe.settings import LoraSettings
from bertkit.training.casts import cast_by_layer
from bertkit.training.tuning import add_adapters, encoder_layers

pytestmark = pytest.mark.numeric

IDS = torch.randint(5, 60, (3, 8), generator=torch.Generator().manual_seed(1))


def gradients(model: Any) -> dict[str, torch.Tensor]:
    """Returns the gradients of a pass in bf16, and its logits."""
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(input_ids=IDS, attention_mask=torch.ones_like(IDS)).logits
    logits.float().square().sum().backward()
    found = {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}
    return {**found, "logits": logits.detach().float()}


def assert_equal_with_casts(model: Any) -> None:
    torch.manual_seed(3)
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.1)
    model.eval()
    before = model.state_dict()
    expected = gradients(model)
    with cast_by_layer(model):
        found = gradients(model)
        assert model.state_dict().keys() == before.keys()
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].dtype == value.dtype
        torch.testing.assert_close(found[name], value, rtol=0.05, atol=0.05 * float(value.abs().max()))


def test_families_compute_the_same(encoder: Any):
    if encoder.model_type == "deberta":
        pytest.skip("transformers' DeBERTa overflows in bf16")
    assert_equal_with_casts(AutoModelForSequenceClassification.from_config(encoder))


@pytest.mark.parametrize("of_weights", [torch.float32, torch.bfloat16], ids=["as they are", "cast"])
def test_autocast_of_gpus_leaves_a_layer_norm_in_half_precision(of_weights: torch.dtype):
    """On torch's tensors without values, which any machine can have on a GPU."""
    with torch.no_grad(), FakeTensorMode():
        norm, states = LayerNorm(8), torch.ones(2, 8, device="cuda", dtype=torch.bfloat16)
        norm.weight, norm.bias = (
            torch.nn.Parameter(torch.ones(8, device="cuda", dtype=of_weights), requires_grad=False) for _ in range(2)
        )
        before = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
        torch.set_autocast_enabled("cuda", True)  # the context refuses a machine without a GPU
        torch.set_autocast_dtype("cuda", torch.bfloat16)
        try:
            assert norm(states).dtype == torch.bfloat16
            assert norm(states.float()).dtype == torch.float32
        finally:
            torch.set_autocast_enabled("cuda", before[0])
            torch.set_autocast_dtype("cuda", before[1])


def test_layers_that_are_frozen_get_no_gradients(tiny_config: Any):
    model = BertForSequenceClassification(tiny_config)
    encoder_layers(model)[0].requires_grad_(False)
    assert_equal_with_casts(model)


def test_adapters_compute_the_same(tiny_config: Any):
    model = BertForSequenceClassification(tiny_config)
    add_adapters(model, LoraSettings(r=2))
    assert_equal_with_casts(model)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_recomputed_activations_are_the_same(tiny_config: Any, use_reentrant: bool):
    model = BertForSequenceClassification(tiny_config)
    model.activation_checkpointing_enable({"use_reentrant": use_reentrant})
    model.train()
    assert_equal_with_casts(model)


def test_weights_are_back_after_an_error_and_at_the_end(tiny_config: Any):
    model = BertForSequenceClassification(tiny_config)
    layer = model.bert.encoder.layer[0]
    seen = []

    def fails(*_: Any) -> None:
        seen.append(layer.output.dense.weight.dtype)
        raise torch.OutOfMemoryError("CUDA out of memory.")

    with cast_by_layer(model):
        with layer.output.dense.register_forward_pre_hook(fails), pytest.raises(torch.OutOfMemoryError):
            gradients(model)
        assert layer.output.dense.weight is dict(layer.named_parameters())["output.dense.weight"]
    assert seen == [torch.bfloat16]
    gradients(model)
    assert not layer._forward_pre_hooks
