"""Pieces of words, and probabilities of masked ones."""

from __future__ import annotations

import numpy as np
import pytest

import bertkit
from bertkit.choosing.wording import draw_words, log_probabilities, wording_of
from bertkit.explain.filling import fillings
from bertkit.explain.network import load_network
from bertkit.explain.pieces import pieces_of


@pytest.fixture
def tokenizer(checkpoint):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(checkpoint)


def test_words_are_counted_by_hand(tokenizer):
    wording = wording_of([("a good film!",), ("a goodfilm 東",)], tokenizer, longest=6)
    assert wording.words == 6  # the mark is none
    whole = len(tokenizer.tokenize("goodfilm"))
    assert whole > 1
    assert wording.pieces_per_word == pytest.approx((5 + whole) / 6)
    assert wording.split == pytest.approx(1 / 6)
    assert wording.most_split == [("goodfilm", tokenizer.tokenize("goodfilm"))]
    assert (wording.unknown, wording.most_unknown) == (pytest.approx(1 / 6), ["東"])
    assert wording.too_long == 0.5


def test_both_texts_of_a_pair_are_read(tokenizer):
    wording = wording_of([("a good film", "the plot")], tokenizer, longest=7)
    assert wording.words == 5
    assert wording.too_long == 1  # [CLS] 3 [SEP] 2 [SEP]


def test_probabilities_are_those_of_explain(checkpoint):
    text = "the plot of a goodfilm is lovely"
    words = draw_words([(text,)], 50, seed=0)
    assert sorted(word.place for word in words) == list(range(7))
    logs = log_probabilities(words, bertkit.load(checkpoint, device="cpu").mask_filler)
    network = load_network(str(checkpoint), "cpu")
    filled = fillings(network, [pieces_of(network, [text])])[0].words
    expected = [filled[word.place].log_probability for word in words]
    assert np.allclose(logs, expected, atol=1e-4)


def test_a_word_in_a_long_text_has_a_part_of_it(checkpoint):
    text = " ".join(["plot"] * 200)
    [word] = draw_words([(text,)], 1, seed=0)
    around, start, end = word.around(16)
    assert around[start:end] == "plot"
    assert len(around.split()) <= 33
    logs = log_probabilities([word], bertkit.load(checkpoint, device="cpu").mask_filler)
    assert np.isfinite(logs).all()
