"""Dropout from few random bits: distributed as torch's is, with the gradients of what was computed."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from bertkit.model.checkpoint.encoders import head_class, own_fields
from bertkit.model.configuration_bert import BertConfig
from bertkit.model.modeling_bert import BertForSequenceClassification
from bertkit.training import cpu as module
from bertkit.training.cpu import (
    ATTENTION,
    FastDropout,
    attention_forward,
    fast_dropout,
    kept_units,
)

pytestmark = pytest.mark.numeric

SHAPE = torch.Size([2, 3, 5, 4])  # (B, A, S, D)


@pytest.fixture
def one_sequence_at_once(monkeypatch):
    monkeypatch.setattr(module, "_SCORES_AT_ONCE", 1)


def heads(dtype=torch.float64, requires_grad=True, shape=SHAPE):
    torch.manual_seed(3)
    return [torch.randn(shape, dtype=dtype, requires_grad=requires_grad) for _ in range(3)]


def some_padding(length: int = 5) -> torch.Tensor:
    """All tokens of the first sequence, and half of those of the second."""
    tokens = torch.arange(length) < torch.tensor([[length], [(length + 1) // 2]])
    return tokens[:, None, None, :].expand(2, 1, length, length)


class Attention(nn.Module):
    is_causal = False


def attended(query, key, value, mask=None, dropout=0.4, seed=7):
    torch.manual_seed(seed)
    return attention_forward(Attention(), query, key, value, mask, dropout=dropout, scaling=0.5)[0].transpose(1, 2)


def written_out(query, key, value, mask=None, dropout=0.4, seed=7):
    torch.manual_seed(seed)
    kept, scale = kept_units(torch.Size([*query.shape[:-1], key.shape[2]]), dropout)
    scores = query @ key.transpose(-1, -2) * 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e30)
    return (scores.softmax(dim=-1) * kept * scale) @ value


@pytest.mark.parametrize("p", [0.1, 0.25, 0.5, 0.9])
def test_all_units_stay_with_the_same_probability(p):
    torch.manual_seed(0)
    kept, scale = kept_units(torch.Size([1000, 4004]), p)
    assert scale * (1 - p) == pytest.approx(1, abs=1e-4)
    deviation = (p * (1 - p) / kept[:, ::4].numel()) ** 0.5
    for place in range(4):
        assert kept[:, place::4].double().mean().item() == pytest.approx(1 - p, abs=5 * deviation)


def test_units_are_drawn_independently_of_each_other():
    torch.manual_seed(0)
    kept, _ = kept_units(torch.Size([1 << 20]), 0.1)
    dropped = 1 - kept.double()
    for distance in (1, 2, 3, 4, 64):
        together = (dropped[distance:] * dropped[:-distance]).mean().item()
        assert together == pytest.approx(0.01, abs=5e-4)


@pytest.mark.parametrize(("p", "staying"), [(1e-9, 1.0), (1.0, 0.0)])
def test_probabilities_at_the_ends(p, staying):
    kept, scale = kept_units(torch.Size([101]), p)
    assert kept.double().mean().item() == pytest.approx(staying, abs=0.02)
    assert torch.isfinite(torch.tensor(scale))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_dropout_scales_what_stays_and_so_its_gradient(dtype):
    torch.manual_seed(1)
    states = torch.ones(64, 33, dtype=dtype, requires_grad=True)
    dropped = FastDropout(0.3)(states)
    dropped.sum().backward()
    assert dropped.dtype == dtype
    assert sorted(dropped.unique().tolist()) == pytest.approx([0, 1 / 0.7], rel=1e-2)
    torch.testing.assert_close(states.grad, dropped.detach())


def test_dropout_is_off_in_evaluation_and_without_probability():
    states = torch.randn(4, 4)
    assert FastDropout(0.5).eval()(states) is states
    assert FastDropout(0.0)(states) is states


@pytest.mark.parametrize("length", [1, 2, 5, 15, 16, 17, 40])
@pytest.mark.parametrize("is_padded", [False, True], ids=["whole", "padded"])
def test_attention_equals_its_written_out_form(length, is_padded, one_sequence_at_once):
    shape, mask = torch.Size([2, 3, length, 4]), some_padding(length) if is_padded else None
    ours, theirs = heads(shape=shape), heads(shape=shape)
    torch.testing.assert_close(attended(*ours, mask), written_out(*theirs, mask))
    weights = torch.randn(shape, dtype=torch.float64)
    for one, other in zip(
        torch.autograd.grad(attended(*ours, mask), ours, weights),
        torch.autograd.grad(written_out(*theirs, mask), theirs, weights),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_the_gradient_of_attention_is_the_numerical_one():
    assert torch.autograd.gradcheck(lambda *inputs: attended(*inputs, some_padding()), heads())


@pytest.mark.parametrize("length", [15, 16])
def test_attention_of_large_scores_is_finite(length):
    """Their exponentials are beyond float32."""
    query, key, value = heads(torch.float32, requires_grad=False, shape=torch.Size([2, 3, length, 4]))
    torch.testing.assert_close(attended(100 * query, key, value), written_out(100 * query, key, value))


def test_attention_in_bf16_is_near_that_in_float32():
    exact = [each.requires_grad_() for each in heads(torch.float32, requires_grad=False)]
    rounded = [each.detach().bfloat16().requires_grad_() for each in exact]
    one, other = attended(*exact), attended(*rounded)
    assert other.dtype == torch.bfloat16
    torch.testing.assert_close(other.float(), one, atol=0.05, rtol=0.05)
    for inputs in (exact, rounded):
        attended(*inputs).sum().backward()
    for exactly, roughly in zip(exact, rounded, strict=True):
        torch.testing.assert_close(roughly.grad.float(), exactly.grad, atol=0.1, rtol=0.1)


def test_without_dropout_attention_is_transformers_own():
    inputs = heads(torch.float32)
    plain = nn.functional.scaled_dot_product_attention(*inputs, attn_mask=some_padding(), scale=0.5)
    torch.testing.assert_close(attended(*inputs, some_padding(), dropout=0.0), plain, rtol=0, atol=0)


def test_heads_that_share_keys_and_values_have_transformers_attention():
    query, key, value = heads(torch.float32)
    module = Attention()
    module.num_key_value_groups = 3
    torch.manual_seed(7)
    found, _ = attention_forward(module, query, key[:, :1], value[:, :1], some_padding(), dropout=0.4)
    torch.manual_seed(7)
    wanted, _ = sdpa_attention_forward(module, query, key[:, :1], value[:, :1], some_padding(), dropout=0.4)
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)


def test_attention_without_kept_units_is_zero():
    inputs = heads()
    context = attended(*inputs, dropout=1.0)
    context.sum().backward()
    assert not context.any()
    assert not any(each.grad.any() for each in inputs)


def tiny_bert(dropout: float, attention: str = "sdpa") -> BertForSequenceClassification:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, num_labels=2,
        hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout, attn_implementation=attention,
    )  # fmt: skip
    return BertForSequenceClassification(config).train()


def gradients(model, seed=5):
    torch.manual_seed(seed)
    mask = torch.tensor([[1] * 7, [1, 1, 1, 1, 0, 0, 0]])
    loss = model(torch.arange(14).view(2, 7), mask, labels=torch.tensor([0, 1])).loss
    model.zero_grad()
    loss.backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


def test_a_model_without_dropout_computes_what_it_computes():
    model = tiny_bert(dropout=0.0)
    plain = gradients(model)
    with fast_dropout(model):
        for name, gradient in gradients(model).items():
            torch.testing.assert_close(gradient, plain[name])


def test_dropout_is_restored_also_after_a_failure():
    model = tiny_bert(dropout=0.1)
    plain = gradients(model)
    with fast_dropout(model):
        assert model.config._attn_implementation == ATTENTION
        assert any(isinstance(each, FastDropout) for each in model.modules())
        fast = gradients(model)
        assert any(not torch.equal(fast[name], plain[name]) for name in plain)
    with pytest.raises(IndexError), fast_dropout(model):
        model(torch.tensor([[51]]))
    assert model.config._attn_implementation == "sdpa"
    assert not any(isinstance(each, FastDropout) for each in model.modules())
    assert all(torch.equal(gradient, plain[name]) for name, gradient in gradients(model).items())


def test_draws_depend_on_the_seed_alone():
    model = tiny_bert(dropout=0.2)
    with fast_dropout(model):
        once = gradients(model)
        assert all(torch.equal(gradient, once[name]) for name, gradient in gradients(model).items())
        model.activation_checkpointing_enable()
        for name, gradient in gradients(model).items():
            torch.testing.assert_close(gradient, once[name])


def test_a_kernel_that_was_chosen_by_name_stays():
    model = tiny_bert(dropout=0.1, attention="eager")
    with fast_dropout(model):
        assert model.config._attn_implementation == "eager"


def test_every_family_trains_with_it(encoder):
    """Mean and deviation of the outputs of many draws are those with torch's; in evaluation nothing is different."""
    for field in own_fields(type(encoder)):
        if "dropout" in field:
            setattr(encoder, field, 0.2)
    encoder.num_labels, encoder.layerdrop = 3, 0.0
    torch.manual_seed(0)
    model = head_class("BertForSequenceClassification", encoder, "here")(encoder).train()
    ids = torch.arange(5, 14).repeat(3000, 1)
    mask = (torch.arange(9) < 7).long().expand(3000, 9)

    def drawn() -> torch.Tensor:
        torch.manual_seed(1)
        return model(input_ids=ids, attention_mask=mask).logits

    plain = drawn()
    with fast_dropout(model):
        fast = drawn()
        fast.sum().backward()
        evaluated = model.eval()(input_ids=ids[:2], attention_mask=mask[:2]).logits
    assert not torch.equal(fast, plain)
    deviation = ((plain.var(dim=0) + fast.var(dim=0)) / 3000).sqrt()
    assert ((fast.mean(dim=0) - plain.mean(dim=0)).abs() < 5 * deviation).all()
    torch.testing.assert_close(fast.std(dim=0), plain.std(dim=0), rtol=0.1, atol=0)
    torch.testing.assert_close(evaluated, model(input_ids=ids[:2], attention_mask=mask[:2]).logits)
