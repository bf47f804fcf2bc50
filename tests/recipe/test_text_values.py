"""Values of ``--set``: the type of the field decides what a text is."""

from __future__ import annotations

from types import NoneType
from typing import Any

import pytest

from bertkit.recipe.fields import Field, Fields, Text, fields_of, members, model_fields, train_fields, with_types
from bertkit.recipe.load import Checker
from bertkit.recipe.settings import DistillationSettings, HubSettings, LoraSettings
from bertkit.runtime.errors import RecipeError
from bertkit.runtime.placement.resolve import PlacementSettings
from bertkit.tasks.registry import TASKS, load_recipe

# What YAML reads as a block, as another type, as a mapping, as a reference, as a comment, or not at all.
TEXTS = ["|", ">", "|-", "no", "on", "1e5", "007", "1.0", "true", "a: b", ":", "*", "&", "@", "%", "#", "~", "[", "{}"]
TEXTS += ["a # b", "- a", "!x", ",", ";", " ", "a: |", "2001-01-01"]


def fields() -> dict[str, Field]:
    """Dotted key → field of every value of a recipe, of all tasks."""
    blocks = [("train", train_fields()), ("model", model_fields(of_checkpoint=True))]
    blocks += [("placement", fields_of(PlacementSettings)), ("hub", fields_of(HubSettings))]
    for kind in TASKS.kinds():
        blocks += [(name, fields_of(each)) for name, each in zip(("task", "data"), TASKS.settings(kind), strict=True)]
    return {f"{block}.{key}": field for block, of_block in blocks for key, field in of_block.items()}


FIELDS = fields()


def keys_of(*types: Any) -> list[str]:
    """The keys of fields whose values are of these types only."""
    return [key for key, field in FIELDS.items() if set(members(field.hint)) <= set(types)]


def checked(key: str, text: str) -> tuple[Any, list[str]]:
    """The value that a checked recipe has for a text, and the faults."""
    block, _, name = key.partition(".")
    checker = Checker({block: {name: Text(text)}}, {})
    values = checker.check_block(block, Fields({name: FIELDS[key]}))
    return values.get(name), checker.faults


@pytest.mark.parametrize("key", keys_of(str, NoneType))
def test_text_fields_take_any_text(key):
    for text in TEXTS:
        assert checked(key, text) == (text, [])


@pytest.mark.parametrize("key", [key for key, field in FIELDS.items() if float in members(field.hint)])
def test_number_fields_take_every_notation(key):
    for text in ("1e0", "1.0", "1", "+1"):
        value, faults = checked(key, text)
        type_ = int if text in ("1", "+1") and int in members(FIELDS[key].hint) else float
        assert (value, type(value)) == (1, type_) or faults


@pytest.mark.parametrize("key", keys_of(int, NoneType))
def test_whole_numbers_may_have_exponents(key):
    value, faults = checked(key, "1e0")
    assert type(value) is int or "expected" in faults[0]
    value, faults = checked(key, "1.5")
    assert value is None
    assert faults


@pytest.mark.parametrize(
    ("hint", "text", "value"),
    [
        (str, "null", "null"),
        (str | None, "null", None),
        (str | None, "", None),
        (str, "", ""),
        (str, "'no'", "no"),
        (str, "\u00a0", "\u00a0"),
        (str, r'"\t"', "\t"),
        (str, "|\n  a\n  b", "a\nb"),
        (str | bool, "true", True),
        (str | bool, "no", "no"),
        (str | dict[Any, Any] | None, "{spam: 5}", {"spam": 5}),
        (str | dict[Any, Any] | None, "balanced", "balanced"),
        (list[str], "[no, 1e5, true, ~]", ["no", "1e5", "true", "~"]),
        (list[int], "[0, 2]", [0, 2]),
        (dict[str, str], "{1: 2}", {"1": "2"}),
        (dict[int, float], "{32: 0.9}", {32: 0.9}),
        (list[dict[str, str]], "[{text: 1e5}]", [{"text": "1e5"}]),
        (LoraSettings, "{r: 8, targets: [no]}", {"r": 8, "targets": ["no"]}),
        (DistillationSettings, "{teacher: 1e5}", {"teacher": "1e5"}),
        (Any, "[a, 1]", ["a", 1]),
        (bool, "no", "no"),  # which the check refuses
        (int, "|", "|"),
    ],
)
def test_types_decide(hint, text, value):
    assert with_types(Text(text), hint) == value
    assert type(with_types(Text(text), hint)) is type(value)


def test_other_values_stay_as_they_are():
    assert with_types({"a": Text("no"), "b": 1e5}, dict[str, Any]) == {"a": "no", "b": 1e5}
    assert with_types("1e5", float) == "1e5"


def test_overrides_of_every_block_have_their_types():
    texts = {
        "task.label_separator": "|",
        "model.lora.r": "8",
        "model.lora.targets": "[query, no]",
        "data.train_file": "1e5",
        "train.run_name": "no",
        "train.learning_rate": "1e-5",
        "train.max_steps": "1e2",
        "placement.mixed_precision": "no",
        "hub.citations.any": "@misc{a, title={B: C}}",
    }
    recipe = load_recipe("finetune/classification", {key: Text(text) for key, text in texts.items()})
    assert recipe.task.label_separator == "|"
    assert recipe.model["lora"] == {"r": 8, "targets": ["query", "no"]}
    assert recipe.data.train_file == "1e5"
    assert (recipe.train["run_name"], recipe.train["learning_rate"], recipe.train["max_steps"]) == ("no", 1e-5, 100)
    assert recipe.placement.mixed_precision == "no"
    assert recipe.hub.citations == {"any": "@misc{a, title={B: C}}"}


def test_a_part_is_added_to_a_mapping_of_another_override():
    texts = {"model.lora.dropout": "0.1", "model.lora": "{r: 8, alpha: 4}", "model.lora.r": "2"}
    recipe = load_recipe("sst2", {key: Text(text) for key, text in texts.items()})
    assert recipe.model["lora"] == {"r": 2, "alpha": 4, "dropout": 0.1}
    fault = r"\(override\) train.class_weights: expected keys and values, as bad is given too, got 'balanced'"
    with pytest.raises(RecipeError, match=fault):
        load_recipe("sst2", {"train.class_weights": Text("balanced"), "train.class_weights.bad": Text("2")})


def test_the_task_and_the_checkpoint_are_texts_too():
    values = {"task.kind": Text("classification"), "model.name_or_path": Text("1e5")}
    recipe = load_recipe({}, values)
    assert (recipe.kind, recipe.model["name_or_path"]) == ("classification", "1e5")
    assert load_recipe("bert-mini", {"model.model_type": Text("null")}).model["model_type"] is None


def test_text_that_is_not_yaml_is_refused():
    with pytest.raises(RecipeError, match=r"\(override\) train\.seed: the value '\[', line 1, .*: not valid YAML"):
        load_recipe("sst2", {"train.seed": Text("[")})
