"""Cards that users edit, and scores for leaderboards: what a push accepts of them."""

from __future__ import annotations

import dataclasses
import math
from copy import deepcopy

import pytest
import yaml

from bertkit.features.sharing.model_card import model_card
from bertkit.features.sharing.push_files import check_card, eval_results
from bertkit.recipe.files import list_recipes
from bertkit.runtime.errors import CheckpointError, HubError
from bertkit.tasks.registry import load_recipe

from .conftest import FACTS, with_data

METADATA = yaml.safe_load(model_card(FACTS).split("---\n")[1])
TASKS = "name: Films\ntasks:\n- {id: films}\n- {id: dev, config: sst2, split: validation}\n"


@pytest.mark.parametrize("name", [name for name in list_recipes() if not name.startswith("placement/")])
def test_the_card_of_every_recipe_passes_the_check(name):
    recipe = load_recipe(name).to_dict()
    kind = "question-answering" if "squad" in name else "fill-mask" if "pretrain" in name else "text-classification"
    facts = dataclasses.replace(FACTS, recipe=recipe, pipeline_tag=kind, license="mit", language=("en",))
    assert check_card(model_card(facts), "README.md", facts) == []


def edited(**changes):
    """The card with changed metadata."""
    return f"---\n{yaml.safe_dump({**METADATA, **changes})}---\n\nMine.\n"


def with_result(value, **changes):
    results = deepcopy(METADATA["model-index"])
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


def test_an_undefined_score_is_no_result():
    facts = dataclasses.replace(FACTS, metrics={**FACTS.metrics, "eval_accuracy": math.nan})
    with pytest.raises(CheckpointError, match=r"accuracy is 0\.97, but the run has it undefined \(all_results"):
        check_card(with_result(0.97), "my/README.md", facts)
    with pytest.raises(HubError, match=r"hub\.benchmark_task: dev: accuracy of the run is undefined; remove it"):
        eval_results(facts, "dev", "accuracy")


def test_all_wrong_results_are_in_one_message():
    results = deepcopy(METADATA["model-index"])
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
def eval_yaml(monkeypatch, tmp_path):
    """Sets the ``eval.yaml`` of all data sets on the Hub."""

    def set_text(text):
        def download(*args, **kwargs):
            (tmp_path / "eval.yaml").write_text(text)
            return str(tmp_path / "eval.yaml")

        monkeypatch.setattr("huggingface_hub.hf_hub_download", download)

    return set_text


def test_a_benchmark_score_names_task_and_metric(eval_yaml):
    eval_yaml(TASKS)
    (entry,) = yaml.safe_load(eval_results(FACTS, "dev", "accuracy"))
    assert entry == {
        "dataset": {"id": "nyu-mll/glue", "task_id": "dev"},
        "value": 0.9123,
        "notes": "accuracy, one run of bertkit 0.2.0 with seed 7",
    }


@pytest.mark.parametrize(
    ("text", "task_id", "metric", "message"),
    [
        (TASKS, "films", "accuracy", "is scored on default test, and the run on sst2 validation; remove it"),
        (TASKS, "dew", "accuracy", "hub.benchmark_task: dew: nyu-mll/glue has the tasks films, dev; give one of them"),
        (TASKS, "dev", None, "hub.benchmark_task: dev: the run has no main score"),
        ("tasks: [", "dev", "accuracy", "the eval.yaml of nyu-mll/glue cannot be read"),
        ("- 1", "dev", "accuracy", "the eval.yaml of nyu-mll/glue cannot be read"),
        ("", "dev", "accuracy", "nyu-mll/glue has the tasks none"),
    ],
)
def test_a_score_of_another_task_is_refused(text, task_id, metric, message, eval_yaml):
    eval_yaml(text)
    with pytest.raises(HubError) as caught:
        eval_results(FACTS, task_id, metric)
    assert message in str(caught.value)


def test_a_partial_score_is_no_benchmark_score():
    facts = dataclasses.replace(FACTS, recipe=with_data(max_eval_samples=9))
    with pytest.raises(HubError, match="was not scored on a whole split of a Hub data set"):
        eval_results(facts, "dev", "accuracy")
