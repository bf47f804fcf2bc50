"""The model card: complete metadata, scores as they were, nothing left to fill in."""

from __future__ import annotations

import dataclasses

import yaml

from bertkit.sharing.model_card import CardFacts, model_card

FACTS = CardFacts(
    title="BERT fine-tuned on sst2",
    head="BertForSequenceClassification",
    auto_class="AutoModelForSequenceClassification",
    pipeline_tag="text-classification",
    task="BERT, fine-tuned.",
    data={"train": "nyu-mll/glue (sst2), 67349 examples"},
    metrics={"eval_accuracy": 0.91234567, "eval_loss": 0.3, "eval_runtime": 5.0},
    main_metrics=("eval_accuracy",),
    recipe={
        "task": {"kind": "glue"},
        "data": {"data_dir": "/home/ada/GLUE"},
        "train": {"global_train_batch_size": 32, "learning_rate": 2e-5, "num_train_epochs": 3.0},
    },
    seed=7,
    truncation={"train": "3 of 9 inputs cut"},
    base_model="google-bert/bert-base-uncased",
    dataset=("nyu-mll/glue", "sst2", "validation"),
    note="Beware.",
)


def card(**changes):
    _, metadata, text = model_card(dataclasses.replace(FACTS, **changes)).split("---\n", 2)
    return yaml.safe_load(metadata), text


def test_metadata_names_data_metric_split_and_base_model():
    metadata, _ = card()
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


def test_local_data_make_no_claim_about_a_hub_set():
    metadata, _ = card(dataset=None, base_model=None)
    assert not {"datasets", "model-index", "base_model"} & metadata.keys()


def test_the_text_tells_scores_seed_cuts_recipe_and_how_to_load():
    _, text = card()
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
