"""Commands with checkpoints that bertkit did not write."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer


@pytest.fixture
def classifier(stock_models, tmp_path):
    return stock_models.stock_checkpoint(
        tmp_path / "c", "roberta", "AutoModelForSequenceClassification", ["neg", "pos"]
    )


def test_predict_and_evaluate_say_what_is_assumed(bertkit, classifier, tmp_path):
    done = bertkit("predict", classifier, "a lovely film", "--json")
    assert done.code == 0
    assert "assumed from its head: text-classification, one of 2 labels" in done.err
    [row] = json.loads(done.out)["predictions"]
    assert set(row["probabilities"]) == {"neg", "pos"}
    (tmp_path / "dev.csv").write_text(f"body,mood\na lovely film,{row['label'].upper()}\n")
    data = ("--validation-file", tmp_path / "dev.csv", "--text-column", "body", "--label-column", "mood")
    done = bertkit("evaluate", classifier, *data)
    assert done.code == 0
    assert "accuracy 1.0000" in done.out
    assert "labels matched without regard to case" in done.err
    (tmp_path / "dev.csv").write_text("body,mood\na lovely film,good\n")
    bertkit("evaluate", classifier, *data).refuses("'good'", "'neg', 'pos'")


def test_columns_of_a_table_are_chosen(bertkit, classifier, tmp_path):
    (tmp_path / "in.csv").write_text("a,b\none film,one plot\n")
    bertkit("predict", classifier, "--input", tmp_path / "in.csv").refuses("--text-column COLUMN")
    done = bertkit("predict", classifier, "--input", tmp_path / "in.csv", "--text-column", "b", "--json")
    [row] = json.loads(done.out)["predictions"]
    assert row["b"] == "one plot"


def test_entities_are_joined_as_asked(bertkit, stock_models, tmp_path):
    tagger = stock_models.stock_checkpoint(
        tmp_path / "n", "bert", "AutoModelForTokenClassification", ["O", "B-PER", "I-PER"], seed=1
    )
    found = {}
    for aggregation in ("none", "simple"):
        done = bertkit("predict", tagger, stock_models.TEXTS[0], "--aggregation", aggregation, "--json")
        [row] = json.loads(done.out)["predictions"]
        found[aggregation] = {each["type"] for each in row["entities"]}
    assert found["simple"] == {"PER"}
    assert found["none"] <= {"B-PER", "I-PER"}
    done = bertkit("predict", tmp_path / "n", "--question", "who", "--context", "he", "--aggregation", "max")
    done.refuses("--aggregation is for token classification")


@pytest.mark.parametrize(
    ("model_type", "says"),
    [
        ("gpt2", "for which transformers has no masked language model"),
        ("t5", "for which transformers has no masked language model"),
        ("bart", "is_encoder_decoder=True"),
    ],
)
def test_what_is_no_encoder_is_refused(bertkit, tmp_path, model_type, says):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type, "architectures": ["X"]}))
    bertkit("predict", tmp_path, "a film").refuses(says)


def test_incomplete_folders_are_refused(bertkit, classifier, tmp_path):
    def copied(name, *without):
        return shutil.copytree(classifier, tmp_path / name, ignore=shutil.ignore_patterns(*without))

    bertkit("predict", copied("no-tokenizer", "tokenizer*"), "a film").refuses("no tokenizer.json in this folder")
    done = bertkit("predict", copied("no-weights", "*.safetensors"), "a film")
    done.refuses("model in this folder cannot be loaded")
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text("{}")
    bertkit("predict", adapter, "a film").refuses("it is an adapter: merge it into its base model")


def test_weights_in_pytorchs_own_format_are_read(bertkit, classifier):
    tokenizer = AutoTokenizer.from_pretrained(classifier)
    model = AutoModelForSequenceClassification.from_pretrained(classifier).eval()
    torch.save(model.state_dict(), classifier / "pytorch_model.bin")
    (classifier / "model.safetensors").unlink()
    with torch.no_grad():
        expected = model(**tokenizer("a lovely film", return_tensors="pt")).logits.softmax(-1)[0].tolist()
    [row] = json.loads(bertkit("predict", classifier, "a lovely film", "--json").out)["predictions"]
    assert list(row["probabilities"].values()) == pytest.approx(expected, abs=1e-4)
