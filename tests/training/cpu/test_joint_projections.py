"""Queries, keys and values as one product: the numbers of three, and a model that is as before afterwards."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bertkit.model.configuration_bert import BertConfig
from bertkit.model.modeling_bert import BertForSequenceClassification, BertSelfAttention
from bertkit.training.cpu.joint_projections import JointSelfAttention, joint_projections


def bert() -> BertForSequenceClassification:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return BertForSequenceClassification(BertConfig(vocab_size=60, num_labels=2, **sizes, **no_dropout)).train()


def logits_and_gradients(model, is_half: bool = True) -> dict[str, torch.Tensor]:
    ids = torch.arange(5, 47).view(6, 7)
    mask = (torch.arange(7) < torch.tensor([[7], [3], [5], [7], [1], [6]])).long()
    with torch.autocast("cpu", torch.bfloat16, enabled=is_half):
        outputs = model(ids, mask, labels=torch.tensor([0, 1, 1, 0, 1, 0]))
    model.zero_grad()
    outputs.loss.backward()
    gradients = {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}
    return {"logits": outputs.logits.detach().float(), **gradients}


def difference(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    """The largest relative difference of a tensor, by the 2-norm."""
    assert one.keys() == other.keys()
    return max(((one[name] - other[name]).norm() / other[name].norm()).item() for name in one if "key.bias" not in name)


@pytest.mark.parametrize("is_half", [True, False])
def test_it_is_one_product_under_autocast_and_three_without(is_half):
    model = bert()
    with joint_projections(model), torch.autocast("cpu", torch.bfloat16, enabled=is_half):
        query, key, value = model.bert.encoder.layer[0].attention.self.projections(torch.ones(2, 3, 32))
    assert query.shape == key.shape == value.shape == (2, 4, 3, 8)
    assert (query.grad_fn is value.grad_fn) == is_half


def test_under_autocast_it_is_as_near_to_float32_as_three_products_are():
    model = bert()
    exact, three = logits_and_gradients(model, is_half=False), logits_and_gradients(model)
    with joint_projections(model):
        joint = logits_and_gradients(model)
    assert 0 < difference(three, exact) < 0.1  # what bf16 loses
    assert difference(joint, exact) < 1.5 * difference(three, exact)
    assert all(gradient.dtype == torch.float32 for gradient in joint.values())
    for name in (f"bert.encoder.layer.0.attention.self.{each}.weight" for each in ("query", "key", "value")):
        torch.testing.assert_close(joint[name], three[name], rtol=0.05, atol=0.05 * exact[name].abs().max().item())


def test_without_autocast_nothing_is_different():
    model = bert()
    three = logits_and_gradients(model, is_half=False)
    with joint_projections(model):
        assert difference(logits_and_gradients(model, is_half=False), three) == 0


def test_activations_are_recomputed():
    model = bert()
    with joint_projections(model):
        once = logits_and_gradients(model)
        model.activation_checkpointing_enable()
        assert difference(logits_and_gradients(model), once) == 0


def test_gradients_of_micro_batches_add_up():
    model = bert()
    weight = model.bert.encoder.layer[0].attention.self.key.weight

    def add(start: int) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            model(torch.arange(start, start + 7)[None], labels=torch.tensor([1])).loss.backward()
        return weight.grad.clone()

    with joint_projections(model):
        first = add(5)
        model.zero_grad()
        second = add(12)
        torch.testing.assert_close(add(5), first + second)


def test_gradients_may_lie_in_memory_in_any_order():
    attention = bert().bert.encoder.layer[0].attention.self
    attention.__class__ = JointSelfAttention
    gradients = []
    for is_dense in (True, False):
        attention.zero_grad()
        torch.manual_seed(1)
        gradient = torch.randn(3, 4, 4, 8, 2).transpose(-1, -2)  # three times (B, A, S, D)
        if is_dense:
            gradient = gradient.contiguous()
        with torch.autocast("cpu", torch.bfloat16):
            heads = attention.projections(torch.ones(4, 2, 32))
        torch.autograd.backward(heads, list(gradient.bfloat16()))
        gradients.append(attention.query.weight.grad)
    torch.testing.assert_close(*gradients)


def test_weights_that_are_frozen_get_no_gradient():
    model = bert()
    attention = model.bert.encoder.layer[0].attention.self
    model.bert.embeddings.requires_grad_(False)
    attention.query.requires_grad_(False)
    with joint_projections(model):
        names = logits_and_gradients(model).keys()
    assert not any("embeddings" in name or "layer.0.attention.self.query" in name for name in names)
    assert "bert.encoder.layer.0.attention.self.value.weight" in names


def test_a_model_has_its_own_attention_back_afterwards_even_after_a_failure():
    model = bert()
    with joint_projections(model):
        assert sum(type(module) is JointSelfAttention for module in model.modules()) == 2
    with pytest.raises(IndexError), joint_projections(model):
        model(torch.tensor([[61]]))
    assert sum(type(module) is BertSelfAttention for module in model.modules()) == 2


@pytest.mark.parametrize("by_hook", [False, True])
def test_layers_that_compute_more_than_a_product_are_left_to_themselves(by_hook):
    """As an adapter's do, or one that is watched."""

    class Adapted(nn.Linear):
        pass

    model = bert()
    value = model.bert.encoder.layer[1].attention.self.value
    if by_hook:
        value.register_forward_hook(lambda module, inputs, output: output * 2)
    else:
        value.__class__ = Adapted
    with joint_projections(model):
        kinds = [type(layer.attention.self) for layer in model.bert.encoder.layer]
    assert kinds == [JointSelfAttention, BertSelfAttention]
