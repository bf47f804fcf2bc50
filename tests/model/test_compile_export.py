from __future__ import annotations

from typing import Any

import pytest
import torch

from bertkit import BertForPreTraining, BertModel

# torch's compiler calls functions that torch has deprecated.
torch_warns_of_itself = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def batch() -> dict[str, torch.Tensor]:
    return {
        "input_ids": torch.randint(99, (2, 8)),
        "attention_mask": torch.tensor([[1] * 8, [1] * 5 + [0] * 3]),
        "token_type_ids": torch.tensor([[0] * 4 + [1] * 4] * 2),
    }


def masked_batch() -> dict[str, torch.Tensor]:
    return {
        **batch(),
        "masked_positions": torch.tensor([[1, 4, 6], [2, 0, 0]]),
        "labels": torch.tensor([[5, 6, 7], [8, -100, -100]]),
        "next_sentence_label": torch.tensor([0, 1]),
    }


def test_exported_encoder_takes_other_shapes(tiny_config: Any) -> None:
    model = BertModel(tiny_config).eval()
    shape = {0: torch.export.Dim("batch", min=1, max=64), 1: torch.export.Dim("length", min=2, max=16)}
    program = torch.export.export(model, (), batch(), dynamic_shapes=dict.fromkeys(batch(), shape))
    ids = torch.randint(99, (3, 11))
    other = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": torch.zeros_like(ids)}
    torch.testing.assert_close(
        program.module()(**other).last_hidden_state, model(**other).last_hidden_state, rtol=0, atol=1e-6
    )


def test_exported_pretraining_computes_the_same_losses(tiny_config: Any) -> None:
    model = BertForPreTraining(tiny_config).eval()
    program = torch.export.export(model, (), masked_batch())
    other = masked_batch()
    other["labels"] = torch.tensor([[1, -100, -100], [-100, -100, -100]])
    exported, plain = program.module()(**other), model(**other)
    torch.testing.assert_close(exported.masked_lm_loss, plain.masked_lm_loss)
    torch.testing.assert_close(exported.loss, plain.loss)
    torch.testing.assert_close(exported.prediction_logits, plain.prediction_logits, rtol=0, atol=1e-6)


@pytest.mark.slow
@torch_warns_of_itself
def test_compiled_pretraining_is_one_graph(tiny_config: Any) -> None:
    model = BertForPreTraining(tiny_config)
    compiled = torch.compile(model, fullgraph=True, dynamic=False)
    inputs = masked_batch()
    plain = model(**inputs)
    plain.loss.backward()
    gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    output = compiled(**inputs)
    output.loss.backward()
    torch.testing.assert_close(output.masked_lm_loss, plain.masked_lm_loss)
    torch.testing.assert_close(output.next_sentence_loss, plain.next_sentence_loss)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name], rtol=1e-4, atol=1e-5, msg=name)
    other = masked_batch()
    with torch.compiler.set_stance("fail_on_recompile"):
        recomputed = compiled(**other)
    torch.testing.assert_close(recomputed.loss, model(**other).loss)
