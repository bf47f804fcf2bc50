"""Pieces and attention: those of the model itself, in every family."""

from __future__ import annotations

import numpy as np
import pytest

from bertkit import explain
from bertkit.features.explain.attention import measure_heads, name_heads, sprites

TEXT = "the plot is lovely, or a bad film"


@pytest.mark.numeric
def test_attention_is_the_models_own(of_family):
    import torch
    from transformers import AutoModel

    inside = explain(of_family, TEXT)
    weights = inside.attention
    length = len(inside.pieces.tokens)
    model = AutoModel.from_pretrained(of_family, attn_implementation="eager").eval()
    with torch.inference_mode():
        own = model(torch.tensor(inside.pieces.ids)[None], output_attentions=True).attentions
    np.testing.assert_allclose(weights, torch.cat(own).numpy(), atol=1e-5)
    assert weights.shape == (model.config.num_hidden_layers, 4, length, length)
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
    assert inside.heads.padding.to_padding == 0
    assert "attention" not in inside.missing


def test_heads_are_named_by_what_they_do():
    previous = np.eye(6, k=-1)
    previous[0, 0] = 1
    separator = np.tile(np.eye(6)[5], (6, 1))
    broad = np.full((6, 6), 1 / 6)
    mixed = np.tile([0, 0.45, 0.45, 0.1, 0, 0], (6, 1))
    weights = np.stack([previous, np.eye(6), np.eye(6, k=1) + np.diag([0] * 5 + [1]), separator, broad, mixed])[None]
    measures = measure_heads(weights, np.arange(6) == 5)
    assert name_heads(measures).tolist() == [["previous", "same", "next", "separator", "broad", "mixed"]]
    assert measures["previous"][0, 0] == 1
    assert measures["broad"][0, 4] == pytest.approx(1)


def test_pieces_mark_cut_and_unknown_words(checkpoint):
    pieces = explain(checkpoint, "lovely good badly 漢", "a film").pieces
    rows = {row["word"]: row["mark"] for row in pieces.rows()}
    assert rows["badly"] == "cut"
    assert rows["漢"] == "unknown"
    assert rows["lovely"] == ""
    assert [word.text for word in pieces.words] == ["lovely", "good", "badly", "漢", "a", "film"]
    assert {row["mark"] for row in pieces.rows() if row["token"] in ("[CLS]", "[SEP]")} == {"special"}
    assert pieces.segments.tolist() == [0] * (pieces.words[4].start) + [1] * 3


def test_a_long_pair_is_cut_and_it_is_said(checkpoint):
    inside = explain(checkpoint, "a good film " * 20, "the plot " * 30)
    assert len(inside.pieces.tokens) == 64
    assert inside.pieces.left_out == 123 - 64
    assert "64 tokens read, 59 more left out" in str(inside)


def test_a_family_without_attention_is_refused_by_name(checkpoint, monkeypatch):
    from bertkit.model.modeling_bert import BertModel

    forward = BertModel.forward
    monkeypatch.setattr(
        BertModel, "forward", lambda self, *args, output_attentions=False, **kwargs: forward(self, *args, **kwargs)
    )
    inside = explain(checkpoint, TEXT)
    assert inside.attention is None
    assert "models of type 'bert' do not return the attention" in inside.missing["attention"]
    assert "do not return the attention" in inside.html()


@pytest.mark.parametrize("evenness", [0.02, 1.0])
def test_pictures_of_large_attention_stay_small(evenness):
    """128 tokens × 12 layers × 12 heads; even and random attention hardly compresses."""
    generator = np.random.default_rng(0)
    weights = generator.gamma(evenness, 1.0, (12, 12, 128, 128)) + 1e-9
    urls, _, error = sprites(weights / weights.sum(axis=-1, keepdims=True))
    assert sum(map(len, urls)) < 1_700_000
    assert error < 0.05


def test_a_notebook_shows_the_page_in_a_frame(checkpoint):
    inside = explain(checkpoint, TEXT)
    assert repr(inside) == str(inside)  # lines instead of arrays
    shown = inside._repr_html_()
    assert shown.startswith(f'<iframe title="{TEXT}" srcdoc="&lt;!DOCTYPE html&gt;')
    assert "<script" not in shown
