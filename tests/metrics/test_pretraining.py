"""Scores of pre-training: sums over all examples, masked LM and the pair task apart."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from bertkit.metrics.pretraining import reduce_logits, score, score_names

# Two examples, two slots each, three pieces. The second example has one prediction.
MLM_LOGITS = torch.log(torch.tensor([[[0.5, 0.25, 0.25], [0.2, 0.2, 0.6]], [[0.1, 0.8, 0.1], [1 / 3, 1 / 3, 1 / 3]]]))
MLM_LABELS = torch.tensor([[0, 0], [1, -100]])
PAIR_LOGITS = torch.log(torch.tensor([[0.75, 0.25], [0.75, 0.25]]))
PAIR_LABELS = torch.tensor([0, 1])
MLM_LOSS = -(math.log(0.5) + math.log(0.2) + math.log(0.8)) / 3


def test_masked_lm_and_pairs_by_hand():
    reduced = reduce_logits((MLM_LOGITS, PAIR_LOGITS), (MLM_LABELS, PAIR_LABELS))
    assert reduced.shape == (2, 5)
    scores = score(reduced.numpy())
    pair_loss = -(math.log(0.75) + math.log(0.25)) / 2
    assert scores == pytest.approx(
        {
            "loss": MLM_LOSS + pair_loss,
            "masked_lm_loss": MLM_LOSS,
            "masked_lm_accuracy": 2 / 3,
            "perplexity": math.exp(MLM_LOSS),
            "next_sentence_loss": pair_loss,
            "next_sentence_accuracy": 0.5,
        }
    )


def test_the_outputs_before_the_logits_do_not_matter():
    losses = (torch.tensor(1.0), torch.tensor(2.0))  # as BertForPreTraining gives them
    with_losses = reduce_logits((*losses, MLM_LOGITS, PAIR_LOGITS), (MLM_LABELS, PAIR_LABELS))
    assert torch.equal(with_losses, reduce_logits((MLM_LOGITS, PAIR_LOGITS), (MLM_LABELS, PAIR_LABELS)))


def test_without_pairs_loss_is_masked_lm():
    scores = score(reduce_logits(MLM_LOGITS, MLM_LABELS).numpy(), "none")
    assert scores.keys() == {"loss", "masked_lm_loss", "masked_lm_accuracy", "perplexity"}
    assert scores["loss"] == scores["masked_lm_loss"] == pytest.approx(MLM_LOSS)


def test_each_objective_has_names_of_its_own():
    assert score_names("sop") == (
        "masked_lm_loss",
        "masked_lm_accuracy",
        "sentence_order_loss",
        "sentence_order_accuracy",
    )
    rows = np.array([[1.0, 1, 1, 0.25, 1]])
    assert {"sentence_order_loss", "sentence_order_accuracy"} < score(rows, "sop").keys()
