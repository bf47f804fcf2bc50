"""JSON Schema of recipes, for completion and checks in editors.

The schema is made of the annotations, defaults and docstrings of the settings dataclasses. It accepts all valid
recipes; `bertkit.recipe.load.load_recipe` checks more, such as values that depend on each other. Keywords are those of
draft 7, which the YAML language server supports.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from bertkit.checkpoint.pretraining import MODEL_TYPE, field_types, new_architecture
from bertkit.errors import RecipeError, did_you_mean
from bertkit.placement.settings import PlacementSettings
from bertkit.recipe.check import OWN_TRAIN_KEYS, TRAIN_DEFAULTS, Tasks, train_types
from bertkit.recipe.distillation import DISTILL, DistillationSettings
from bertkit.recipe.hub import HubSettings
from bertkit.recipe.tuning import KEEP, KEYS, LORA, LoraSettings
from bertkit.recipe.values import RANGES

Schema = dict[str, Any]

PLACEMENT = "placement"
"""Kind of the files that have only a ``placement`` block."""

_DRAFT = "http://json-schema.org/draft-07/schema#"
_PRETRAINING = "pretraining"
_JSON_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", Path: "string", NoneType: "null"}
_ATTRIBUTE = re.compile(r"^    (\w+(?:, \w+)*): (.*(?:\n {5,}.*)*)", re.M)

_MODEL_DOCS = {
    "name_or_path": "Checkpoint to start from: a folder or a Hub id. Without it, the weights are new.",
    "freeze_layers": "Number of layers of the encoder, the lowest first, that are not trained.",
    "freeze_embeddings": "Whether the embeddings are not trained.",
    "reinit_layers": "Number of layers of the encoder, the highest first, that start with new weights.",
    "keep_layers": "Layers of the encoder to keep, numbered from 0; the others are removed.",
    MODEL_TYPE: "Architecture of new weights, as in config.json; BERT by default. The other keys are its fields.",
    LORA: "Train low-rank adapters of PEFT instead of the encoder's weights.",
}
_OWN_DEFAULTS = {
    **dict.fromkeys(("early_stopping_patience", "class_weights", "layer_lr_decay", DISTILL)),
    "report": True,
}
_TRAIN_DOCS = {
    "global_train_batch_size": "Sequences per optimizer step, over all processes and accumulation.",
    "early_stopping_patience": "Number of evaluations without a better score after which the run ends.",
    "class_weights": "Loss for imbalanced classes: balanced, focal, or a weight for each label.",
    "layer_lr_decay": "Factor of the learning rate from each layer to the one below it.",
    DISTILL: "Teacher of the run, and the weights of its losses.",
    "report": "Whether the run leaves report.html; changes no number.",
    "report_to": "Trackers that get losses, scores and figures, such as trackio or wandb; changes no number.",
    "run_name": "Name of the run, or of the group of runs, in the trackers; by default that of the folder.",
}


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
        return {**_head("A placement of bertkit"), **_placement_file(_placement())}
    shared = {"train": _train(), "placement": _placement(), "hub": _block("hub", HubSettings)}
    if kind is not None:
        task, data = tasks.settings(kind)
        blocks = {"task": _task(kind, task), "model": _model(kind), "data": _block("data", data), **shared}
        return {**_head(f"A recipe of bertkit for the task {kind}"), "required": ["task"], **_object(blocks)}
    return _all_kinds(tasks, shared)


def _all_kinds(tasks: Tasks, shared: Mapping[str, Schema]) -> Schema:
    """Returns one schema with the blocks of every kind as definitions, those that several kinds share once."""
    definitions: dict[str, Schema] = dict(shared)
    cases = []
    for kind in tasks.kinds():
        task, data = tasks.settings(kind)
        model = "model_of_pretraining" if kind == _PRETRAINING else "model_of_finetuning"
        definitions |= {f"task_{kind}": _task(kind, task), f"data_{kind}": _block("data", data), model: _model(kind)}
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


def _placement() -> Schema:
    return _block("placement", PlacementSettings)


def _task(kind: str, settings: type) -> Schema:
    block = _block("task", settings)
    named = {"kind": {"const": kind, "description": "Name of the task."}, **block["properties"]}
    return {**block, "type": "object", "properties": named, "required": ["kind", *block.get("required", ())]}


def _block(name: str, settings: type) -> Schema:
    """Returns the schema of a block, or of a value that is a mapping, from the dataclass of its settings."""
    hints, docs = get_type_hints(settings), attribute_docs(settings)
    properties, required = {}, []
    for field in dataclasses.fields(settings):
        schema = _value(f"{name}.{field.name}", hints[field.name])
        if field.default is not dataclasses.MISSING:
            schema["default"] = _plain(field.default)
        elif field.default_factory is not dataclasses.MISSING:
            schema["default"] = _plain(field.default_factory())
        else:
            required.append(field.name)
        if described := docs.get(field.name) or field.metadata.get("help"):
            schema["description"] = described
        properties[field.name] = schema
    block = {**_object(properties), "type": ["object", "null"], "description": _first_sentence(settings)}
    return {**block, "required": required} if required else block


def _model(kind: str) -> Schema:
    from bertkit.model.configuration_bert import BertkitConfig

    own = field_types(new_architecture(None))
    docs, is_new = {**attribute_docs(BertkitConfig), **_MODEL_DOCS}, kind == _PRETRAINING
    types = {"name_or_path": str | None, **own, **({MODEL_TYPE: str | None, KEEP: KEYS[KEEP]} if is_new else KEYS)}
    properties = {}
    for key, hint in types.items():
        schema = _mapping("model.lora", LoraSettings) if key == LORA else _value(f"model.{key}", hint)
        if key in own and is_new:  # otherwise that of the checkpoint
            schema["default"] = _plain(getattr(BertkitConfig, key))
        properties[key] = {**schema, "description": docs[key]}
    block: Schema = {
        "type": ["object", "null"],
        "properties": properties,
        "description": "Source of the weights, and fields of the model's configuration.",
    }
    if not is_new:
        return block  # the configuration of another family has other fields
    others = {"anyOf": [{"required": [key]} for key in ("name_or_path", MODEL_TYPE)]}  # with fields of their own
    known = {"propertyNames": {"enum": list(properties)}}
    return {**block, "if": {"type": "object", "not": others}, "then": known}


def _mapping(name: str, settings: type) -> Schema:
    """Returns the schema of a value that is null or a mapping."""
    return {"anyOf": [{**_block(name, settings), "type": "object"}, {"type": "null"}]}


def _train() -> Schema:
    from transformers import TrainingArguments

    fields = {field.name: field for field in dataclasses.fields(TrainingArguments)}
    properties = {}
    for key, hint in train_types().items():
        schema = _mapping("train.distill", DistillationSettings) if key == DISTILL else _value(f"train.{key}", hint)
        default = fields[key].default if key in fields else dataclasses.MISSING
        default = {**TRAIN_DEFAULTS, **_OWN_DEFAULTS}.get(key, default)
        if default is not dataclasses.MISSING and _is_plain(_plain(default)):
            schema["default"] = _plain(default)
        of_transformers = "" if key in OWN_TRAIN_KEYS else f"TrainingArguments.{key} of transformers."
        schema["description"] = " ".join(filter(None, (_TRAIN_DOCS.get(key), of_transformers)))
        properties[key] = schema
    description = "Fields of transformers' TrainingArguments, and keys of bertkit."
    return {**_object(properties), "type": ["object", "null"], "description": description}


# ---- values ---------------------------------------------------------------------------------------------------------


def _value(key: str, hint: Any) -> Schema:
    schema = type_schema(hint)
    numbers = RANGES.get(key)
    if numbers is None:
        return schema
    limits: Schema = {}
    for limit, inclusive, exclusive in (
        (numbers.least, "minimum", "exclusiveMinimum"),
        (numbers.most, "maximum", "exclusiveMaximum"),
    ):
        if abs(limit) != float("inf"):
            limits[exclusive if limit == numbers.without else inclusive] = limit
    return {**schema, **(limits if numbers.unless is None else {"anyOf": [limits, {"const": numbers.unless}]})}


def type_schema(hint: Any) -> Schema:
    """Returns the schema of the values that an annotation allows in a recipe.

    >>> type_schema(int | None)
    {'type': ['integer', 'null']}
    >>> type_schema(Literal["mean", "max"] | None)
    {'enum': ['mean', 'max', None]}
    >>> type_schema(dict[str, list[float]])
    {'type': 'object', 'additionalProperties': {'type': 'array', 'items': {'type': 'number'}}}
    """
    origin, members = get_origin(hint), get_args(hint)
    if isinstance(hint, UnionType) or origin is Union:
        return _union(members)
    if origin is Literal:
        return {"enum": list(members)}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [each.value for each in hint]}
    if hint in _JSON_TYPES:
        return {"type": _JSON_TYPES[hint]}
    kind = origin or hint
    if isinstance(kind, type) and issubclass(kind, Mapping):
        values = type_schema(members[1]) if members else {}
        return {"type": "object", **({"additionalProperties": values} if values else {})}
    if isinstance(kind, type) and issubclass(kind, Sequence):
        items = type_schema(members[0]) if members else {}
        return {"type": "array", **({"items": items} if items else {})}
    return {}


def _union(members: Sequence[Any]) -> Schema:
    # TrainingArguments annotates a name as ``SomeEnum | str``; `bertkit.recipe.check` allows only those of the Enum.
    if any(isinstance(each, type) and issubclass(each, Enum) for each in members):
        members = [each for each in members if each is not str]
    schemas = [type_schema(each) for each in members]
    if {} in schemas:
        return {}
    if all(schema.keys() == {"type"} for schema in schemas):
        return {"type": [schema["type"] for schema in schemas]}
    if all("enum" in schema or schema == {"type": "null"} for schema in schemas):
        return {"enum": [value for schema in schemas for value in schema.get("enum", [None])]}
    return {"anyOf": schemas}


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    return list(value) if isinstance(value, tuple) else value


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float | bool | list | dict | NoneType)


# ---- descriptions ---------------------------------------------------------------------------------------------------


def attribute_docs(settings: type) -> dict[str, str]:
    """Returns the descriptions of the fields in the ``Attributes`` sections of a class and of its bases."""
    found: dict[str, str] = {}
    for each in reversed(settings.__mro__):
        _, heading, section = inspect.cleandoc(each.__doc__ or "").partition("Attributes:\n")
        if heading:
            for names, text in _ATTRIBUTE.findall(section.partition("\n\n")[0]):
                found |= dict.fromkeys(names.split(", "), _prose(text))
    return found


def _first_sentence(settings: type) -> str:
    return _prose(inspect.cleandoc(settings.__doc__ or "").partition("\n\n")[0])


def _prose(text: str) -> str:
    joined = " ".join(text.split()).replace("``", "`").replace("`None`", "`null`")
    return joined[:1].upper() + joined[1:] + ("" if joined.endswith((".", ".)")) else ".")
