"""Joined sequences have the outputs, losses and gradients of padded ones, whatever is read of them."""

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
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
)
from bertkit.model.joined import JOINED, LENGTHS, joined_sequences, reason_not_to_join

pytestmark = pytest.mark.numeric

MASKS = {
    "on the right": torch.tensor([[1] * 9, [1] * 6 + [0] * 3, [1] * 4 + [0] * 5, [1] + [0] * 8]),
    "anywhere": torch.tensor([[1] * 9, [1, 0, 1, 1, 0, 1, 0, 0, 0], [1, 1, 1, 0, 1, 0, 0, 0, 0], [1] + [0] * 8]),
    "nowhere": torch.ones(4, 9, dtype=torch.long),
}
TAGS = torch.tensor([[-100, 0, 1, 1, 0, 2, 2, 1, -100], [-100, -100, 0, 2] + [-100] * 5, [-100, 1] + [-100] * 7])
TAGS = torch.cat([TAGS, torch.full((1, 9), -100)])
MASKED = {
    "masked_positions": torch.tensor([[1, 4, 8], [5, 2, 0], [2, 0, 0], [0, 0, 0]]),
    "labels": torch.tensor([[5, 6, 7], [8, 9, -100], [7, -100, -100], [-100] * 3]),
}
CASES: dict[str, tuple[type, dict[str, Any]]] = {
    "classification": (BertForSequenceClassification, {"labels": torch.tensor([0, 1, 1, 0])}),
    "tags": (BertForTokenClassification, {"labels": TAGS}),
    "choice": (BertForMultipleChoice, {"labels": torch.tensor([1, 0])}),
    "next sentence": (BertForNextSentencePrediction, {"labels": torch.tensor([0, 1, 1, 0])}),
    "pre-training": (BertForPreTraining, {**MASKED, "next_sentence_label": torch.tensor([0, 1, 0, 1])}),
    "masked tokens": (BertForMaskedLM, MASKED),
    "masked tokens by their labels": (BertForMaskedLM, {"labels": TAGS}),
}


def model_of(kind: type, sizes: dict[str, Any], **fields: Any) -> Any:
    torch.manual_seed(0)
    return kind(BertConfig(**{**sizes, "num_labels": 3, **fields})).train()


def inputs_of(kind: type, mask: torch.Tensor) -> dict[str, Any]:
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 99, (4, 9), generator=draw).where(mask == 1, 0)
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": (torch.arange(9) > 3).long().expand(4, 9)}
    if kind is BertForMultipleChoice:
        inputs = {name: values.view(2, 2, 9) for name, values in inputs.items()}
    return inputs


def computed(model: Any, inputs: dict[str, Any], loss_of: Any) -> tuple[Any, dict[str, torch.Tensor]]:
    model.zero_grad()
    outputs = model(**inputs)
    loss_of(outputs).backward()
    return outputs, {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}


def assert_same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        atol = 1e-5 * max(1.0, float(values.abs().max()))
        torch.testing.assert_close(found[name], values, rtol=1e-3, atol=atol, msg=lambda text, name=name: name + text)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("case", CASES)
def test_losses_and_gradients(tiny_sizes: dict[str, Any], case: str, mask: str):
    kind, labels = CASES[case]
    model, inputs = model_of(kind, tiny_sizes), inputs_of(kind, MASKS[mask])
    expected, gradients = computed(model, {**inputs, **labels}, lambda outputs: outputs.loss)
    model.set_attn_implementation(JOINED)
    lengths = inputs["attention_mask"].sum(dim=-1).tolist()
    with joined_sequences(model):
        found, of_joined = computed(model, {**inputs, **labels, LENGTHS: lengths}, lambda outputs: outputs.loss)
    torch.testing.assert_close(found.loss, expected.loss)
    assert_same(of_joined, gradients)
    for name, values in expected.items():
        is_token = inputs["attention_mask"] == 1
        rows = is_token if values.shape[: is_token.ndim] == is_token.shape else ...
        torch.testing.assert_close(found[name][rows], values[rows], rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(model(**inputs, **labels).loss, expected.loss)  # behind the context too


@pytest.mark.parametrize("mask", MASKS)
def test_spans_and_vectors_of_tokens(tiny_sizes: dict[str, Any], mask: str):
    is_token = MASKS[mask] == 1
    for kind, names in (
        (BertForQuestionAnswering, ("start_logits", "end_logits")),
        (BertModel, ("last_hidden_state",)),
    ):
        model, inputs = model_of(kind, tiny_sizes), inputs_of(kind, MASKS[mask])
        heights = torch.randn(4, 9, generator=torch.Generator().manual_seed(1))[is_token]

        def loss(outputs: Any, names: Any = names, heights: Any = heights) -> torch.Tensor:
            return sum(outputs[name][is_token].movedim(0, -1).mul(heights).square().mean() for name in names)

        expected, gradients = computed(model, inputs, loss)
        model.set_attn_implementation(JOINED)
        with joined_sequences(model):
            found, of_joined = computed(model, inputs, loss)  # without the lengths
        assert_same(of_joined, gradients)
        for name in names:
            torch.testing.assert_close(found[name][is_token], expected[name][is_token], rtol=1e-3, atol=1e-5)
            assert found[name].shape == expected[name].shape


def test_layers_compute_no_padding(tiny_sizes: dict[str, Any]):
    model, inputs = model_of(BertModel, tiny_sizes), inputs_of(BertModel, MASKS["on the right"])
    shapes: list[torch.Size] = []
    model.encoder.layer[0].register_forward_hook(lambda layer, args, output: shapes.append(output.shape))
    model.set_attn_implementation(JOINED)
    with joined_sequences(model):
        model(**inputs)
        model(**inputs, output_hidden_states=True)  # all of them have the padded form
    assert [shape[:2] for shape in shapes] == [(1, 20), (4, 9)]


def test_a_context_within_another_does_nothing(tiny_sizes: dict[str, Any]):
    model, inputs = model_of(BertModel, tiny_sizes), inputs_of(BertModel, MASKS["on the right"])
    model.set_attn_implementation(JOINED)
    with joined_sequences(model):
        outer = model(**inputs).last_hidden_state
        with joined_sequences(model):
            inner = model(**inputs).last_hidden_state
        again = model(**inputs).last_hidden_state
    torch.testing.assert_close(inner, outer)
    torch.testing.assert_close(again, outer)


def test_recomputed_activations(tiny_sizes: dict[str, Any]):
    kind, labels = CASES["classification"]
    model, inputs = model_of(kind, tiny_sizes), inputs_of(kind, MASKS["on the right"])
    _, expected = computed(model, {**inputs, **labels}, lambda outputs: outputs.loss)
    model.activation_checkpointing_enable()
    model.set_attn_implementation(JOINED)
    with joined_sequences(model):
        _, found = computed(model, {**inputs, **labels}, lambda outputs: outputs.loss)
    assert_same(found, expected)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_what_a_gpu_computes_has_the_shapes_of_the_reference(tiny_sizes: dict[str, Any], dropout: float):
    """On torch's device without values, which calls flash attention as a GPU does, and cannot be waited for."""
    kind, labels = CASES["pre-training"]
    sizes = {**tiny_sizes, "hidden_size": 16, "num_attention_heads": 2}
    model = model_of(kind, sizes, attention_probs_dropout_prob=dropout).to("meta", torch.bfloat16)
    inputs = {**inputs_of(kind, MASKS["on the right"]), **labels}
    model.set_attn_implementation(JOINED)
    with joined_sequences(model):
        on_meta = {name: values.to("meta") for name, values in inputs.items()}
        outputs, gradients = computed(model, {**on_meta, LENGTHS: [9, 6, 4, 1]}, lambda outputs: outputs.loss)
    assert outputs.prediction_logits.shape == (4, 3, model.config.vocab_size)
    assert all(gradient.shape == model.get_parameter(name).shape for name, gradient in gradients.items())
    assert {name for name, _ in model.bert.encoder.named_parameters(prefix="bert.encoder")} <= gradients.keys()


def test_models_that_cannot_join_say_why(tiny_sizes: dict[str, Any]):
    sizes = {**tiny_sizes, "hidden_size": 16, "num_attention_heads": 2}
    assert reason_not_to_join(model_of(BertModel, sizes)) == ""
    assert "left to right" in reason_not_to_join(model_of(BertModel, sizes, attention="left_to_right"))
    assert "4 wide" in reason_not_to_join(model_of(BertModel, {**sizes, "num_attention_heads": 4}))
