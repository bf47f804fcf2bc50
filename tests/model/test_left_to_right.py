"""Left-to-right attention (BERT §5.1): stock BERT as a decoder is the same function, and the last token is pooled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers

from bertkit import BertConfig, BertForMaskedLM, BertForSequenceClassification, BertModel
from bertkit.data.corpus.examples.masking import next_tokens

pytestmark = pytest.mark.numeric

LENGTHS = (9, 6, 4)
both_kernels = pytest.mark.parametrize("kernel", ["eager", "sdpa"])


@pytest.fixture
def config(tiny_sizes: dict[str, Any]) -> BertConfig:
    return BertConfig(**tiny_sizes, attention="left_to_right")


@pytest.fixture
def batch() -> dict[str, torch.Tensor]:
    ids = torch.randint(1, 99, (3, 9), generator=torch.Generator().manual_seed(0))
    mask = (torch.arange(9) < torch.tensor(LENGTHS)[:, None]).long()
    return {"input_ids": ids * mask, "attention_mask": mask}


@both_kernels
@pytest.mark.parametrize("padded", [True, False])
def test_states_equal_stock_decoder(
    kernel: str, padded: bool, config: BertConfig, tiny_sizes: dict[str, Any], batch: dict[str, torch.Tensor]
) -> None:
    ours = BertModel(config).eval()
    stock = transformers.BertModel(transformers.BertConfig(**tiny_sizes, is_decoder=True)).eval()
    stock.load_state_dict(ours.state_dict())
    for model in (ours, stock):
        model.set_attn_implementation(kernel)
    if not padded:
        batch = {"input_ids": batch["input_ids"][:1]}
    expected = stock(**batch, use_cache=False).last_hidden_state
    attended = batch.get("attention_mask", torch.ones(1, 9)).bool()
    for wanted in (False, True):
        found = ours(**batch, output_attentions=wanted)
        torch.testing.assert_close(found.last_hidden_state[attended], expected[attended], rtol=1e-5, atol=1e-6)
    for probabilities in found.attentions:
        assert (probabilities.triu(1) == 0).all()


def test_loss_equals_stock_language_model(
    config: BertConfig, tiny_sizes: dict[str, Any], batch: dict[str, torch.Tensor]
) -> None:
    ours = BertForMaskedLM(config).eval()
    stock = transformers.BertLMHeadModel(transformers.BertConfig(**tiny_sizes, is_decoder=True)).eval()
    stock.load_state_dict(ours.state_dict())
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    expected = stock(**batch, labels=labels, use_cache=False).loss
    made = next_tokens(batch["input_ids"].numpy(), np.array(LENGTHS))
    found = ours(
        **batch, masked_positions=torch.from_numpy(made.masked_positions), labels=torch.from_numpy(made.labels)
    )
    torch.testing.assert_close(found.loss, expected, rtol=1e-5, atol=1e-6)


def test_next_token_is_the_label() -> None:
    ids = np.array([[2, 7, 8, 3, 0], [2, 9, 3, 0, 0]])
    made = next_tokens(ids, np.array([4, 3]))
    assert made.masked_positions.tolist() == [[0, 1, 2, 0], [0, 1, 0, 0]]
    assert made.labels.tolist() == [[7, 8, 3, -100], [9, 3, -100, -100]]
    assert made.input_ids is ids


@pytest.mark.parametrize("side", ["right", "left"])
def test_last_token_is_pooled(side: str, config: BertConfig) -> None:
    model = BertForSequenceClassification(config).eval()
    ids = torch.tensor([[5, 6, 7]])
    alone = model.bert(ids)
    torch.testing.assert_close(alone.pooler_output, model.bert.pooler(alone.last_hidden_state[:, -1:]))
    if side == "right":
        padded = model.bert(torch.tensor([[5, 6, 7, 0]]), attention_mask=torch.tensor([[1, 1, 1, 0]]))
        torch.testing.assert_close(padded.pooler_output, alone.pooler_output, rtol=0, atol=1e-6)
    else:
        mask, positions = torch.tensor([[0, 1, 1, 1]]), torch.tensor([[0, 0, 1, 2]])
        padded = model.bert(torch.tensor([[0, 5, 6, 7]]), attention_mask=mask, position_ids=positions)
        torch.testing.assert_close(padded.pooler_output, alone.pooler_output, rtol=0, atol=1e-6)
