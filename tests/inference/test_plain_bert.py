"""BERT in torch alone: the outputs of bertkit's model, and what is left to that model."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

import bertkit
from bertkit.inference import plain_bert
from bertkit.inference.loaded import load
from bertkit.inference.plain_bert import PlainBert, load_plain_bert
from bertkit.model.checkpoint.load import load_config, load_model

HEADS = {
    "BertForSequenceClassification": "AutoModelForSequenceClassification",
    "BertForTokenClassification": "AutoModelForTokenClassification",
    "BertForQuestionAnswering": "AutoModelForQuestionAnswering",
}


def inputs():
    torch.manual_seed(1)
    mask = torch.ones(3, 9, dtype=torch.int64)
    mask[1, 5:] = mask[2, 3:] = 0
    types = (torch.arange(9) > 4).long().expand(3, 9)
    return {"input_ids": torch.randint(5, 90, (3, 9)), "attention_mask": mask, "token_type_ids": types}


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("activation", ["gelu", "relu"])
@pytest.mark.parametrize("padded", [True, False])
def test_outputs_are_those_of_the_model(stock_models, tmp_path, head, activation, padded):
    folder = str(stock_models.stock_checkpoint(tmp_path, "bert", HEADS[head], hidden_act=activation))
    config = load_config(folder)
    plain = load_plain_bert(head, folder, config)
    model, _ = load_model(head, folder, config, new_head=False)
    given = inputs()
    if not padded:
        given = {"input_ids": given["input_ids"]}
    with torch.inference_mode():
        expected, found = model.eval()(**given), plain.eval()(**given)
    assert set(found) == {name for name, values in expected.items() if values is not None}
    real = given.get("attention_mask", torch.ones(3, 9)).bool()
    for name, values in found.items():
        one, other = (values, expected[name]) if values.shape[:2] != (3, 9) else (values[real], expected[name][real])
        assert one.abs().max() > 0.1
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_predictions_use_it_and_are_the_same_without(stock_models, tmp_path, monkeypatch):
    texts = list(stock_models.TEXTS)
    for number, auto_class in enumerate(HEADS.values()):
        folder = stock_models.stock_checkpoint(tmp_path / str(number), "bert", auto_class)
        given = {"question": "who is it", "context": texts[0]} if "Question" in auto_class else {"texts": texts}
        predictor = load(folder)
        assert isinstance(predictor.model, PlainBert)
        with monkeypatch.context() as patch:
            patch.setattr(plain_bert, "load_plain_bert", lambda *_: None)
            whole = load(folder)
        assert not isinstance(whole.model, PlainBert)
        for one, other in zip(predictor.predict(**given), whole.predict(**given), strict=True):
            assert numbers(one) == pytest.approx(numbers(other), abs=1e-4)


def numbers(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for each in value for number in numbers(each)]
    return [value] if isinstance(value, int | float) else []


@pytest.mark.parametrize(
    "what", ["other shape", "weight missing", "layer too many", "integers", "no file", "activation"]
)
def test_anything_unusual_is_left_to_the_model(stock_models, tmp_path, what):
    head = "BertForSequenceClassification"
    fields = {"hidden_act": "gelu_new"} if what == "activation" else {}
    folder = stock_models.stock_checkpoint(tmp_path, "bert", HEADS[head], **fields)
    assert (load_plain_bert(head, str(folder), load_config(str(folder))) is None) == (what == "activation")
    path = folder / "model.safetensors"
    weights, name = load_file(path), "bert.encoder.layer.1.attention.self.query.weight"
    if what == "other shape":
        weights[name] = weights[name][:, 1:].contiguous()
    elif what == "weight missing":
        del weights[name]
    elif what == "layer too many":
        weights[name.replace("layer.1", "layer.2")] = weights[name].clone()
    elif what == "integers":
        weights[name] = weights[name].to(torch.int8)
    save_file(weights, path, metadata={"format": "pt"})
    if what == "no file":
        path.unlink()
    assert load_plain_bert(head, str(folder), load_config(str(folder))) is None


def test_half_precision_is_read_as_float32(stock_models, tmp_path):
    folder = stock_models.stock_checkpoint(tmp_path, "bert", "AutoModelForSequenceClassification", ["a", "b"])
    path = folder / "model.safetensors"
    save_file({name: values.half() for name, values in load_file(path).items()}, path, metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "dtype": "float16"}))
    [found] = bertkit.load(folder).predict("a lovely film")
    assert sum(found["probabilities"].values()) == pytest.approx(1)
    model, _ = load_model("BertForSequenceClassification", str(folder), load_config(str(folder)), new_head=False)
    assert model.dtype == torch.float32
