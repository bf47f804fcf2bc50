from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers

from bertkit import BertConfig, BertForSequenceClassification, BertModel

pytestmark = pytest.mark.numeric


@pytest.fixture(params=["eager", "sdpa"])
def model(request: pytest.FixtureRequest, tiny_config: Any) -> BertModel:
    model = BertModel(tiny_config).eval()
    model.set_attn_implementation(request.param)
    return model


def test_padding_changes_nothing_and_is_never_attended_to(model: BertModel) -> None:
    ids = torch.randint(1, 99, (1, 5))
    padded = torch.cat([ids, torch.randint(99, (1, 4))], dim=1)
    mask = torch.tensor([[1] * 5 + [0] * 4])
    alone, output = model(ids), model(padded, attention_mask=mask, output_attentions=True)
    torch.testing.assert_close(output.last_hidden_state[:, :5], alone.last_hidden_state, rtol=0, atol=1e-6)
    torch.testing.assert_close(output.pooler_output, alone.pooler_output, rtol=0, atol=1e-6)
    assert all((probs[..., 5:] == 0).all() for probs in output.attentions)


def test_texts_of_a_batch_are_apart_and_packed_ones_are_not(model: BertModel, tiny_sizes: dict[str, Any]) -> None:
    """Stock BERT with two texts in one row, whose positions begin anew, attends from one to the other."""
    first, second, other = torch.randint(1, 99, (3, 1, 5))
    mask = torch.tensor([[1] * 5, [1] * 3 + [0] * 2])
    beside = [model(torch.cat([first, each]), attention_mask=mask).last_hidden_state[0] for each in (second, other)]
    torch.testing.assert_close(beside[0], beside[1], rtol=0, atol=1e-6)
    stock = transformers.BertModel(transformers.BertConfig(**tiny_sizes)).eval()
    positions = torch.arange(5).repeat(1, 2)
    rows = [torch.cat([first, each], dim=1) for each in (second, other)]
    packed = [stock(row, position_ids=positions).last_hidden_state[0, :5] for row in rows]
    assert (packed[0] - packed[1]).abs().max() > 1e-4


def test_a_sequence_of_padding_only_stays_finite(model: BertModel) -> None:
    mask = torch.tensor([[1, 1, 1], [0, 0, 0]])
    for wanted in (False, True):
        model.zero_grad()
        output = model(torch.randint(99, (2, 3)), attention_mask=mask, output_attentions=wanted)
        assert output.last_hidden_state.isfinite().all()
        output.last_hidden_state.sum().backward()
        assert all(parameter.grad.isfinite().all() for parameter in model.encoder.parameters())


@pytest.mark.parametrize("kernel", ["flex_attention", "flash_attention_2"])
def test_a_kernel_without_probabilities_says_what_to_do(kernel: str, tiny_config: Any) -> None:
    model = BertForSequenceClassification(tiny_config)
    model.config._attn_implementation = kernel
    with pytest.raises(ValueError, match=rf'{kernel}.*set_attn_implementation\("eager"\)'):
        model(torch.randint(99, (1, 3)), output_attentions=True)


def test_sdpa_is_the_default(tiny_config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    real = torch.nn.functional.scaled_dot_product_attention

    def counted(*args: Any, **kwargs: Any) -> torch.Tensor:
        calls.append(kwargs["is_causal"])
        return real(*args, **kwargs)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", counted)
    model = BertModel(tiny_config)
    assert model.config._attn_implementation == "sdpa"
    model(torch.randint(99, (1, 3)))
    assert calls == [False, False]  # one call a layer, and not causal


def test_own_attention_function_is_not_causal(tiny_config: Any) -> None:
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import sdpa_mask

    seen = []

    def spy(module: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(module.is_causal)
        return sdpa_attention_forward(module, *args, **kwargs)

    AttentionInterface.register("bertkit_spy", spy)
    AttentionMaskInterface.register("bertkit_spy", sdpa_mask)
    model = BertModel(tiny_config).eval()
    ids, mask = torch.randint(99, (2, 4)), torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    expected = model(ids, attention_mask=mask).last_hidden_state
    model.set_attn_implementation("bertkit_spy")
    torch.testing.assert_close(model(ids, attention_mask=mask).last_hidden_state, expected)
    assert seen == [False, False]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's compiler calls what torch has deprecated
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile:UserWarning")
def test_flex_attention_gives_what_sdpa_gives(tiny_sizes: dict[str, Any]) -> None:
    # flex attention wants heads at least 16 wide.
    model = BertModel(BertConfig(**{**tiny_sizes, "hidden_size": 64})).eval()
    ids, mask = torch.randint(99, (2, 16)), torch.tensor([[1] * 16, [1] * 9 + [0] * 7])
    with torch.no_grad():
        expected = model(ids, attention_mask=mask).last_hidden_state
        model.set_attn_implementation("flex_attention")
        output = model(ids, attention_mask=mask).last_hidden_state
    torch.testing.assert_close(output[mask.bool()], expected[mask.bool()], rtol=0, atol=1e-5)
