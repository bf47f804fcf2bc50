"""Comparing two forms of a checkpoint: what is compared, and what is not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import bertkit
from bertkit.model.checkpoint.load import load_config, load_tokenizer
from bertkit.model.checkpoint.stock import compare, comparison_inputs
from bertkit.runtime.errors import CheckpointError

BATCH = {"attention_mask": torch.tensor([[1, 1, 1], [1, 0, 0]])}


def test_the_difference_is_not_of_padding():
    """Only the first position of the second text is a token; 5.0 and 9.0 are computed for padding."""
    one = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 9.0]])
    other = np.array([[1.0, 2.0, 3.25], [4.0, 0.0, 0.0]])
    found = compare(lambda _: [one], lambda _: [other], [BATCH], 0.5, "x")
    assert (found.difference, found.inputs, found.lengths) == (0.25, 2, (1, 3))
    assert str(found) == "outputs differ by at most 2.5e-01 (tolerance 5e-01) on 2 inputs of 1 to 3 tokens"


def test_logits_of_whole_texts_are_all_compared():
    with pytest.raises(CheckpointError, match=r"differ by 3\.0e\+00, tolerance 1e-01"):
        compare(lambda _: [np.zeros((2, 2))], lambda _: [np.array([[0.0, 0], [0, 3]])], [BATCH], 0.1, "x")


def test_values_that_are_no_numbers_never_agree():
    nothing = np.full((2, 2), np.nan)
    with pytest.raises(CheckpointError, match="its weights are damaged"):
        compare(lambda _: [nothing], lambda _: [nothing], [BATCH], 0.1, "x")


def test_inputs_are_short_long_padded_and_pairs(checkpoint):
    """The checkpoint has 64 positions."""
    tokenizer, config = load_tokenizer(checkpoint), load_config(str(checkpoint))
    batches = comparison_inputs(tokenizer, bertkit.BertModel(config))
    lengths = [int(length) for batch in batches for length in batch["attention_mask"].sum(-1)]
    assert min(lengths) < 24
    assert max(lengths) == 64
    assert any((batch["attention_mask"] == 0).any() for batch in batches)
    assert all((batch["token_type_ids"] == 1).any() for batch in batches)
    assert len(set().union(*(batch["input_ids"].unique().tolist() for batch in batches))) > 20
    picks = bertkit.BertForMultipleChoice(config)
    assert comparison_inputs(tokenizer, picks)[0]["input_ids"].shape[:2] == (4, 3)
