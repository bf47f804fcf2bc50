"""The JSON Schema of recipes, beside an independent validator and beside what `load_recipe` accepts."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest
import transformers

from bertkit import list_recipes, load_recipe, recipe_schema
from bertkit.recipe.files import read_recipe_file, recipe_folder
from bertkit.recipe.load import load_placement
from bertkit.recipe.schema import recipe_schema as schema_of
from bertkit.runtime.errors import RecipeError
from bertkit.tasks.registry import TASKS

jsonschema = pytest.importorskip("jsonschema")

KINDS = [kind for kind in TASKS.kinds() if kind not in TASKS.third_party()]
RECIPES = list_recipes()


class OwnTasks:
    """The registry without tasks of other packages, which may be installed."""

    def kinds(self) -> list[str]:
        return KINDS

    def settings(self, kind: str) -> tuple[type, type]:
        return TASKS.settings(kind)


@pytest.fixture(scope="module")
def every_kind() -> Any:
    return jsonschema.Draft7Validator(schema_of(None, OwnTasks()))


@pytest.fixture(scope="module")
def of_kind() -> dict[str, Any]:
    return {kind: jsonschema.Draft7Validator(recipe_schema(kind)) for kind in (*KINDS, "placement")}


def test_the_shipped_schema_is_that_of_the_settings(every_kind):
    """If it fails: bertkit recipes schema > recipes/schema.json"""
    shipped = json.loads((recipe_folder() / "schema.json").read_text())
    if shipped["$comment"] != every_kind.schema["$comment"]:
        pytest.skip(f"the shipped schema is of {shipped['$comment']}, not of {transformers.__version__}")
    assert shipped == every_kind.schema


def test_they_are_schemas(every_kind, of_kind):
    for validator in (every_kind, *of_kind.values()):
        jsonschema.Draft7Validator.check_schema(validator.schema)


@pytest.mark.parametrize("name", RECIPES)
def test_shipped_recipes_are_valid(every_kind, of_kind, name):
    path = recipe_folder() / f"{name}.yaml"
    blocks, _ = read_recipe_file(path)
    kind = blocks["task"]["kind"] if "task" in blocks else "placement"
    for validator in (every_kind, of_kind[kind]):
        assert list(validator.iter_errors(blocks)) == []
    first = path.read_text().splitlines()[0]
    assert (path.parent / first.removeprefix("# yaml-language-server: $schema=")).samefile(
        recipe_folder() / "schema.json"
    )


@pytest.mark.parametrize("name", [name for name in RECIPES if not name.startswith("placement/")])
def test_the_recipe_that_a_run_saves_is_valid(every_kind, name):
    assert list(every_kind.iter_errors(load_recipe(name).to_dict())) == []


def with_value(name: str, dotted: str, value: Any) -> dict[str, Any]:
    blocks, _ = read_recipe_file(recipe_folder() / f"{name}.yaml")
    block, _, key = dotted.partition(".")
    if not key:
        return {**blocks, block: value}
    return {**blocks, block: {**blocks.get(block, {}), key: value}}


WRONG = [
    ("finetune/ner", "train.learning_rat", 1e-5),
    ("finetune/ner", "train.learning_rate", "fast"),
    ("finetune/ner", "train.learning_rate", 0),
    ("finetune/ner", "train.max_steps", 0),
    ("finetune/ner", "train.eval_strategy", "sometimes"),
    ("finetune/ner", "train.report_to", 3),
    ("finetune/ner", "train.per_device_train_batch_size", 8),
    ("finetune/ner", "train.hub_model_id", "a/b"),
    ("finetune/ner", "task.kind", "nerd"),
    ("finetune/ner", "task.problem", "single_label"),  # of another task
    ("finetune/ner", "data.train_fil", "a.conll"),
    ("finetune/ner", "data.max_seq_length", 0),
    ("finetune/ner", "data.max_seq_length", 2**30),
    ("finetune/ner", "model.lora", {"rank": 8}),
    ("finetune/ner", "model.freeze_layers", -1),
    ("finetune/ner", "placement.device", "tpu"),
    ("finetune/ner", "placement.per_device_train_batch_size", 0),
    ("finetune/ner", "hub.language", "en"),
    ("finetune/ner", "trian", {}),
    ("finetune/glue/sst2", "task.text_columns", None),
    ("pretrain/bert-tiny", "task.pair_objective", "nps"),
    ("pretrain/bert-tiny", "model.hidden_sizes", 128),
    ("pretrain/bert-tiny", "model.hidden_size", "wide"),
    ("placement/cpu", "placement.devise", "cpu"),
    ("placement/cpu", "train", {}),
]


@pytest.mark.parametrize(
    ("name", "dotted", "value"), WRONG, ids=[f"{name} {key}={value}" for name, key, value in WRONG]
)
def test_what_the_schema_refuses_is_refused_by_bertkit(every_kind, tmp_path, name, dotted, value):
    blocks = with_value(name, dotted, value)
    assert not every_kind.is_valid(blocks)
    path = tmp_path / "recipe.yaml"
    path.write_text(json.dumps(blocks))
    with pytest.raises(RecipeError):
        (load_placement if name.startswith("placement/") else load_recipe)(path)


RIGHT = [
    ("finetune/ner", "train.max_steps", -1),
    ("finetune/ner", "train.report_to", ["trackio", "wandb"]),
    ("finetune/ner", "train.warmup_steps", 500),
    ("finetune/ner", "train.lr_scheduler_kwargs", {"num_cycles": 2}),
    ("finetune/ner", "model.lora", {"r": 4, "targets": ["query"]}),
    ("finetune/ner", "model.lora", None),
    ("finetune/ner", "model.attention_dropout", 0.0),  # of another family
    ("finetune/ner", "data", None),
    ("finetune/classification", "train.class_weights", {"good": 1.0, "bad": 2.0}),
    ("finetune/classification", "task.threshold", {"good": 0.3}),
    ("finetune/classification", "task.threshold", "tuned"),
    ("pretrain/bert-tiny", "data.phases", {128: 0.9, 512: 0.1}),
    ("pretrain/continue", "model", {"name_or_path": "a/b", "embedding_size": 16}),
]


@pytest.mark.parametrize(
    ("name", "dotted", "value"), RIGHT, ids=[f"{name} {key}={value}" for name, key, value in RIGHT]
)
def test_what_bertkit_accepts_is_valid(every_kind, name, dotted, value):
    blocks = with_value(name, dotted, value)
    load_recipe(blocks)
    as_json = json.loads(json.dumps(blocks))  # keys of mappings are strings there
    assert list(every_kind.iter_errors(as_json)) == []


def test_an_unknown_kind_is_named():
    with pytest.raises(RecipeError, match=r"unknown kind 'nerd'; expected one of .* did you mean 'ner'"):
        recipe_schema("nerd")


def described(schema: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    for name, each in schema.get("properties", {}).items():
        yield f"{path}.{name}", each
        yield from described(each, f"{path}.{name}")


@pytest.mark.parametrize("kind", [*KINDS, "placement"])
def test_every_key_is_described(of_kind, kind):
    values = [(key, each) for key, each in described(of_kind[kind].schema) if key.count(".") > 1]
    assert values
    assert [key for key, each in values if not each.get("description")] == []


@pytest.mark.parametrize("kind", KINDS)
def test_defaults_are_those_of_the_settings(of_kind, kind):
    for block, settings in zip(("task", "data"), TASKS.settings(kind), strict=True):
        shown = of_kind[kind].schema["properties"][block]["properties"]
        for field in dataclasses.fields(settings):
            if field.default is not dataclasses.MISSING:
                assert shown[field.name]["default"] == field.default
