"""What all families show: summands, vectors of words, and that no part depends on the batch."""

from __future__ import annotations

import numpy as np
import pytest

from bertkit import explain
from bertkit.features.explain import attribution, contexts
from bertkit.features.explain.network import load_network

TEXT = "the plot is badly lovely"
LONGER = f"{TEXT} or a good story, a bad film"
# Embeddings that a family adds up; the others encode positions inside of their attention.
SUMMANDS = {
    "bert": {"word_embeddings", "position_embeddings", "token_type_embeddings"},
    "deberta": {"word_embeddings"},
    "deberta-v2": {"word_embeddings"},
    "distilbert": {"word_embeddings", "position_embeddings"},
    "modernbert": {"tok_embeddings"},
    "mpnet": {"word_embeddings", "position_embeddings"},
}


@pytest.mark.numeric
def test_summands_are_what_the_encoder_adds_up(of_family):
    """Rows of the embedding matrices, whose sum is the input of the layer norm behind them."""
    import torch
    from torch import nn

    network = load_network(str(of_family))
    inside = explain(of_family, TEXT)
    assert inside.pieces.summands.keys() == SUMMANDS.get(network.family, SUMMANDS["bert"])
    embeddings = network.model.base_model.embeddings
    tables = {
        name.rpartition(".")[2]: each for name, each in embeddings.named_modules() if isinstance(each, nn.Embedding)
    }
    ids = torch.tensor(inside.pieces.ids)
    # RoBERTa and its kin count positions from behind the id of padding.
    first = network.model.config.pad_token_id + 1 if network.family in ("roberta", "xlm-roberta", "mpnet") else 0
    rows = {"position_embeddings": torch.arange(len(ids)) + first, "token_type_embeddings": torch.zeros_like(ids)}
    vectors = {name: tables[name].weight[rows.get(name, ids)] for name in inside.pieces.summands}
    for name, lengths in inside.pieces.summands.items():
        np.testing.assert_allclose(lengths, vectors[name].norm(dim=-1), rtol=1e-5)
    norms = [each for each in embeddings.modules() if type(each).__name__.endswith("LayerNorm")]
    taken = []
    with norms[0].register_forward_pre_hook(lambda module, args: taken.append(args[0])), torch.no_grad():
        network.model.base_model(**inside.pieces.batch(network))
    np.testing.assert_allclose(taken[0][0], sum(vectors.values()), atol=1e-5)


@pytest.mark.numeric
def test_vectors_of_words_are_the_models_own(of_family, tmp_path, monkeypatch):
    """Mean over the pieces of a word, of each hidden state; the same in batches with longer texts and alone."""
    import torch
    from transformers import AutoModel

    texts = [TEXT, LONGER, "badly"]
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    together = explain(of_family, word="badly", texts=tmp_path / "texts.txt")
    model = AutoModel.from_pretrained(of_family).eval()
    network = load_network(str(of_family))
    for number, text in enumerate(texts):
        encoded = network.tokenizer(text, return_tensors="pt", return_token_type_ids=False)
        own = [at for at, word in enumerate(encoded.word_ids(0)) if word == text.split().index("badly")]
        assert len(own) > 1
        with torch.no_grad():
            states = model(**encoded, output_hidden_states=True).hidden_states
        expected = torch.stack([each[0, own].mean(dim=0) for each in states])
        np.testing.assert_allclose(together.vectors[:, number], expected, atol=1e-5)
    monkeypatch.setattr(contexts, "_TOKENS", 1)  # a batch for each text
    alone = explain(of_family, word="badly", texts=tmp_path / "texts.txt")
    np.testing.assert_allclose(alone.vectors, together.vectors, atol=1e-5)


@pytest.mark.numeric
def test_attention_does_not_depend_on_the_batch(of_family):
    """The first half of a text has the same attention beside the whole text, with padding, and alone."""
    beside = explain(of_family, LONGER).heads.padding
    length = int(beside.mask.sum())
    words = LONGER.replace(",", " ,").split()
    alone = explain(of_family, " ".join(words[: (len(words) + 1) // 2])).attention
    assert alone.shape[-1] == length < len(beside.mask)
    np.testing.assert_allclose(beside.attention[:length, :length], alone[-1].mean(axis=0), atol=1e-5)


@pytest.mark.numeric
@pytest.mark.parametrize("kind", ["film", "entities", "maybe"])
def test_attribution_does_not_depend_on_the_batch(fine_tuned, kind, monkeypatch):
    texts = (TEXT, LONGER) if kind == "maybe" else (TEXT,)
    together = explain(fine_tuned(kind), *texts).attributions.reasons
    monkeypatch.setattr(attribution, "_TOKENS", 1)  # a batch for each input
    alone = explain(fine_tuned(kind), *texts).attributions.reasons
    for one, other in zip(alone, together, strict=True):
        assert (one.name, one.steps) == (other.name, other.steps)
        np.testing.assert_allclose(one.gradients, other.gradients, atol=1e-4)
        np.testing.assert_allclose(one.occlusion, other.occlusion, atol=1e-4)
