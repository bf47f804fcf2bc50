"""Clipping inside AdamW: the norm and the weights that torch's clipping gives."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch.utils.data import default_collate
from transformers import Trainer

from bertkit.model.configuration_bert import BertConfig
from bertkit.model.modeling_bert import BertForSequenceClassification
from bertkit.training.cpu.clipping import ClippingTrainer, gradient_norm

from .conftest import arguments_for

ROWS = [{"input_ids": torch.arange(5, 11) + row, "labels": torch.tensor(row % 2)} for row in range(8)]


def bert() -> BertForSequenceClassification:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64}
    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return BertForSequenceClassification(BertConfig(vocab_size=60, num_labels=2, **sizes, **no_dropout))


def trained(kind, model, folder, **arguments):
    """Six steps of two rows: the trainer, and the norms in its log."""
    arguments = {"max_grad_norm": 1.0, **arguments}
    trainer = kind(
        model=copy.deepcopy(model),
        args=arguments_for(
            folder,
            per_device_train_batch_size=2,
            max_steps=6,
            learning_rate=1e-2,
            save_strategy="no",
            **arguments,
        ),
        train_dataset=ROWS,
        data_collator=default_collate,
    )
    trainer.train()
    return trainer, [entry["grad_norm"] for entry in trainer.state.log_history if "grad_norm" in entry]


def test_the_norm_is_that_of_all_gradients_together():
    torch.manual_seed(1)
    weights = [torch.zeros(shape, requires_grad=True) for shape in ((3, 5), (7,), (2, 2, 2), (4, 4))]
    for weight in weights[:-1]:  # the last one is frozen
        weight.grad = torch.randn(weight.shape).transpose(0, -1).contiguous().transpose(0, -1)
    exact = torch.cat([weight.grad.double().flatten() for weight in weights[:-1]]).norm()
    assert gradient_norm(weights).item() == pytest.approx(exact.item(), rel=1e-6)
    assert gradient_norm(weights[-1:]).item() == 0


@pytest.mark.parametrize("max_grad_norm", [0.05, 1e3], ids=["clipped", "not clipped"])
@pytest.mark.parametrize("optim", ["adamw_torch_fused", "adamw_torch", "sgd"])
def test_norms_and_weights_are_those_of_torchs_clipping(optim, max_grad_norm, tmp_path):
    model = bert()
    ours, our_norms = trained(ClippingTrainer, model, tmp_path, optim=optim, max_grad_norm=max_grad_norm)
    theirs, their_norms = trained(Trainer, model, tmp_path, optim=optim, max_grad_norm=max_grad_norm)
    assert our_norms == pytest.approx(their_norms, rel=1e-4)
    assert min(our_norms) > 0.05
    expected = theirs.model.state_dict()
    for name, weight in ours.model.state_dict().items():
        torch.testing.assert_close(weight, expected[name], rtol=1e-3, atol=1e-4)
    is_ours = getattr(ours.optimizer.optimizer, "grad_scale", None) is not None
    assert is_ours == (optim == "adamw_torch_fused")


def test_an_optimizer_whose_loaded_state_is_not_fused_is_clipped_as_ever(tmp_path):
    """As that of a run that began on XLA."""

    class Resumed(ClippingTrainer):
        def create_optimizer(self, *args):
            optimizer = super().create_optimizer(*args)
            state = optimizer.state_dict()
            optimizer.load_state_dict(
                {**state, "param_groups": [{**group, "fused": None} for group in state["param_groups"]]}
            )
            return optimizer

    trainer, norms = trained(Resumed, bert(), tmp_path, max_grad_norm=0.05)
    assert len(norms) == 6
    assert not hasattr(trainer.optimizer.optimizer, "grad_scale")


def test_clipping_changes_the_weights_that_are_tested_here(tmp_path):
    """AdamW forgets a factor that all steps share; six steps clipped to one norm are others than six that are not."""
    clipped, _ = trained(ClippingTrainer, bert(), tmp_path, max_grad_norm=0.05)
    whole, _ = trained(ClippingTrainer, bert(), tmp_path, max_grad_norm=1e3)
    pairs = zip(clipped.model.parameters(), whole.model.parameters(), strict=True)
    assert max((one - other).abs().max().item() for one, other in pairs) > 1e-3


def test_without_clipping_gradients_are_not_divided(tmp_path):
    trainer, norms = trained(ClippingTrainer, bert(), tmp_path, max_grad_norm=0.0)
    assert not hasattr(trainer.optimizer.optimizer, "grad_scale")
    assert all(norm > 0 for norm in norms)


@pytest.mark.parametrize("kind", [ClippingTrainer, Trainer])
def test_a_gradient_that_is_not_a_number_is_seen_in_the_log(kind, tmp_path):
    model = bert()
    model.classifier.bias.data[0] = math.nan
    _, norms = trained(kind, model, tmp_path)
    assert math.isnan(norms[0])
