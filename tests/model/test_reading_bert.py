"""The last layer computes the read tokens only; outputs, losses and gradients are those of the complete path."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bertkit import (
    BertConfig,
    BertForMaskedLM,
    BertForMultipleChoice,
    BertForNextSentencePrediction,
    BertForPreTraining,
    BertForSequenceClassification,
    BertModel,
)
from bertkit.training.cpu import fast_dropout

pytestmark = pytest.mark.numeric

LENGTHS = torch.tensor([9, 6, 4])
MASK = (torch.arange(9) < LENGTHS[:, None]).long()
MASKED = {
    "masked_positions": torch.tensor([[1, 4, 8], [5, 2, 0], [3, 0, 0]]),
    "labels": torch.tensor([[5, 6, 7], [8, 9, -100], [7, -100, -100]]),
}
HEADS = {
    BertForSequenceClassification: {"labels": torch.tensor([0, 1, 1])},
    BertForNextSentencePrediction: {"labels": torch.tensor([0, 1, 1])},
    BertForMultipleChoice: {"labels": torch.tensor([2])},
    BertForMaskedLM: MASKED,
    BertForPreTraining: {**MASKED, "next_sentence_label": torch.tensor([0, 1, 0])},
}


def batch(model_class: type, is_padded: bool) -> dict[str, torch.Tensor]:
    ids = torch.randint(5, 99, (3, 9), generator=torch.Generator().manual_seed(0))
    inputs = {"input_ids": ids, "attention_mask": MASK} if is_padded else {"input_ids": ids}
    if model_class is BertForMultipleChoice:
        inputs = {name: values[None] for name, values in inputs.items()}
    return inputs


def loss_and_gradients(model: Any, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    model.zero_grad()
    loss = model(**inputs).loss
    loss.backward()
    return loss.detach(), {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}


@pytest.mark.parametrize("is_padded", [True, False], ids=["padded", "full"])
@pytest.mark.parametrize("attention", ["bidirectional", "left_to_right"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.__name__)
def test_losses_and_gradients_equal_complete_path(
    head: Any, kernel: str, layers: int, attention: str, is_padded: bool, tiny_sizes: dict[str, Any]
) -> None:
    model = head(BertConfig(**{**tiny_sizes, "num_hidden_layers": layers, "attention": attention})).train()
    model.set_attn_implementation(kernel)
    inputs = {**batch(head, is_padded), **HEADS[head]}
    widths: list[int] = []
    model.bert.encoder.layer[-1].register_forward_hook(lambda _, __, states: widths.append(states.shape[1]))
    loss, gradients = loss_and_gradients(model, inputs)
    model.bert.encoder.skips_unread = False
    expected, expected_gradients = loss_and_gradients(model, inputs)
    reads = ("masked_positions" in inputs) * 3 + (model.bert.pooler is not None)
    assert widths == [reads, 9]
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6)
    assert gradients.keys() == expected_gradients.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, expected_gradients[name], rtol=1e-4, atol=1e-6, msg=name)


def test_states_are_those_of_the_positions(tiny_config: BertConfig) -> None:
    model = BertModel(tiny_config).eval()
    inputs, positions = batch(BertModel, True), torch.tensor([[8, 0], [5, 5], [1, 3]])
    whole, read = model(**inputs), model(**inputs, read_positions=positions)
    expected = whole.last_hidden_state[torch.arange(3)[:, None], positions]
    torch.testing.assert_close(read.last_hidden_state, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(read.pooler_output, whole.pooler_output, rtol=1e-5, atol=1e-6)
    same = model(**inputs, read_positions=torch.tensor([[2]])).last_hidden_state
    torch.testing.assert_close(same, whole.last_hidden_state[:, 2:3], rtol=1e-5, atol=1e-6)
    assert model(**inputs, read_positions=()).last_hidden_state.shape == (3, 0, tiny_config.hidden_size)


def test_a_mask_of_each_query_is_followed(tiny_config: BertConfig) -> None:
    model = BertModel(tiny_config).eval()
    ids, mask = batch(BertModel, False)["input_ids"], torch.rand(3, 1, 9, 9) > 0.4
    mask |= torch.eye(9, dtype=torch.bool)
    whole = model(ids, mask).last_hidden_state
    read = model(ids, mask, read_positions=torch.tensor([[7, 3]])).last_hidden_state
    torch.testing.assert_close(read, whole[:, [7, 3]], rtol=1e-5, atol=1e-6)


def test_kernels_of_whole_sequences_compute_the_same(tiny_config: BertConfig) -> None:
    """A kernel that is not known to take few queries gets all of them."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import sdpa_mask

    widths = []

    def attend(module: Any, query: Any, key: Any, value: Any, mask: Any, **options: Any) -> Any:
        widths.append(query.shape[2])
        return sdpa_attention_forward(module, query, key, value, mask, **options)

    AttentionInterface.register("whole_sequences", attend)
    AttentionMaskInterface.register("whole_sequences", sdpa_mask)
    model = BertForPreTraining(tiny_config).eval()
    inputs = {**batch(BertForPreTraining, True), **MASKED}
    expected = model(**inputs)
    model.set_attn_implementation("whole_sequences")
    outputs = model(**inputs)
    assert set(widths) == {9}
    torch.testing.assert_close(outputs.prediction_logits, expected.prediction_logits, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(outputs.seq_relationship_logits, expected.seq_relationship_logits, rtol=1e-5, atol=1e-6)


def test_requested_states_and_attentions_are_complete(tiny_config: BertConfig) -> None:
    model = BertForPreTraining(tiny_config).eval()
    inputs = {**batch(BertForPreTraining, True), **MASKED}
    plain = model(**inputs)
    for requested in ("output_hidden_states", "output_attentions"):
        outputs = model(**inputs, **{requested: True})
        torch.testing.assert_close(outputs.loss, plain.loss)
    states = model(**inputs, output_hidden_states=True).hidden_states
    whole = model.bert(**batch(BertForPreTraining, True)).last_hidden_state
    torch.testing.assert_close(states[-1], whole, rtol=1e-5, atol=1e-6)
    assert outputs.attentions[-1].shape == (3, tiny_config.num_attention_heads, 9, 9)
    model.config.output_hidden_states = True
    assert model(**inputs).hidden_states[-1].shape == whole.shape


@pytest.mark.parametrize("is_reentrant", [True, False])
def test_recomputed_activations_give_the_same_gradients(is_reentrant: bool, tiny_config: BertConfig) -> None:
    model = BertForPreTraining(tiny_config).train()
    inputs = {**batch(BertForPreTraining, True), **HEADS[BertForPreTraining]}
    _, expected = loss_and_gradients(model, inputs)
    model.activation_checkpointing_enable({"use_reentrant": is_reentrant})
    calls: list[Any] = []
    model.bert.encoder.layer[0].attention.register_forward_hook(lambda *_: calls.append(_))
    for name, gradient in loss_and_gradients(model, inputs)[1].items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-4, atol=1e-6, msg=name)
    assert len(calls) == 2  # once forward, once more for the gradient


def test_fast_dropout_of_few_queries_computes_the_same(tiny_config: BertConfig) -> None:
    """With the rate 2⁻³⁰, which `kept_units` rounds to 1 unit in 65,536 or none."""
    model = BertForPreTraining(tiny_config).train()
    inputs = {**batch(BertForPreTraining, True), **HEADS[BertForPreTraining]}
    loss, expected = loss_and_gradients(model, inputs)
    for layer in model.bert.encoder.layer:
        layer.attention.self.dropout.p = 2.0**-30
    with fast_dropout(model):
        fast, gradients = loss_and_gradients(model, inputs)
    torch.testing.assert_close(fast, loss, rtol=1e-3, atol=1e-3)
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, expected[name], rtol=5e-2, atol=5e-3, msg=name)


@pytest.mark.parametrize("is_fast", [True, False], ids=["fast", "torch"])
def test_kept_units_of_read_tokens_have_the_rate(is_fast: bool, tiny_sizes: dict[str, Any]) -> None:
    """Dropout of [CLS] alone: the mean over many samples is the value without dropout, and the rate is p."""
    model = BertForSequenceClassification(BertConfig(**{**tiny_sizes, "hidden_dropout_prob": 0.25})).train()
    zeros = []
    last = model.bert.encoder.layer[-1].output
    last.dense.register_forward_hook(lambda *_: torch.ones(_[2].shape))
    last.LayerNorm.register_forward_pre_hook(lambda _, inputs: zeros.append(inputs[0]))
    last.register_forward_pre_hook(lambda _, inputs: (inputs[0], torch.zeros_like(inputs[1])))
    ids = torch.randint(5, 99, (400, 4))
    if is_fast:
        with fast_dropout(model):
            model(ids)
    else:
        model(ids)
    kept = zeros[0] != 0
    assert kept.shape == (400, 1, tiny_sizes["hidden_size"])
    assert (zeros[0][kept] - 4 / 3).abs().max() < 1e-3
    spread = (0.25 * 0.75 / kept.numel()) ** 0.5
    assert abs(kept.float().mean().item() - 0.75) < 5 * spread
