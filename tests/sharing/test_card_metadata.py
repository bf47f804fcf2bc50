"""Metadata of model cards: those that runs write, and the check of those that users edit."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import yaml

from bertkit.errors import CheckpointError, HubError
from bertkit.recipe.find import list_recipes
from bertkit.sharing import eval_results as eval_results_module
from bertkit.sharing.card_facts import CardFacts
from bertkit.sharing.card_metadata import card_metadata, check_card
from bertkit.sharing.eval_results import eval_results
from bertkit.sharing.model_card import model_card
from bertkit.tasks.registry import load_recipe

FACTS = CardFacts(
    title="BERT fine-tuned on sst2",
    head="BertForSequenceClassification",
    auto_class="AutoModelForSequenceClassification",
    pipeline_tag="text-classification",
    task="BERT, fine-tuned.",
    data={},
    metrics={"eval_accuracy": 0.91234567, "eval_pearson": 0.5, "eval_loss": 0.3},
    main_metrics=("eval_accuracy", "eval_pearson"),
    recipe=load_recipe("sst2").to_dict(),
    seed=7,
    base_model="google-bert/bert-base-uncased",
    dataset=("nyu-mll/glue", "sst2", "validation"),
    training_sets=("nyu-mll/glue",),
    versions={"bertkit": "0.2.0"},
)


def metadata(**changes):
    return yaml.safe_load(card_metadata(dataclasses.replace(FACTS, **changes)))


def with_data(**data):
    return {**FACTS.recipe, "data": {**FACTS.recipe["data"], **data}}


def test_the_base_model_was_fine_tuned():
    assert metadata()["base_model_relation"] == "finetune"
    assert "base_model_relation" not in metadata(base_model=None)


def test_metrics_have_the_names_of_the_hub():
    assert metadata()["metrics"] == ["accuracy", "pearsonr"]
    results = metadata()["model-index"][0]["results"][0]["metrics"]
    assert [each["type"] for each in results] == ["accuracy", "pearsonr"]
    scores = {"metrics": {"eval_masked_lm_loss": 5.0}, "main_metrics": ("eval_masked_lm_loss",)}
    assert "metrics" not in metadata(dataset=None, **scores)


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
    assert "model-index" not in metadata(**changes)


def test_a_whole_split_of_any_name_is_listed():
    facts = {"dataset": ("ada/reviews", "default", "films"), "recipe": with_data(train_split="books[:50%]")}
    assert metadata(**facts)["model-index"][0]["results"][0]["dataset"]["split"] == "films"


def test_the_widget_has_the_recipe_s_examples():
    assert metadata()["widget"] == load_recipe("sst2").hub.widget
    own = {"hub.widget": [{"text": "Lovely.", "example_title": "Praise"}]}
    assert metadata(recipe=load_recipe("sst2", own).to_dict())["widget"] == own["hub.widget"]
    assert "widget" not in metadata(recipe=load_recipe("finetune/classification").to_dict())
    assert load_recipe("squad/v1").hub.widget[0].keys() == {"text", "context"}


def test_a_masked_language_model_has_an_example():
    facts = {"pipeline_tag": "fill-mask", "recipe": load_recipe("bert-tiny").to_dict(), "mask_token": "<mask>"}
    assert metadata(**facts)["widget"] == [{"text": "The capital of France is <mask>."}]
    assert metadata(language=("de", "en"), **facts)["widget"]
    assert "widget" not in metadata(language=("de",), **facts)


@pytest.mark.parametrize("name", [name for name in list_recipes() if not name.startswith("placement/")])
def test_the_card_of_every_recipe_passes_the_check(name):
    recipe = load_recipe(name).to_dict()
    kind = "question-answering" if "squad" in name else "fill-mask" if "pretrain" in name else "text-classification"
    facts = dataclasses.replace(FACTS, recipe=recipe, pipeline_tag=kind, license="mit", language=("en",))
    assert check_card(model_card(facts), "README.md", facts) == []


def edited(**changes):
    """The card with changed metadata."""
    values = {**metadata(), **changes}
    return f"---\n{yaml.safe_dump(values)}---\n\nMine.\n"


def with_result(value, **changes):
    results = metadata()["model-index"]
    results[0]["results"][0]["metrics"][0]["value"] = value
    results[0]["results"][0]["dataset"] |= changes
    return edited(**{"model-index": results})


@pytest.mark.parametrize(
    ("card", "message"),
    [
        ("---\nlicense: [mit\n---\n", "the lines between --- at the top, are not valid: while parsing a flow sequence"),
        ("---\n- mit\n---\n", "are not valid: repo card metadata block should be a dict"),
        (edited(**{"model-index": [{"name": "x"}]}), "are not valid: Invalid `model_index` in metadata"),
        (edited(**{"model-index": "x"}), "are not valid: Invalid `model_index` in metadata"),
        (with_result("much"), "model-index: accuracy: expected a finite number, got 'much'"),
        (with_result(True), "model-index: accuracy: expected a finite number, got True"),
        (with_result(float("nan")), "model-index: accuracy: expected a finite number, got nan"),
        (with_result(float("-inf")), "model-index: accuracy: expected a finite number, got -inf"),
        (with_result(10**400), "model-index: accuracy: expected a finite number, got 1000"),
        (with_result(0.97), "model-index: accuracy is 0.97, but the run has 0.9123 (all_results.json)"),
        (with_result(1), "model-index: accuracy is 1, but the run has 0.9123"),
    ],
)
def test_a_wrong_card_is_refused(card, message):
    with pytest.raises(CheckpointError) as caught:
        check_card(card, "my/README.md", FACTS)
    assert str(caught.value).startswith("my/README.md: its metadata")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_all_wrong_results_are_in_one_message():
    results = metadata()["model-index"]
    for metric in results[0]["results"][0]["metrics"]:
        metric["value"] = 0.97
    with pytest.raises(CheckpointError, match=r"accuracy is 0\.97, .*; model-index: pearsonr is 0\.97"):
        check_card(edited(**{"model-index": results}), "README.md", FACTS)


@pytest.mark.parametrize(
    "card",
    [
        *map(with_result, (0.9123, 0.91, 91.2, 91)),
        with_result(0.97, split="test"),
        with_result(0.97, type="ada/other"),
        edited(license=["mit", "other"]),
    ],
)
def test_results_that_agree_with_the_run_pass(card):
    assert check_card(card, "README.md", FACTS) == []
    assert check_card(card, "README.md", None) == []


@pytest.mark.parametrize("part", [with_data(max_eval_samples=100), with_data(folds=5, fold=0)])
def test_the_score_of_a_part_is_not_compared(part):
    facts = dataclasses.replace(FACTS, recipe=part)
    assert check_card(with_result(0.97), "README.md", facts) == []


def test_a_card_without_metadata_is_a_warning():
    (note,) = check_card("# My model\n", "README.md", FACTS)
    assert note == "README.md has no metadata (license, language, results) at its top"


@pytest.fixture
def benchmark(monkeypatch, tmp_path):
    """A data set on the Hub whose ``eval.yaml`` has a text; the function returns what a push would write."""

    def with_text(text, task_id="dev", **changes):
        (tmp_path / "eval.yaml").write_text(text)
        monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda *given, **named: str(tmp_path / "eval.yaml"))
        return eval_results(dataclasses.replace(FACTS, **changes), task_id, "accuracy")

    return with_text


TASKS = "name: Films\ntasks:\n- {id: films}\n- {id: dev, config: sst2, split: validation}\n"


def test_a_benchmark_score_names_task_and_metric(benchmark):
    (entry,) = yaml.safe_load(benchmark(TASKS))
    assert entry == {
        "dataset": {"id": "nyu-mll/glue", "task_id": "dev"},
        "value": 0.9123,
        "notes": "accuracy, one run of bertkit 0.2.0 with seed 7",
    }


@pytest.mark.parametrize(
    ("text", "given", "message"),
    [
        (TASKS, {"task_id": "films"}, "is scored on default test, and the run on sst2 validation; remove it"),
        (TASKS, {"task_id": "dew"}, "hub.benchmark_task: dew: nyu-mll/glue has the tasks films, dev; give one of them"),
        (TASKS, {"recipe": with_data(max_eval_samples=9)}, "was not scored on a whole split of a Hub data set"),
        ("tasks: [", {}, "the eval.yaml of nyu-mll/glue cannot be read"),
        ("- 1", {}, "the eval.yaml of nyu-mll/glue cannot be read"),
        ("", {}, "nyu-mll/glue has the tasks none"),
    ],
)
def test_a_score_of_another_task_is_refused(text, given, message, benchmark):
    with pytest.raises(HubError) as caught:
        benchmark(text, **given)
    assert message in str(caught.value)


def test_a_run_without_a_main_score_is_refused():
    with pytest.raises(HubError, match=r"hub\.benchmark_task: dev: the run has no main score, .*; remove it"):
        eval_results(FACTS, "dev", None)


def test_data_without_a_benchmark_are_refused(monkeypatch):
    import httpx
    from huggingface_hub.errors import RemoteEntryNotFoundError

    def missing(*given, **named):
        request = httpx.Request("GET", "https://huggingface.co")
        raise RemoteEntryNotFoundError("404", response=httpx.Response(404, request=request))

    monkeypatch.setattr("huggingface_hub.hf_hub_download", missing)
    with pytest.raises(HubError, match=r"nyu-mll/glue is no benchmark of the Hub: it has no eval\.yaml; remove it"):
        eval_results(FACTS, "dev", "accuracy")
    assert eval_results_module.EVAL_RESULTS == ".eval_results/bertkit.yaml"


def test_the_recorded_facts_keep_the_training_sets(tmp_path: Path):
    again = CardFacts.from_dict(json.loads(json.dumps(FACTS.to_dict())))
    assert again.training_sets == FACTS.training_sets
    assert card_metadata(again) == card_metadata(FACTS)
