"""Frozen layers, layers drawn anew, learning rates by layer, and LoRA."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file
from transformers import (
    AlbertConfig,
    AlbertModel,
    AutoModelForSequenceClassification,
    EuroBertConfig,
    XLMConfig,
    XLMModel,
)

from bertkit import BertForPreTraining, BertForSequenceClassification, BertModel
from bertkit.model.checkpoint.encoders import head_class
from bertkit.recipe.settings import LoraSettings
from bertkit.runtime.errors import BertkitError, RecipeError
from bertkit.tasks.registry import load_recipe
from bertkit.training.trainer import BertkitTrainer
from bertkit.training.tuning import Tuning, add_adapters, encoder_layers, save_adapters, tune
from tests.training.conftest import FOUR_STEPS, Labels, arguments_for

pytestmark = pytest.mark.numeric


@pytest.fixture
def train(tuned, glue):
    """``train(name, key=value)`` fine-tunes on SST-2; returns the run directory and its weights."""

    def run(name, resume=False, **values):
        overrides = {**FOUR_STEPS, **{key.replace("__", "."): value for key, value in values.items()}}
        done = tuned("sst2", overrides, name, data_dir=glue, resume=resume)
        return done.output_dir, load_file(done.output_dir / "model.safetensors")

    return run


def recipe(**model):
    return load_recipe("sst2", {"model.name_or_path": "x", **{f"model.{key}": value for key, value in model.items()}})


def changed(weights, checkpoint):
    """Returns the names of the weights of the encoder that differ from the checkpoint's."""
    before = load_file(checkpoint / "model.safetensors")
    assert weights.keys() & before.keys()
    return {name for name in weights.keys() & before.keys() if not torch.equal(weights[name], before[name])}


def test_an_encoder_that_is_frozen_whole_is_refused(tiny_config):
    frozen = recipe(freeze_layers=tiny_config.num_hidden_layers, freeze_embeddings=True)
    tune(BertForPreTraining(tiny_config), frozen)  # its heads are left
    with pytest.raises(RecipeError, match=r"model\.freeze_layers: with all layers .* nothing to train"):
        tune(BertModel(tiny_config), frozen)
    tune(BertModel(tiny_config), recipe(freeze_layers=tiny_config.num_hidden_layers))


def test_rates_of_parts_that_a_model_has_not_are_refused_before_the_training(tiny_config):
    rates = {"train.layer_lr_decay": 0.9}, {"train.head_learning_rate": 1e-3}
    decay, rate = (load_recipe("sst2", {"model.name_or_path": "x", **each}) for each in rates)
    shared = AlbertModel(AlbertConfig(vocab_size=60, embedding_size=16, hidden_size=32, num_attention_heads=4))
    with pytest.raises(RecipeError, match="no list of 12 layers"):
        tune(shared, decay)
    with pytest.raises(RecipeError, match=r"train\.head_learning_rate: BertModel has no layer .* remove it"):
        tune(BertModel(tiny_config), rate)


@pytest.mark.parametrize("values", [{"freeze_layers": 1}, {"reinit_layers": 1}, {"lora": {"r": 2}}])
def test_lists_of_parts_of_layers_are_no_layers(values):
    in_parts = XLMModel(XLMConfig(vocab_size=60, emb_dim=32, n_layers=2, n_heads=2))
    with pytest.raises(RecipeError, match="'xlm' has no list of 2 layers, which freeze_layers"):
        tune(in_parts, recipe(**values))
    tune(in_parts, recipe(freeze_embeddings=True))


def test_embeddings_are_found_under_another_name():
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "mask_token_id": 3}
    config = EuroBertConfig(vocab_size=60, num_key_value_heads=2, **sizes, **ids)
    for values in ({"freeze_embeddings": True}, {"lora": {"r": 2}}):
        network = AutoModelForSequenceClassification.from_config(config)
        tune(network, recipe(**values))
        embedding, *_, head = network.parameters()
        assert (embedding.requires_grad, head.requires_grad) == (False, True)
    network = AutoModelForSequenceClassification.from_config(config)
    optimizer = torch.optim.SGD(network.parameters(), lr=1.0)
    Tuning(network, layer_lr_decay=0.5).set_learning_rates(optimizer, network, network)
    rates = {id(each): group["lr"] for group in optimizer.param_groups for each in group["params"]}
    assert rates[id(network.get_input_embeddings().weight)] == 0.5**4


def test_frozen_weights_stay(train, checkpoint):
    _, weights = train("run", model__freeze_layers=1, model__freeze_embeddings=True)
    moved = changed(weights, checkpoint)
    assert not [name for name in moved if "embeddings" in name or "layer.0." in name]
    assert [name for name in moved if "layer.1." in name]


def test_layers_are_drawn_anew_with_the_pooler(tiny_config):
    torch.manual_seed(0)
    model = BertForPreTraining(tiny_config)
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    tune(model, recipe(reinit_layers=1))
    moved = {name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])}
    matrices = {name for name in before if name.endswith("weight") and "LayerNorm" not in name}
    assert moved == {name for name in matrices if "layer.1." in name or "pooler" in name}
    drawn = torch.cat([dict(model.named_parameters())[name].flatten() for name in moved])
    assert drawn.std().item() == pytest.approx(tiny_config.initializer_range, rel=0.1)


def test_nothing_to_tune_changes_nothing(train):
    _, plain = train("plain")
    _, same = train("same", model__freeze_layers=0, model__reinit_layers=0, train__layer_lr_decay=1.0, model__lora=None)
    for name, weight in plain.items():
        assert torch.equal(weight, same[name]), name


def test_the_learning_rate_decreases_with_the_distance_from_the_head(encoder, tmp_path):
    network = head_class("BertForSequenceClassification", encoder, "here")(encoder)
    arguments, tuning = arguments_for(tmp_path, learning_rate=1.0), Tuning(network, layer_lr_decay=0.5)
    trainer = BertkitTrainer(what="x", model=network, args=arguments, objective=Labels(), tuning=tuning)
    if encoder.model_type == "albert":
        with pytest.raises(RecipeError, match="'albert' has no list of 2 layers, which freeze_layers, reinit_layers, "):
            trainer.create_optimizer()
        return
    rates = {id(each): group["lr"] for group in trainer.create_optimizer().param_groups for each in group["params"]}
    number = encoder.num_hidden_layers
    assert trainer.optimizer.param_groups[0]["lr"] == 1.0
    assert len(rates) == len(list(network.parameters()))
    for index, layer in enumerate(encoder_layers(network), start=1):
        assert {rates[id(each)] for each in layer.parameters()} == {0.5 ** (number + 2 - index)}
    named = network.base_model.named_parameters()
    assert {rates[id(each)] for name, each in named if "embeddings" in name} == {0.5 ** (number + 2)}
    assert {rates[id(each)] for name, each in network.named_parameters() if "classifier" in name} == {1.0}


@pytest.mark.parametrize("values", [{"train__layer_lr_decay": 0.8}, {"model__lora": {"r": 2, "save": "adapter"}}])
def test_a_run_is_resumed_to_the_same_weights(train, values):
    values = {**values, "train__save_strategy": "steps", "train__save_steps": 2}
    out, weights = train("run", **values)
    files = {path.name for path in out.iterdir()}
    shutil.rmtree(out / "checkpoint-4")
    (out / "model.safetensors").unlink()
    run = json.loads((out / "run.json").read_text())
    (out / "run.json").write_text(json.dumps({**run, "finished": False}))
    _, resumed = train("run", resume=True, **values)
    for name, weight in weights.items():
        torch.testing.assert_close(resumed[name], weight)
    assert {path.name for path in out.iterdir()} == files


def test_the_last_evaluation_is_not_repeated_for_rates_of_their_own(train, monkeypatch):
    evaluated, loop = [], BertkitTrainer.evaluation_loop

    def watched(self, dataloader, *args, **given):
        evaluated.append(len(self.dataset_of(dataloader)))
        return loop(self, dataloader, *args, **given)

    monkeypatch.setattr(BertkitTrainer, "evaluation_loop", watched)
    train("run", train__layer_lr_decay=0.8, train__head_learning_rate=1e-3)
    assert evaluated == [24, 10]  # after the last step; the test set


def test_the_log_shows_the_learning_rate_of_the_head(train):
    out, _ = train("run", train__layer_lr_decay=0.1, train__warmup_steps=0, train__lr_scheduler_type="constant")
    assert json.loads((out / "trainer_state.json").read_text())["log_history"][0]["learning_rate"] == 1e-3


# ---- LoRA -----------------------------------------------------------------------------------------------------------


def test_adapters_are_merged_into_an_ordinary_checkpoint(train, checkpoint):
    out, weights = train("run", model__lora={"r": 4, "alpha": 16, "dropout": 0.1})
    assert not [name for name in weights if "lora" in name or "base_layer" in name]
    moved = changed(weights, checkpoint)
    assert [name for name in moved if "layer.1." in name and name.endswith("weight")]
    assert not [name for name in moved if "embeddings" in name or "LayerNorm" in name or name.endswith("query.bias")]
    assert [name for name in moved if "pooler" in name]
    before, name = load_file(checkpoint / "model.safetensors"), "bert.encoder.layer.0.attention.self.query.weight"
    assert torch.linalg.matrix_rank((weights[name] - before[name]).double(), atol=1e-7) <= 4
    loaded = AutoModelForSequenceClassification.from_pretrained(out)
    assert loaded.config.num_labels == 2


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")  # PEFT reads it
def test_the_saved_model_computes_what_the_adapters_computed(checkpoint, tmp_path):
    torch.manual_seed(0)
    model = BertForSequenceClassification.from_pretrained(checkpoint).eval()
    tuner = add_adapters(model, LoraSettings(r=3))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.05)
    ids = torch.randint(5, model.config.vocab_size, (4, 12))
    expected = model(ids).logits
    save_adapters(model, tuner, tmp_path / "adapter")
    tuner.merge_and_unload()
    torch.testing.assert_close(model(ids).logits, expected, rtol=1e-4, atol=1e-5)
    model.save_pretrained(tmp_path / "merged")
    again = BertForSequenceClassification.from_pretrained(tmp_path / "merged").eval()
    torch.testing.assert_close(again(ids).logits, expected, rtol=1e-4, atol=1e-5)
    # PEFT loads the adapters onto a model with the same head.
    from peft import PeftModel

    base = BertForSequenceClassification.from_pretrained(checkpoint)
    base.classifier.load_state_dict(model.classifier.state_dict())
    base.bert.pooler.load_state_dict(model.bert.pooler.state_dict())
    adapted = PeftModel.from_pretrained(base, tmp_path / "adapter").eval()
    torch.testing.assert_close(adapted(ids).logits, expected, rtol=1e-4, atol=1e-5)


def test_only_adapters_pooler_and_head_are_trained(encoder):
    if encoder.model_type == "albert":
        pytest.skip("its layers share their weights")
    network = head_class("BertForSequenceClassification", encoder, "here")(encoder)
    add_adapters(network, LoraSettings())
    trained = {name for name, each in network.named_parameters() if each.requires_grad}
    assert any("classifier" in name for name in trained)
    assert any("lora_A" in name for name in trained)
    layers = [name for name, _ in network.named_parameters() if "layer" in name and "lora" not in name]
    assert not [name for name in trained & set(layers) if "embeddings" in name or "base_layer" in name]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model__freeze_layers": 3}, "model.freeze_layers: expected 0 to 2, got 3"),
        ({"model__freeze_layers": 2, "model__reinit_layers": 1}, "2 frozen and 1 new layers are more than the 2"),
        ({"model__freeze_layers": -1}, "model.freeze_layers: expected at least 0, got -1"),
        ({"model__reinit_layers": 1.5}, "model.reinit_layers: expected an integer, got 1.5"),
        ({"train__layer_lr_decay": 0.0}, "train.layer_lr_decay: expected"),
        ({"train__layer_lr_decay": 1.5}, "train.layer_lr_decay: expected"),
        ({"model__lora": {"r": 0}}, "model.lora.r: expected 1 to 4096, got 0"),
        ({"model__lora": {"rank": 4}}, "model.lora.rank: unknown key"),
        ({"model__lora": {"save": "all"}}, "model.lora.save: expected one of merged, adapter"),
        ({"model__lora": {"targets": ["queries"]}}, "'queries' is no dense layer of this encoder; expected some of"),
        (
            {"model__lora": {}, "model__freeze_layers": 1},
            "trains no weight of the encoder's layers; remove freeze_layers",
        ),
        ({"model__lora": {}, "model__reinit_layers": 1}, "remove reinit_layers"),
    ],
)
def test_wrong_values_are_refused_before_anything_is_written(train, tmp_path, values, message):
    with pytest.raises(BertkitError) as caught:
        train("run", **values)
    assert message in str(caught.value)
    assert not (tmp_path / "run" / "recipe.yaml").exists()
