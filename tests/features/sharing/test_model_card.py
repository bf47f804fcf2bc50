"""The model card: complete metadata, scores as they were, nothing left to fill in."""

from __future__ import annotations

import dataclasses
import json
import math
import re

import pytest
import yaml

from bertkit.features.sharing import model_card as model_card_module
from bertkit.features.sharing.card_facts import CardReport
from bertkit.features.sharing.model_card import is_as_recorded, model_card, recorded_card, recorded_facts
from bertkit.recipe.files import list_recipes
from bertkit.tasks.registry import load_recipe

from .conftest import FACTS, with_data

RECIPES = [name for name in list_recipes() if not name.startswith("placement/")]


def card(**changes):
    """Returns the metadata and the text of the card of changed facts."""
    _, metadata, text = model_card(dataclasses.replace(FACTS, **changes)).split("---\n", 2)
    return yaml.safe_load(metadata), text


def test_metadata_names_data_metrics_and_base_model():
    metadata, _ = card()
    assert (metadata["base_model"], metadata["base_model_relation"]) == ("google-bert/bert-base-uncased", "finetune")
    assert metadata["pipeline_tag"] == "text-classification"
    assert metadata["metrics"] == ["accuracy", "pearsonr"]
    (result,) = metadata["model-index"][0]["results"]
    names = {"name": "nyu-mll/glue sst2", "type": "nyu-mll/glue", "config": "sst2", "split": "validation"}
    assert result["dataset"] == names
    assert result["metrics"] == [{"type": "accuracy", "value": 0.9123}, {"type": "pearsonr", "value": 0.5}]
    assert not {"license", "language"} & metadata.keys()
    metadata, _ = card(license="mit", language=("en", "de"))
    assert (metadata["license"], metadata["language"]) == ("mit", ["en", "de"])


def test_scores_of_simple_models_are_no_results_of_this_one():
    metrics = {**FACTS.metrics, "baseline_words_accuracy": 1.0}
    metadata, text = card(metrics=metrics, main_metrics=(*FACTS.main_metrics, "baseline_words_accuracy"))
    assert len(metadata["model-index"][0]["results"][0]["metrics"]) == 2
    assert "| baseline_words_accuracy | 1.0000 |" in text.replace("\\_", "_")


def test_the_command_of_the_card_suits_every_task():
    """Checkpoints of pairs, questions and choices do not take one text."""
    assert "`bertkit predict PATH_OR_HUB_ID --input FILE`" in card()[1]


def test_a_run_without_scores_says_so():
    text = card(metrics={}, main_metrics=(), dataset=None)[1]
    assert "## Scores\n\nThis run has no scores on held-out data.\n\n## Limits" in text


def test_unknown_things_are_not_in_the_metadata():
    scores = {"metrics": {"eval_masked_lm_loss": 5.0}, "main_metrics": ("eval_masked_lm_loss",)}
    metadata, _ = card(dataset=None, base_model=None, training_sets=(), **scores)
    assert not {"datasets", "model-index", "base_model", "base_model_relation", "metrics"} & metadata.keys()


def test_an_undefined_score_is_shown_and_not_listed(tmp_path):
    undefined = dataclasses.replace(FACTS, metrics={**FACTS.metrics, "eval_pearson": math.nan})
    recorded = json.loads(json.dumps(recorded_card(undefined)).replace("NaN", "null"))
    (tmp_path / "run.json").write_text(json.dumps(recorded))
    metadata, text = card(metrics=recorded_facts(tmp_path).metrics)
    assert [each["type"] for each in metadata["model-index"][0]["results"][0]["metrics"]] == ["accuracy"]
    assert "| pearson | undefined |" in text


@pytest.mark.parametrize(
    "changes",
    [
        {"recipe": with_data(max_eval_samples=100)},
        {"recipe": with_data(folds=5, fold=0)},
        {"dataset": ("ada/reviews", "default", "train")},
        {"dataset": ("ada/reviews", "default", "books"), "recipe": with_data(train_split="books")},
        {"dataset": ("ada/reviews", "default", "train[90%:]")},
        {"dataset": ("ada/reviews", "default", "validation[:10%]")},
        {"dataset": ("ada/reviews", "default", "test+train")},
        {"dataset": None},
    ],
    ids=[
        "first rows",
        "fold",
        "held out of the training set",
        "held out of a training split of another name",
        "end of the training set",
        "start of a split",
        "two splits",
        "files",
    ],
)
def test_a_part_of_a_split_is_not_listed(changes):
    assert "model-index" not in card(**changes)[0]


def test_the_widget_has_the_recipe_s_examples():
    assert card()[0]["widget"] == load_recipe("sst2").hub.widget
    own = {"hub.widget": [{"text": "Lovely.", "example_title": "Praise"}]}
    assert card(recipe=load_recipe("sst2", own).to_dict())[0]["widget"] == own["hub.widget"]
    assert "widget" not in card(recipe=load_recipe("finetune/classification").to_dict())[0]
    assert load_recipe("squad/v1").hub.widget[0].keys() == {"text", "context"}


def test_a_masked_language_model_has_an_example():
    changes = {"pipeline_tag": "fill-mask", "recipe": load_recipe("bert-tiny").to_dict(), "mask_token": "<mask>"}
    assert card(**changes)[0]["widget"] == [{"text": "The capital of France is <mask>."}]
    assert card(language=("de", "en"), **changes)[0]["widget"]
    assert "widget" not in card(language=("de",), **changes)[0]


def test_the_text_has_scores_recipe_and_loading():
    _, text = card()
    for expected in (
        "Beware.",
        "| accuracy | 0.9123 |",
        "seed 7",
        "train: 3 of 9 inputs cut",
        "kind: glue",
        "AutoModelForSequenceClassification.from_pretrained",
        "data_dir: …/GLUE",
        "3 epochs of 32 inputs",
    ):
        assert expected in text
    for other in ("runtime", "/home/ada", "More information needed"):
        assert other not in text
    _, text = card(steps=6315, versions={"bertkit": "0.1.0", "torch": "2.13.0"})
    assert "6315 steps of 32 inputs, peak learning rate 2e-05, seed 7, with bertkit 0.1.0, torch 2.13.0. The" in text


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
        ("glue/sst2", None, []),
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
    own = "@misc{ada,\n  title={Reviews}\n}"
    for changes, entries in (({}, keys), ({"hub.citations": {"any": own}}, ["ada"])):
        blocks = load_recipe(recipe, changes).to_dict()
        _, text = card(recipe=blocks, dataset=dataset and (dataset, "config", "validation"))
        cited = re.findall(r"^@\w+{(\w+),$", text.partition("## Citation")[2], re.M)
        assert cited == ["devlin2019bert", *entries]


HOSTILE_RECIPE = {
    "task": {"kind": "x", "names": ["1", "no", "1e-4", "~", "", "a: b", "é", "\n"]},
    "data": {"phases": {128: 0.9, 512: 0.1}, "bools": {True: 1, None: 2, 1.5: 3}, "nested": {1: {2: [{3: None}]}}},
    "train": {"global_train_batch_size": 1, "learning_rate": 1e-5, "num_train_epochs": 3.0, "seed": 0},
    "hub": {},
}


@pytest.mark.parametrize("name", ["hostile", *RECIPES])
def test_recorded_facts_fill_the_same_card(name, tmp_path):
    """Each shipped recipe: keys that are numbers, such as those of data.phases, stay numbers."""
    facts = dataclasses.replace(FACTS, recipe=HOSTILE_RECIPE if name == "hostile" else load_recipe(name).to_dict())
    (tmp_path / "run.json").write_text(json.dumps({"finished": True, **recorded_card(facts)}))
    assert recorded_facts(tmp_path) == facts
    assert model_card(recorded_facts(tmp_path)) == model_card(facts)
    assert is_as_recorded(tmp_path, model_card(facts))
    assert not is_as_recorded(tmp_path, model_card(facts) + "My own words.\n")
    assert recorded_facts(tmp_path / "nowhere") is None
    assert not is_as_recorded(tmp_path / "nowhere", "mine")


def test_a_card_of_another_version_is_known(tmp_path, monkeypatch):
    with monkeypatch.context() as earlier:
        earlier.setattr(model_card_module, "_describe_limits", lambda facts: ["as an earlier version wrote it"])
        written = model_card(FACTS)
        (tmp_path / "run.json").write_text(json.dumps(recorded_card(FACTS)))
    assert written != model_card(FACTS)
    assert is_as_recorded(tmp_path, written)


def test_the_report_is_shown_escaped(tmp_path):
    """The figure, the table of classes and the link; a label cannot break the table."""
    rows = (("class", "F1", "examples"), ("<b>|a", 0.51234, 7), ("b", None, 1))
    report = CardReport("figures/confusion.png", "Confusion [of] 2 classes", rows)
    _, text = card(report=report)
    assert "![Confusion \\[of\\] 2 classes](figures/confusion.png)" in text
    assert "| \\<b\\>\\|a | 0.5123 | 7 |\n| b | – | 1 |" in text
    assert "[report.html](report.html)" in text
    assert "report.html" not in card()[1]
    (tmp_path / "run.json").write_text(json.dumps(recorded_card(dataclasses.replace(FACTS, report=report))))
    assert card(report=recorded_facts(tmp_path).report)[1] == text
