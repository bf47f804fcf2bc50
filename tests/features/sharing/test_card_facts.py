"""The sentences of a model card about a fine-tuning: LoRA, teacher, windows; the data that it was trained on."""

from __future__ import annotations

import pytest

from bertkit import BertConfig
from bertkit.features.sharing.card_facts import base_model, finetuned_card
from bertkit.tasks.registry import load_recipe, task_of_recipe


def card(name, **overrides):
    recipe = load_recipe(name, {key.replace("__", "."): value for key, value in overrides.items()})
    config = BertConfig(vocab_size=9, hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4)
    return finetuned_card(task_of_recipe(recipe), {}, recipe, config, {}, {}, "")


def test_lora_is_described_with_rank_scale_and_layers():
    assert "LoRA" not in card("sst2").task
    text = card("sst2", model__lora={"r": 8}).task
    assert "adapters of rank 8, α 16, on all dense layers of the encoder" in text
    assert "merged into the weights" in text
    text = card("sst2", model__lora={"r": 4, "alpha": 4, "dropout": 0.1, "targets": ["query", "value"]}).task
    assert "rank 4, α 4, dropout 0.1, on the dense layers query, value of the encoder" in text


def test_the_windows_of_long_texts_are_described():
    assert "windows" not in card("sst2").task
    text = card("finetune/classification", data__long_text="chunk", data__max_seq_length=64, data__pooling="max").task
    assert "windows of 64 tokens that share 16, whose [CLS] vectors are pooled (max)" in text
    assert "windows of 384 tokens that share 128" in card("squad/v1").task
    assert "windows of 128 tokens that share 32" in card("finetune/ner").task


def test_a_distilled_model_names_its_teacher():
    distill = {"teacher": "google-bert/bert-large-uncased", "alpha": 0.7, "temperature": 3.0}
    assert (
        "Distilled from `google-bert/bert-large-uncased` with α 0.7, temperature 3."
        in card("sst2", train__distill=distill).task
    )


def test_a_folder_is_no_base_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bert").mkdir()

    def base(source):
        return base_model(load_recipe("sst2", {"model.name_or_path": source}))

    assert base("google-bert/bert-base-uncased") == "google-bert/bert-base-uncased"
    assert base("bert") is None
    assert base(str(tmp_path / "bert")) is None
    assert base(str(tmp_path / "removed")) is None


@pytest.mark.parametrize(
    ("name", "overrides", "expected"),
    [
        ("sst2", {}, ("nyu-mll/glue",)),
        ("sst2", {"data__data_dir": "GLUE"}, ()),
        ("sst2", {"data__train_file": "mine.tsv"}, ()),
        ("finetune/classification", {"data__dataset_name": "ada/reviews"}, ("ada/reviews",)),
        ("finetune/classification", {"data__train_file": "mine.csv"}, ()),
    ],
)
def test_only_training_data_of_the_hub_are_linked(name, overrides, expected):
    assert card(name, **overrides).training_sets == expected
