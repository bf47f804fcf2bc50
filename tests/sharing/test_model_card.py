"""The model card: complete metadata, scores as they were, nothing left to fill in."""

from __future__ import annotations

import dataclasses

import yaml

from bertkit.sharing.model_card import CardFacts, write_model_card

FACTS = CardFacts(
    title="BERT fine-tuned on sst2",
    head="BertForSequenceClassification",
    auto_class="AutoModelForSequenceClassification",
    pipeline_tag="text-classification",
    task="BERT, fine-tuned.",
    data={"train": "nyu-mll/glue (sst2), 67349 examples"},
    metrics={"eval_accuracy": 0.91234567, "eval_loss": 0.3, "eval_runtime": 5.0},
    main_metrics=("eval_accuracy",),
    recipe={"task": {"kind": "glue"}, "data": {"data_dir": "/home/ada/GLUE"}},
    seed=7,
    truncation={"train": "3 of 9 inputs cut"},
    base_model="google-bert/bert-base-uncased",
    dataset=("nyu-mll/glue", "sst2", "validation"),
    note="Beware.",
)


def card(tmp_path, **changes):
    path = tmp_path / "README.md"
    write_model_card(path, dataclasses.replace(FACTS, **changes))
    _, metadata, text = path.read_text().split("---\n", 2)
    return yaml.safe_load(metadata), text


def test_metadata_names_data_metric_split_and_base_model(tmp_path):
    metadata, _ = card(tmp_path)
    assert metadata["base_model"] == "google-bert/bert-base-uncased"
    assert metadata["pipeline_tag"] == "text-classification"
    (result,) = metadata["model-index"][0]["results"]
    assert result["dataset"] == {
        "name": "nyu-mll/glue sst2",
        "type": "nyu-mll/glue",
        "config": "sst2",
        "split": "validation",
    }
    assert result["metrics"][0] == {"type": "accuracy", "value": 0.9123}


def test_local_data_make_no_claim_about_a_hub_set(tmp_path):
    metadata, _ = card(tmp_path, dataset=None, base_model=None)
    assert not {"datasets", "model-index", "base_model"} & metadata.keys()


def test_the_text_tells_scores_seed_cuts_recipe_and_how_to_load(tmp_path):
    _, text = card(tmp_path)
    for needed in (
        "Beware.",
        "| accuracy | 0.9123 |",
        "seed 7",
        "train: 3 of 9 inputs cut",
        "kind: glue",
        "AutoModelForSequenceClassification.from_pretrained",
        "devlin2019bert",
    ):
        assert needed in text
    assert "runtime" not in text
    assert "data_dir: …/GLUE" in text
    assert "/home/ada" not in text
    assert "More information needed" not in text
