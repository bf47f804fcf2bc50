"""Weights that a fine-tuning starts from: some layers of a model, for every family."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from bertkit.model.checkpoint.encoders import head_class
from bertkit.model.checkpoint.load import load_config, load_model
from bertkit.runtime.errors import RecipeError
from bertkit.training.initialization import with_layers
from bertkit.training.tuning import encoder_layers
from tests.stock_models import stock_checkpoint

HEAD = "BertForSequenceClassification"


def model_of(config, layers):
    config = copy.deepcopy(config)
    config.initializer_range = 0.5
    if getattr(config, "layer_types", None) is not None:
        config.layer_types = (config.layer_types * layers)[:layers]
    config.num_hidden_layers = layers
    torch.manual_seed(0)
    return head_class(HEAD, config, "x")(config).eval()


def logits(model):
    ids = torch.arange(5, 17).reshape(2, 6)
    with torch.inference_mode():
        return model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits


@pytest.mark.numeric
def test_kept_layers_compute_what_the_model_without_the_others_does(encoder, tmp_path):
    model = model_of(encoder, 5)
    if encoder.model_type == "albert":
        with pytest.raises(RecipeError, match="no list of 5 layers"):
            with_layers(model, [0, 2])
        return
    kept = with_layers(model, [0, 2, 4]).eval()
    assert kept.config.num_hidden_layers == 3
    assert model.config.num_hidden_layers == 5
    kept.save_pretrained(tmp_path)
    layers = encoder_layers(model)
    del layers[3], layers[1]
    assert isinstance(layers, nn.ModuleList)
    model.config.num_hidden_layers = 3
    torch.testing.assert_close(logits(kept), logits(model))
    config = load_config(str(tmp_path), any_encoder=True)
    loaded, lost = load_model(HEAD, str(tmp_path), config, new_head=False)
    assert not lost
    torch.testing.assert_close(logits(loaded.eval()), logits(kept))


@pytest.mark.parametrize("layers", [[], [0, 5], [-1, 2], [2, 0], [1, 1]])
def test_layers_that_do_not_exist_are_refused(tiny_config, layers):
    model = head_class(HEAD, tiny_config, "x")(tiny_config)
    with pytest.raises(RecipeError, match="keep_layers: expected numbers from 0 to 1 in ascending order"):
        with_layers(model, layers)


@pytest.mark.parametrize("encoder", ["modernbert"], indirect=True)  # its first layer has no norm before the attention
def test_layers_that_differ_in_their_weights_are_refused(encoder):
    with pytest.raises(RecipeError, match="layers 1, 2 do not make a model; keep the first layer"):
        with_layers(model_of(encoder, 3), [1, 2])


def test_kept_layers_of_longformer_have_their_own_windows(tmp_path):
    sizes = {"num_hidden_layers": 3, "attention_window": [2, 4, 8]}
    folder = str(stock_checkpoint(tmp_path / "x", "longformer", "AutoModelForSequenceClassification", **sizes))
    model, _ = load_model(HEAD, folder, load_config(folder, any_encoder=True), new_head=False)
    assert with_layers(model, [0, 2]).config.attention_window == [2, 8]
