"""Queries, keys and values as one product: the numbers of three, and a model that is as before afterwards."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bertkit.model.configuration_bert import BertConfig
from bertkit.model.modeling_bert import BertForSequenceClassification, BertSelfAttention
from bertkit.training.joint_projections import JointSelfAttention, joint_projections


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


def test_gradients_add_up_and_activations_are_recomputed():
    model = bert()
    with joint_projections(model):
        once = logits_and_gradients(model)
        model.activation_checkpointing_enable()
        assert difference(logits_and_gradients(model), once) == 0
        gradient = model.bert.encoder.layer[0].attention.self.key.weight.grad
        before = gradient.clone()
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(torch.arange(5, 12)[None], labels=torch.tensor([1])).loss
        loss.backward()
        assert not torch.equal(gradient, before)


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


def test_layers_that_are_not_torchs_own_are_left_to_themselves():
    """As an adapter's are, which computes more than a product."""

    class Adapted(nn.Linear):
        pass

    model = bert()
    model.bert.encoder.layer[1].attention.self.value.__class__ = Adapted
    with joint_projections(model):
        kinds = [type(layer.attention.self) for layer in model.bert.encoder.layer]
    assert kinds == [JointSelfAttention, BertSelfAttention]
