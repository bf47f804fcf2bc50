"""Pieces of words, and probabilities of masked ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import bertkit
from bertkit.features.choosing.wording import draw_words, log_probabilities, perplexity, wording_of
from bertkit.features.explain.heads import fillings
from bertkit.features.explain.network import load_network
from bertkit.features.explain.pieces import pieces_of


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


def test_an_interval_of_perplexities_begins_at_one():
    value, (low, high) = perplexity(np.log([0.9, 1e-12]))
    assert low == 1.0 < value < high


SHARES = {"ac": 0.5, "ad": 0.25, "bc": 0.125, "bd": 0.125}


def pretrained(vocabulary, sentences, folder):
    """Trains a model on sentences of four words: last pieces of a word are masked, and the first of these is asked."""
    from transformers import BertTokenizer

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = BertTokenizer(vocab={piece: number for number, piece in enumerate([*special, *vocabulary])})
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = bertkit.BertConfig(vocab_size=len(tokenizer), max_position_embeddings=16, **sizes)
    model = bertkit.BertForMaskedLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    texts = torch.tensor(tokenizer(sentences)["input_ids"])
    pieces = (texts.shape[1] - 2) // 4  # of a word
    rows = torch.arange(64)
    for _ in range(150):
        batch = texts[torch.randint(len(texts), (64,))]
        word, piece = torch.randint(4, (64,)), torch.randint(pieces, (64,))
        asked = 1 + word * pieces + piece
        of_word = torch.arange(pieces) + (1 + word * pieces)[:, None]
        inputs = batch.clone()
        inputs.scatter_(1, of_word, torch.where(of_word < asked[:, None], inputs.gather(1, of_word), 4))
        logits = model(input_ids=inputs).logits[rows, asked]
        loss = torch.nn.functional.cross_entropy(logits, batch[rows, asked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("vocabulary", [list(SHARES), ["a", "b", "##c", "##d"]], ids=["words", "pieces"])
def test_perplexities_of_two_vocabularies_are_alike(vocabulary, tmp_path):
    generator = np.random.default_rng(0)
    sentences = [" ".join(generator.choice(list(SHARES), 4, p=list(SHARES.values()))) for _ in range(400)]
    model = pretrained(vocabulary, sentences, tmp_path / "model")
    words = draw_words([(sentence,) for sentence in sentences], 300, seed=0)
    value, _ = perplexity(log_probabilities(words, bertkit.load(model, device="cpu").mask_filler))
    entropy = -sum(share * np.log(share) for share in SHARES.values())  # of a word, whatever its pieces
    assert value == pytest.approx(np.exp(entropy), rel=0.12)
