from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

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
from bertkit.model import loss_bert
from bertkit.model.loss_bert import mean_cross_entropy, position_loss, problem_type, sequence_classification_loss

pytestmark = pytest.mark.numeric


def test_parameter_counts_of_base_and_large() -> None:
    with torch.device("meta"):
        base = BertModel(BertConfig())
        large = BertModel(
            BertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
        )
    assert base.num_parameters() == 109_482_240  # "110M", BERT §3
    assert large.num_parameters() == 335_141_888  # "340M"


# ------------------------------------------------------------------------------------------------------ the losses


def test_loss_divides_by_global_batch() -> None:
    logits, labels = torch.randn(6, 5), torch.tensor([0, 1, -100, 2, 3, -100])
    whole = mean_cross_entropy(logits, labels)
    for items in (4, torch.tensor(4), torch.tensor([4])):
        parts = mean_cross_entropy(logits[:3], labels[:3], items) + mean_cross_entropy(logits[3:], labels[3:], items)
        torch.testing.assert_close(parts, whole)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_loss_of_half_precision_is_float32(dtype: torch.dtype) -> None:
    logits = torch.randn(4, 50).to(dtype)
    loss = mean_cross_entropy(logits, torch.arange(4))
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, mean_cross_entropy(logits.float(), torch.arange(4)), rtol=0, atol=0)
    assert mean_cross_entropy(logits.double(), torch.arange(4)).dtype == torch.float64


@pytest.mark.parametrize("rows_at_once", [1, 3, 100])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_loss_and_gradient_equal_torch(dtype: torch.dtype, rows_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(loss_bert._LOGITS_AT_ONCE, "cpu", 30 * rows_at_once)
    monkeypatch.setattr(loss_bert, "_FEW_CLASSES", 0)
    torch.manual_seed(0)
    drawn, labels = 5 * torch.randn(8, 30), torch.tensor([0, 29, -100, 3, 3, -100, 17, 1])
    ours = drawn.to(dtype).requires_grad_()
    theirs = ours.detach().to(torch.float64).requires_grad_()
    (2 * mean_cross_entropy(ours, labels, 9)).backward()
    (2 * F.cross_entropy(theirs, labels, reduction="sum") / 9).backward()
    torch.testing.assert_close(ours.grad, theirs.grad.to(dtype))
    expected = F.cross_entropy(ours.detach().double(), labels)
    torch.testing.assert_close(mean_cross_entropy(ours, labels).double(), expected, rtol=1e-6, atol=1e-7)


def test_a_small_loss_keeps_its_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_bert, "_FEW_CLASSES", 0)
    logits = torch.tensor([[20.0, 5.0, 4.0]], requires_grad=True)
    expected = F.cross_entropy(logits.double(), torch.tensor([0]))
    assert mean_cross_entropy(logits, torch.tensor([0])).item() == pytest.approx(expected.item(), rel=0.3)
    assert mean_cross_entropy(logits.double(), torch.tensor([0])).item() == pytest.approx(expected.item(), rel=1e-9)


NOTHING = torch.full((2, 4), -100)


@pytest.mark.parametrize(
    ("head", "labels"),
    [
        (BertForPreTraining, {"labels": NOTHING}),
        (BertForPreTraining, {"labels": NOTHING[:, :3], "masked_positions": torch.zeros(2, 3, dtype=torch.long)}),
        (BertForPreTraining, {"next_sentence_label": NOTHING[:, 0]}),
        (BertForMaskedLM, {"labels": NOTHING}),
        (BertForNextSentencePrediction, {"labels": NOTHING[:, 0]}),
        (BertForSequenceClassification, {"labels": NOTHING[:, 0]}),
        (BertForTokenClassification, {"labels": NOTHING}),
        (BertForQuestionAnswering, {"start_positions": torch.tensor([4, -1]), "end_positions": torch.tensor([9, 4])}),
    ],
)
def test_without_labels_loss_and_gradients_are_zero(head: Any, labels: dict[str, Tensor], tiny_config: Any) -> None:
    model = head(tiny_config)
    loss = model(torch.randint(99, (2, 4)), **labels).loss
    assert loss.item() == 0.0
    loss.backward()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert gradients
    assert all((gradient == 0).all() for gradient in gradients)


def test_each_pretraining_loss_works_without_the_other(tiny_config: Any) -> None:
    model = BertForPreTraining(tiny_config).eval()
    ids, labels, pair = torch.randint(99, (2, 4)), torch.tensor([[-100, 5, -100, -100], [6, -100, 7, -100]]), [0, 1]
    next_sentence = torch.tensor(pair)
    neither = model(ids)
    tokens, sentences = model(ids, labels=labels), model(ids, next_sentence_label=next_sentence)
    together = model(ids, labels=labels, next_sentence_label=next_sentence)
    assert (neither.loss, neither.masked_lm_loss, neither.next_sentence_loss) == (None, None, None)
    assert tokens.next_sentence_loss is None
    assert sentences.masked_lm_loss is None
    assert tokens.loss.item() == tokens.masked_lm_loss.item() == pytest.approx(together.masked_lm_loss.item())
    assert sentences.loss.item() == sentences.next_sentence_loss.item()
    assert together.loss.item() == pytest.approx(tokens.loss.item() + sentences.loss.item())


def test_tokens_and_pairs_have_own_global_counts(tiny_config: Any) -> None:
    model = BertForPreTraining(tiny_config).eval()
    inputs = {
        "input_ids": torch.randint(99, (2, 4)),
        "labels": torch.tensor([[-100, 5, -100, -100], [6, -100, 7, -100]]),
        "next_sentence_label": torch.tensor([0, 1]),
    }
    own = model(**inputs)
    shared = model(**inputs, num_items_in_batch=12, num_pairs_in_batch=8)
    assert shared.masked_lm_loss.item() == pytest.approx(own.masked_lm_loss.item() * 3 / 12)
    assert shared.next_sentence_loss.item() == pytest.approx(own.next_sentence_loss.item() * 2 / 8)


def test_labels_of_another_shape_are_refused(tiny_config: Any) -> None:
    model = BertForMaskedLM(tiny_config)
    ids = torch.randint(99, (2, 4))
    with pytest.raises(ValueError, match=r"\(2, 3\), but the input has \(2, 4\)"):
        model(ids, labels=torch.zeros(2, 3, dtype=torch.long))
    with pytest.raises(ValueError, match=r"\(2, 4\), but `masked_positions` has \(2, 3\)"):
        model(ids, labels=torch.zeros_like(ids), masked_positions=torch.zeros(2, 3, dtype=torch.long))


def test_answers_outside_the_sequence_do_not_count() -> None:
    logits = torch.randn(4, 6)
    inside = position_loss(logits[1:3], torch.tensor([0, 5]))
    torch.testing.assert_close(position_loss(logits, torch.tensor([-1, 0, 5, 6])), inside)
    torch.testing.assert_close(position_loss(logits, torch.tensor([[6], [0], [5], [-100]])), inside)


def test_numbers_that_are_none_do_not_count(tiny_config: Any) -> None:
    tiny_config.problem_type = "regression"
    logits, labels = torch.tensor([[1.0], [2.0], [5.0]], requires_grad=True), torch.tensor([0.0, -100.0, float("nan")])
    loss = sequence_classification_loss(tiny_config, logits, labels)
    loss.backward()
    assert loss.item() == pytest.approx((1**2 + 102**2) / 2)
    assert logits.grad is not None
    assert logits.grad.flatten().tolist() == [1.0, 102.0, 0.0]


def test_answers_need_both_ends(tiny_config: Any) -> None:
    with pytest.raises(ValueError, match="`start_positions` and `end_positions`"):
        BertForQuestionAnswering(tiny_config)(torch.ones(1, 3, dtype=torch.long), start_positions=torch.tensor([1]))


@pytest.mark.parametrize(
    ("num_labels", "labels", "kind"),
    [
        (3, torch.tensor([0, 2]), "single_label_classification"),
        (3, torch.tensor([[0], [2]], dtype=torch.int32), "single_label_classification"),
        (3, torch.tensor(2), "single_label_classification"),
        (3, torch.zeros(2, 3), "multi_label_classification"),
        (1, torch.tensor([0.5, 2.0]), "regression"),
        (1, torch.tensor([[0.5], [2.0]]), "regression"),
    ],
)
def test_problem_type_follows_from_labels(num_labels: int, labels: Tensor, kind: str) -> None:
    config = BertConfig(num_labels=num_labels)
    assert problem_type(config, labels) == kind
    assert config.problem_type is None


@pytest.mark.parametrize(
    ("fields", "labels", "said"),
    [
        ({"num_labels": 1}, torch.tensor([0, 1]), "num_labels=2"),
        ({"num_labels": 3}, torch.tensor([0.5, 2.0]), "config.problem_type"),
        ({"num_labels": 3}, torch.tensor([[0, 1, 1], [1, 0, 0]]), "give floats"),
        ({"problem_type": "single_label"}, torch.tensor([0, 1]), "is 'single_label'; expected regression, single"),
    ],
)
def test_ambiguous_labels_are_refused(fields: Any, labels: Tensor, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        problem_type(BertConfig(**fields), labels)


def test_integer_labels_of_regression_are_numbers() -> None:
    config = BertConfig(num_labels=1, problem_type="regression")
    loss = sequence_classification_loss(config, torch.tensor([[1.0], [4.0]]), torch.tensor([2, 2]))
    assert loss.item() == pytest.approx((1 + 4) / 2)


def test_several_labels_average_over_all() -> None:
    config = BertConfig(num_labels=2)
    logits, labels = torch.tensor([[0.0, 0.0], [100.0, -100.0]]), torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    loss = sequence_classification_loss(config, logits, labels)
    assert loss.item() == pytest.approx(2 * math.log(2) / 4)
    assert sequence_classification_loss(config, logits, labels, 8).item() == pytest.approx(2 * math.log(2) / 8)


# ------------------------------------------------------------------------------------------------- using the model


@pytest.mark.parametrize("head", [BertModel, BertForMultipleChoice, BertForMaskedLM])
def test_embeddings_may_be_given_in_place_of_ids(head: Any, tiny_config: Any) -> None:
    model = head(tiny_config).eval()
    ids = torch.randint(99, (2, 3, 5) if head is BertForMultipleChoice else (2, 5))
    given = model.get_input_embeddings()(ids)
    torch.testing.assert_close(model(inputs_embeds=given)[0], model(ids)[0])


@pytest.mark.parametrize("inputs", [{}, {"input_ids": torch.ones(1, 2).long(), "inputs_embeds": torch.ones(1, 2, 32)}])
def test_ids_or_embeddings_are_needed(inputs: dict[str, Tensor], tiny_config: Any) -> None:
    with pytest.raises(ValueError, match="exactly one of `input_ids` and `inputs_embeds`"):
        BertModel(tiny_config)(**inputs)


def test_too_long_sequence_is_refused(tiny_config: Any) -> None:
    model = BertForMaskedLM(tiny_config)
    assert model(torch.zeros(1, 16, dtype=torch.long)).logits.shape == (1, 16, 99)
    with pytest.raises(ValueError, match=r"17 tokens.*16.*max_position_embeddings"):
        model(torch.zeros(1, 17, dtype=torch.long))


@pytest.mark.parametrize("head", [BertModel, BertForMaskedLM, BertForMultipleChoice])
def test_a_misspelt_argument_is_an_error(head: Any, tiny_config: Any) -> None:
    ids = torch.zeros(1, 2, 3, dtype=torch.long) if head is BertForMultipleChoice else torch.zeros(1, 3).long()
    with pytest.raises(TypeError, match="attention_masks"):
        head(tiny_config)(ids, attention_masks=torch.ones_like(ids))


def test_position_ids_choose_the_position_embeddings(tiny_config: Any) -> None:
    model = BertForTokenClassification(tiny_config).eval()
    ids = torch.randint(99, (1, 4))
    swapped = model(ids[:, [1, 0, 2, 3]], position_ids=torch.tensor([[1, 0, 2, 3]])).logits
    torch.testing.assert_close(swapped[:, [1, 0, 2, 3]], model(ids).logits, rtol=0, atol=1e-6)


def test_a_tuple_holds_what_the_named_output_holds(tiny_config: Any) -> None:
    model = BertForMaskedLM(tiny_config).eval()
    ids = torch.randint(99, (2, 4))
    as_tuple, named = model(ids, labels=ids, return_dict=False), model(ids, labels=ids)
    assert isinstance(as_tuple, tuple)
    torch.testing.assert_close(as_tuple[0], named.loss)
    torch.testing.assert_close(as_tuple[1], named.logits)
    model.config.return_dict = False
    assert isinstance(model(ids), tuple)


def test_new_weights_have_configured_spread(tiny_sizes: dict[str, Any]) -> None:
    torch.manual_seed(0)
    wide = {**tiny_sizes, "hidden_size": 128, "intermediate_size": 512, "vocab_size": 2000}
    model = BertForPreTraining(BertConfig(**wide, initializer_range=0.05))
    weight = model.bert.encoder.layer[1].intermediate.dense.weight  # 65536 draws: the spread is known to 0.3 %
    assert weight.std().item() == pytest.approx(0.05, rel=0.015)
    assert abs(weight.mean().item()) < 5 * 0.05 / math.sqrt(weight.numel())
    assert model.bert.embeddings.word_embeddings.weight[1:].std().item() == pytest.approx(0.05, rel=0.015)
    assert (model.bert.embeddings.word_embeddings.weight[0] == 0).all()
    assert (model.bert.pooler.dense.bias == 0).all()
    assert (model.cls.predictions.bias == 0).all()
    assert (model.bert.embeddings.LayerNorm.weight == 1).all()


def test_classifier_dropout_is_hidden_dropout_unless_said_otherwise(tiny_sizes: dict[str, Any]) -> None:
    sizes = {**tiny_sizes, "hidden_dropout_prob": 0.3}
    for head in (BertForSequenceClassification, BertForTokenClassification, BertForMultipleChoice):
        assert head(BertConfig(**sizes)).dropout.p == 0.3
        assert head(BertConfig(**sizes, classifier_dropout=0.0)).dropout.p == 0.0


# ----------------------------------------------------------------------------------------------- saving and loading


def tied(model: Any) -> bool:
    decoder, predictions = model.get_output_embeddings(), model.cls.predictions
    return (
        decoder.weight.data_ptr() == model.get_input_embeddings().weight.data_ptr()
        and decoder.weight is model.get_input_embeddings().weight
        and decoder.bias is predictions.bias
    )


@pytest.mark.parametrize("head", [BertForPreTraining, BertForMaskedLM])
def test_decoder_stays_the_token_embedding(head: Any, tiny_config: Any, tmp_path: Path) -> None:
    model = head(tiny_config)
    with torch.no_grad():
        model.cls.predictions.bias.normal_()
    assert tied(model)
    model.save_pretrained(tmp_path)
    loaded = head.from_pretrained(tmp_path)
    assert tied(loaded)
    assert torch.equal(loaded.cls.predictions.bias, model.cls.predictions.bias)
    assert torch.equal(loaded.get_input_embeddings().weight, model.get_input_embeddings().weight)
    bias = loaded.cls.predictions.bias.clone()
    for size in (120, 50):
        loaded.resize_token_embeddings(size, mean_resizing=False)
        assert tied(loaded)
        assert loaded.config.vocab_size == size
        assert loaded.cls.predictions.bias.shape == (size,)
        assert torch.equal(loaded.cls.predictions.bias[:50], bias[:50])
        assert loaded(torch.tensor([[1, 2]]))[0].shape == (1, 2, size)


def test_replaced_decoder_brings_its_bias(tiny_config: Any) -> None:
    model, decoder = BertForMaskedLM(tiny_config), torch.nn.Linear(32, 99)
    model.set_output_embeddings(decoder)
    assert model.get_output_embeddings() is decoder
    assert model.cls.predictions.bias is decoder.bias


def test_untied_matrices_stay_apart(tiny_sizes: dict[str, Any], tmp_path: Path) -> None:
    model = BertForMaskedLM(BertConfig(**tiny_sizes, tie_word_embeddings=False))
    model.save_pretrained(tmp_path)
    loaded = BertForMaskedLM.from_pretrained(tmp_path)
    for either in (model, loaded):
        assert either.get_output_embeddings().weight is not either.get_input_embeddings().weight
    assert torch.equal(loaded.get_output_embeddings().weight, model.get_output_embeddings().weight)
