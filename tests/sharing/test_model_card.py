"""The model card: complete metadata, scores as they were, nothing left to fill in."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest
import yaml

from bertkit.recipe.find import list_recipes
from bertkit.sharing import model_card as model_card_module
from bertkit.sharing.card_facts import CardFacts, CardReport
from bertkit.sharing.model_card import is_as_recorded, model_card, recorded_card, recorded_facts
from bertkit.tasks.registry import load_recipe

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
        "hub": load_recipe("sst2").to_dict()["hub"],
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


def test_local_data_name_no_hub_set():
    metadata, _ = card(dataset=None, base_model=None)
    assert not {"datasets", "model-index", "base_model"} & metadata.keys()


def test_the_text_has_scores_recipe_and_loading():
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


def test_licence_and_language_only_where_given():
    assert not {"license", "language"} & card()[0].keys()
    metadata, _ = card(license="mit", language=("en", "de"))
    assert (metadata["license"], metadata["language"]) == ("mit", ["en", "de"])


def cited(name, dataset, **changes):
    """The section of citations in the card of a run of a shipped recipe."""
    recipe = load_recipe(name, changes).to_dict()
    return card(recipe=recipe, dataset=dataset and (dataset, "config", "validation"))[1].partition("## Citation")[2]


@pytest.mark.parametrize(
    ("recipe", "dataset", "keys"),
    [
        ("glue/cola", "nyu-mll/glue", ["wang2019glue", "warstadt2019cola"]),
        ("glue/sst2", "nyu-mll/glue", ["wang2019glue", "socher2013recursive"]),
        ("glue/mrpc", "nyu-mll/glue", ["wang2019glue", "dolan2005automatically"]),
        ("glue/stsb", "nyu-mll/glue", ["wang2019glue", "cer2017semeval"]),
        ("glue/qqp", "nyu-mll/glue", ["wang2019glue"]),
        ("glue/mnli", "nyu-mll/glue", ["wang2019glue", "williams2018broad"]),
        ("glue/qnli", "nyu-mll/glue", ["wang2019glue", "rajpurkar2016squad"]),
        ("glue/rte", "nyu-mll/glue", ["wang2019glue", "dagan2005pascal"]),
        ("glue/wnli", "nyu-mll/glue", ["wang2019glue", "levesque2012winograd"]),
        ("squad/v1", "rajpurkar/squad", ["rajpurkar2016squad"]),
        ("squad/v2", "rajpurkar/squad_v2", ["rajpurkar2018know"]),
        ("finetune/ner", "tomaarsen/conll2003", ["tjongkimsang2003introduction"]),
        ("finetune/ner-features", "lhoestq/conll2003", ["tjongkimsang2003introduction"]),
        ("finetune/multiple-choice", "allenai/swag", ["zellers2018swag"]),
        ("finetune/multiple-choice", None, []),
        ("finetune/multiple-choice", "ada/endings", []),
        ("bert-tiny", None, []),
    ],
)
def test_a_recipe_cites_its_own_data_only(recipe, dataset, keys):
    assert re.findall(r"^@\w+{(\w+),$", cited(recipe, dataset), re.M) == ["devlin2019bert", *keys]


def test_a_recipe_may_cite_something_whatever_the_data():
    own = {"any": "@misc{ada,\n  title={Reviews}\n}"}
    assert "\n\n@misc{ada,\n  title={Reviews}\n}\n```" in cited("sst2", None, **{"hub.citations": own})


def test_the_data_are_cited_beside_bert():
    _, text = card()
    assert all(key in text for key in ("devlin2019bert", "wang2019glue", "socher2013recursive"))
    _, text = card(dataset=None)
    assert "devlin2019bert" in text
    assert "wang2019glue" not in text


def test_how_it_was_trained_stands_in_one_line():
    _, text = card(steps=6315, versions={"bertkit": "0.1.0", "torch": "2.13.0"})
    line = (
        "6315 steps of 32 inputs, peak learning rate 2e-05, seed 7, with bertkit 0.1.0, torch 2.13.0. The recipe below"
    )
    assert line in text
    assert "3 epochs of 32 inputs" in card()[1]


def test_the_stock_form_loads_without_bertkit():
    _, text = card(is_stock=True, address="ada/film")
    assert "import bertkit" not in text
    assert "trust_remote_code" not in text
    assert 'AutoTokenizer.from_pretrained("ada/film")' in text
    assert "import bertkit" in card()[1]


HOSTILE_RECIPE = {
    "task": {"kind": "x", "names": ["1", "no", "1e-4", "~", "", "a: b", "é", "\n"]},
    "data": {"phases": {128: 0.9, 512: 0.1}, "bools": {True: 1, None: 2, 1.5: 3}, "nested": {1: {2: [{3: None}]}}},
    "train": {"global_train_batch_size": 1, "learning_rate": 1e-5, "num_train_epochs": 3.0, "seed": 0},
    "hub": {},
}


@pytest.mark.parametrize("name", ["hostile", *list_recipes()])
def test_recorded_facts_fill_the_same_card(name, tmp_path):
    """Each shipped recipe: keys that are numbers, such as those of data.phases, stay numbers."""
    if name.startswith("placement/"):
        return
    facts = dataclasses.replace(FACTS, recipe=HOSTILE_RECIPE if name == "hostile" else load_recipe(name).to_dict())
    (tmp_path / "run.json").write_text(json.dumps({"finished": True, **recorded_card(facts)}))
    assert recorded_facts(tmp_path) == facts
    assert model_card(recorded_facts(tmp_path)) == model_card(facts)
    assert is_as_recorded(tmp_path, model_card(facts))
    assert not is_as_recorded(tmp_path, model_card(facts) + "My own words.\n")


def test_a_card_of_another_version_is_known_too(tmp_path, monkeypatch):
    with monkeypatch.context() as then:
        then.setattr(model_card_module, "_text", lambda facts: "as an earlier version wrote it")
        written = model_card(FACTS)
        (tmp_path / "run.json").write_text(json.dumps(recorded_card(FACTS)))
    assert written != model_card(FACTS)
    assert is_as_recorded(tmp_path, written)


def test_without_a_run_there_are_no_facts(tmp_path):
    assert recorded_facts(tmp_path / "nowhere") is None
    assert not is_as_recorded(tmp_path, "mine")


def test_the_report_is_shown_escaped():
    """The figure, the table of classes and the link; a label cannot break the table."""
    rows = (("class", "F1", "examples"), ("<b>|a", 0.51234, 7), ("b", None, 1))
    report = CardReport("figures/confusion.png", "Confusion [of] 2 classes", rows)
    _, text = card(report=report)
    assert "![Confusion \\[of\\] 2 classes](figures/confusion.png)" in text
    assert "| \\<b\\>\\|a | 0.5123 | 7 |\n| b | – | 1 |" in text
    assert "[report.html](report.html)" in text
    facts = dataclasses.replace(FACTS, report=report)
    again = CardFacts.from_dict(json.loads(json.dumps(facts.to_dict())))
    assert model_card(again) == model_card(facts)
    assert "report.html" not in card()[1]
