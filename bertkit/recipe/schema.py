"""JSON Schema of recipes, for completion and checks in editors.

The schema is made of the annotations, defaults and descriptions of the settings' fields. It accepts all valid recipes;
`bertkit.recipe.load.load_recipe` checks more, such as values that depend on each other. Keywords are those of draft 7,
which the YAML language server supports.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from bertkit.model.checkpoint.encoders import MODEL_TYPE
from bertkit.recipe.fields import Fields, fields_of, model_fields, train_fields
from bertkit.recipe.load import Tasks
from bertkit.recipe.settings import KEEP, HubSettings
from bertkit.runtime.errors import RecipeError, did_you_mean
from bertkit.runtime.placement.resolve import PlacementSettings

Schema = dict[str, Any]

PLACEMENT = "placement"
"""Kind of the files that have only a ``placement`` block."""

_DRAFT = "http://json-schema.org/draft-07/schema#"
_PRETRAINING = "pretraining"
_ABOUT_TRAIN = "Fields of transformers' TrainingArguments, and keys of bertkit."
_ATTRIBUTE = re.compile(r"^    (\w+(?:, \w+)*): (.*(?:\n {5,}.*)*)", re.M)


def recipe_schema(kind: str | None, tasks: Tasks) -> Schema:
    """Returns the JSON Schema of recipes.

    Args:
        kind: name of a task, as in ``task.kind``; ``placement`` for files with only a ``placement`` block; None for all
            kinds, told apart by ``task.kind``.
        tasks: registry of the tasks.

    Raises:
        RecipeError: there is no such kind, or its task cannot be loaded.
    """
    kinds = [*tasks.kinds(), PLACEMENT]
    if kind is not None and kind not in kinds:
        raise RecipeError(f"unknown kind {kind!r}; expected one of {', '.join(kinds)}{did_you_mean(kind, kinds)}")
    if kind == PLACEMENT:
        return {**_head("A placement of bertkit"), **_placement_file(_block(PlacementSettings))}
    train = {**_nullable(train_fields()), "description": _ABOUT_TRAIN}
    shared = {"train": train, "placement": _block(PlacementSettings), "hub": _block(HubSettings)}
    if kind is not None:
        task, data = tasks.settings(kind)
        blocks = {"task": _task(kind, task), "model": _model(kind), "data": _block(data), **shared}
        return {**_head(f"A recipe of bertkit for the task {kind}"), "required": ["task"], **_object(blocks)}
    return _all_kinds(tasks, shared)


def _all_kinds(tasks: Tasks, shared: Mapping[str, Schema]) -> Schema:
    """Returns one schema with the blocks of every kind as definitions, those that several kinds share once."""
    definitions: dict[str, Schema] = dict(shared)
    cases = []
    for kind in tasks.kinds():
        task, data = tasks.settings(kind)
        model = "model_of_pretraining" if kind == _PRETRAINING else "model_of_finetuning"
        definitions |= {f"task_{kind}": _task(kind, task), f"data_{kind}": _block(data), model: _model(kind)}
        references = {"task": f"task_{kind}", "data": f"data_{kind}", "model": model}
        is_kind = {"task": {"type": "object", "properties": {"kind": {"const": kind}}, "required": ["kind"]}}
        cases.append(
            {
                "if": {"properties": is_kind, "required": ["task"]},
                "then": {"properties": {block: _reference(name) for block, name in references.items()}},
            }
        )
    kinds = {"type": "object", "properties": {"kind": {"enum": list(tasks.kinds())}}, "required": ["kind"]}
    blocks = {"task": kinds, "model": {}, "data": {}, **{name: _reference(name) for name in shared}}
    return {
        **_head("A recipe or a placement of bertkit"),
        **_object(blocks),
        "if": {"not": {"required": ["task"]}},
        "then": _placement_file({}),
        "allOf": cases,
        "definitions": definitions,
    }


def _head(title: str) -> Schema:
    # Most keys of the ``train`` block are fields of transformers.
    return {"$schema": _DRAFT, "$comment": f"transformers {version('transformers')}", "title": title}


def _reference(name: str) -> Schema:
    return {"$ref": f"#/definitions/{name}"}


def _placement_file(placement: Schema) -> Schema:
    return {"required": ["placement"], **_object({"placement": placement})}


def _object(properties: Mapping[str, Schema]) -> Schema:
    return {"type": "object", "properties": dict(properties), "additionalProperties": False}


def _task(kind: str, settings: type) -> Schema:
    block = _block(settings)
    named = {"kind": {"const": kind, "description": "Name of the task."}, **block["properties"]}
    return {**block, "type": "object", "properties": named, "required": ["kind", *block.get("required", ())]}


def _block(settings: type) -> Schema:
    """Returns the schema of a block from the dataclass of its settings."""
    summary = _prose(inspect.cleandoc(settings.__doc__ or "").partition("\n\n")[0])
    return {**_nullable(fields_of(settings)), "description": summary}


def _nullable(fields: Fields) -> Schema:
    """Returns the schema of mappings with some of the keys, or null."""
    schema = fields.adapter.json_schema()
    definitions = schema.pop("$defs", {})

    def plain(node: Any) -> Any:
        """Returns a part of the schema without references and the titles that pydantic makes of names."""
        if isinstance(node, list):
            return [plain(each) for each in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            return plain(definitions[node["$ref"].rpartition("/")[2]])
        return {key: plain(each) for key, each in node.items() if not (key == "title" and isinstance(each, str))}

    return {**plain(schema), "type": ["object", "null"]}


def _model(kind: str) -> Schema:
    from bertkit.model.configuration_bert import BertkitConfig

    is_new = kind == _PRETRAINING
    docs: dict[str, str] = {}  # of the sections ``Attributes`` of the configuration and of its bases
    for each in reversed(BertkitConfig.__mro__):
        section = inspect.cleandoc(each.__doc__ or "").partition("Attributes:\n")[2]
        for names, text in _ATTRIBUTE.findall(section.partition("\n\n")[0]):
            docs |= dict.fromkeys(names.split(", "), _prose(text))
    fields = {
        key: each._replace(help=docs.get(key, each.help))
        for key, each in model_fields(of_checkpoint=not is_new).items()
    }
    if is_new:  # otherwise the defaults are those of the checkpoint
        defaults = vars(BertkitConfig)
        fields = {key: each._replace(default=defaults.get(key, each.default)) for key, each in fields.items()}
        fields[KEEP] = model_fields(of_checkpoint=True)[KEEP]
    description = "Source of the weights, and fields of the model's configuration."
    block = {**_nullable(Fields(fields)), "description": description}
    del block["additionalProperties"]  # the configuration of another family has other fields
    if not is_new:
        return block
    others = {"anyOf": [{"required": [key]} for key in ("name_or_path", MODEL_TYPE)]}  # with fields of their own
    known = {"propertyNames": {"enum": list(fields)}}
    return {**block, "if": {"type": "object", "not": others}, "then": known}


def _prose(text: str) -> str:
    joined = " ".join(text.split()).replace("``", "`").replace("`None`", "`null`")
    return joined[:1].upper() + joined[1:] + ("" if joined.endswith((".", ".)")) else ".")
