"""Validation of recipe values against the settings dataclasses; every fault is reported with its place."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from bertkit.checkpoint.pretraining import MODEL_TYPE, new_architecture
from bertkit.errors import RecipeError, did_you_mean, shown
from bertkit.recipe.blocks import TRAIN_DEFAULTS, model_fields, not_in_train, train_fields
from bertkit.recipe.fields import Field, Fields, faults_of, fields_of, nested
from bertkit.recipe.hub import NEEDED_IN_WIDGET, HubSettings
from bertkit.recipe.text_values import typed

BLOCKS = ("task", "model", "data", "train", "placement", "hub")

_MOST_WEIGHTS = 10**11  # of a new model: 400 GB; BERT-large has 3.4e8
_MOST_NAMED = 20  # unknown keys for which a similar key is looked up, which takes time; messages show no more


class Tasks(Protocol):
    """Protocol of a registry that maps ``task.kind`` to the settings of the task."""

    def kinds(self) -> Sequence[str]:
        """Returns the names of all tasks, sorted."""

    def settings(self, kind: str) -> tuple[type, type]:
        """Returns the dataclasses of the blocks ``task`` and ``data``.

        Raises:
            RecipeError: the task cannot be loaded.
        """

    def pipeline_tag(self, kind: str) -> str | None:
        """Returns the Hub's name of the task; None if it depends on the run. Raises as `settings`."""


def blocks_of(given: Mapping[str, Any], places: dict[str, str], faults: list[str]) -> dict[str, dict[str, Any]]:
    """Returns the known blocks as dictionaries; adds unknown blocks and non-mappings to ``faults``."""
    blocks: dict[str, dict[str, Any]] = {block: {} for block in BLOCKS}
    for block, values in given.items():
        place = places.get(block, block)
        if block not in BLOCKS:
            near = did_you_mean(str(block), BLOCKS) if len(faults) < _MOST_NAMED else ""
            faults.append(f"{place}: unknown block; expected {', '.join(BLOCKS)}{near}")
        elif values is not None and not isinstance(values, Mapping):
            faults.append(f"{place}: expected keys and values, got {shown(values)}")
        else:
            blocks[block] = dict(values or {})
    return blocks


class Checker:
    """Checks the blocks of a recipe against the settings dataclasses and collects the faults.

    Args:
        blocks: block → key → value, from `blocks_of`.
        places: dotted key → its place in the recipe, for messages.
        faults: faults found so far; new ones are appended.
    """

    def __init__(self, blocks: dict[str, dict[str, Any]], places: Mapping[str, str], faults: list[str]):
        self.blocks, self.places, self.faults = blocks, places, faults

    def _place(self, block: str, *path: Any) -> str:
        """Returns the place of a value; of a key in a value that is a mapping, it is that of the whole and the key."""
        dotted = ".".join(map(str, (block, *path)))
        if dotted in self.places or len(path) < 2:
            return self.places.get(dotted, dotted)
        return ".".join(map(str, (self._place(block, path[0]), *path[1:])))

    def task_settings(self, kind: Any, tasks: Tasks) -> tuple[type, type] | None:
        """Returns the dataclasses of the blocks ``task`` and ``data``, or None with a fault if the task is invalid."""
        known = tasks.kinds()
        if isinstance(kind, str) and kind in known:
            try:
                return tasks.settings(kind)
            except RecipeError as error:  # the task's package is broken; the rest of the recipe is still checked
                self.faults.append(f"{self._place('task', 'kind')}: {error}")
                return None
        place, expected = self._place("task", "kind"), ", ".join(known)
        if not isinstance(kind, str) or not kind.isidentifier():
            self.faults.append(f"{place}: expected the name of a task, one of {expected}, got {shown(kind)}")
        else:
            self.faults.append(f"{place}: unknown task {kind!r}; expected {expected}{did_you_mean(kind, known)}")
        return None

    def settings(self, block: str, settings: type) -> Any:
        """Checks a block against the fields of ``settings`` and builds it; returns None if there are faults."""
        values = self.checked(block, fields_of(settings))
        return self._complete(block, settings, values, self.blocks[block])

    def _complete(
        self, block: str, settings: type, values: Mapping[str, Any], given: Mapping[str, Any] | None = None
    ) -> Any:
        """Builds settings from values that `checked` has returned, of those ``given``; returns None with a fault."""
        given = values if given is None else given
        missing = [key for key in fields_of(settings).required if key not in given]
        self.faults += [f"{block}.{key}: missing" for key in sorted(missing)]
        if missing or values.keys() != given.keys():
            return None
        try:
            return settings(**values)
        except ValueError as error:
            key, _, fault = str(error).partition(":")
            self.faults.append(f"{self._place(block, key)}:{fault}")
            return None

    def checked(self, block: str, fields: Fields) -> dict[str, Any]:
        """Returns the values of a block with a known key, the right type and in range; notes a fault for the others."""
        from pydantic import ValidationError

        values: dict[Any, Any] = {}
        for key, value in self.blocks[block].items():
            try:
                values[key] = typed(value, fields[key].hint if key in fields else Any)
                fault = fault_of_value(values[key]) if isinstance(key, str) else "unknown key"
            except RecipeError as error:
                fault = str(error)
            if fault is not None:
                self.faults.append(f"{self._place(block, key)}: {fault}")
                values.pop(key, None)
        try:
            values = fields.adapter.validate_python(values)
        except ValidationError as error:
            most_named = _MOST_NAMED - len(self.faults)
            for path, fault in faults_of(error, fields, values, most_named):
                self.faults.append(f"{self._place(block, *path)}: {fault}")
                values.pop(path[0], None)
            values = fields.adapter.validate_python(values)
        for key, value in values.items():
            if isinstance(value, Mapping) and (settings := nested(fields[key].hint)):
                self._complete(f"{block}.{key}", settings, value)
        return values

    def hub(self, pipeline_tag: str | None) -> Any:
        """Checks the ``hub`` block as `settings` does, and the examples of its widget against the task.

        Args:
            pipeline_tag: the Hub's name of the task, which determines the keys of ``widget``; None for any.
        """
        hub = self.settings("hub", HubSettings)
        needed = NEEDED_IN_WIDGET.get(pipeline_tag or "", ())
        self.faults += [
            f"{self._place('hub', 'widget')}: expected {' and '.join(needed)} in every example, got {shown(example)}"
            for example in (hub.widget if hub is not None else ())
            if not all(example.get(key, "").strip() for key in needed)
        ]
        return hub

    def model(self) -> dict[str, Any]:
        """Checks the ``model`` block and returns the given fields of the configuration, ``model_type`` and
        ``name_or_path``."""
        given = self.blocks["model"]
        architecture = self._place("model", MODEL_TYPE)
        if given.get("name_or_path") is not None:
            if given.get(MODEL_TYPE) is not None:
                self.faults.append(
                    f"{architecture}: with --model (model.name_or_path) the architecture is that of the checkpoint; "
                    "use --recipe continue, or remove this key"
                )
            # Other fields depend on the architecture of the checkpoint: `load_config` checks their names.
            own = model_fields(of_checkpoint=True)
            others = {key: Field(Any) for key in given if key not in own}
            return self.checked("model", Fields({**own, **others}) if others else own)
        try:
            configuration = new_architecture(given.get(MODEL_TYPE))
        except RecipeError as error:
            self.faults.append(f"{architecture}: {error}")
            return dict(given)
        values = self.checked("model", model_fields(given.get(MODEL_TYPE), of_checkpoint=False))
        try:
            config = configuration(
                **{key: value for key, value in values.items() if key not in ("name_or_path", MODEL_TYPE)}
            )
        except Exception as error:  # the classes of transformers check values in many ways
            self.faults.append(f"model: {error.__cause__ or error}")
            return values
        sizes = ("hidden_size", "vocab_size", "max_position_embeddings", "num_hidden_layers", "intermediate_size")
        hidden, pieces, positions, layers, intermediate = (getattr(config, name, None) or 0 for name in sizes)
        weights = hidden * (pieces + positions + layers * (4 * hidden + 2 * intermediate))
        if weights > _MOST_WEIGHTS:
            self.faults.append(f"model: about {weights:.1e} weights; expected at most {_MOST_WEIGHTS:.0e}")
        return values

    def train(self) -> dict[str, Any]:
        """Checks the ``train`` block and returns it with the defaults of all runs."""
        for key in list(self.blocks["train"]):
            if instead := not_in_train(key):
                self.faults.append(f"{self._place('train', key)}: not set in a recipe; {instead}")
                del self.blocks["train"][key]
        return {**TRAIN_DEFAULTS, **self.checked("train", train_fields())}


def fault_of_value(value: Any) -> str | None:
    """Returns what is wrong with a value whatever its setting, or None.

    A number is finite and fits 64 bits; text has no NUL and no half of a surrogate pair, which files cannot hold.

    >>> fault_of_value({"betas": [0.9, float("nan")]})
    'expected finite numbers, got nan'
    >>> fault_of_value([0.9, 10, "text", None, True])
    """
    if isinstance(value, Mapping):
        return next(filter(None, map(fault_of_value, [*value.keys(), *value.values()])), None)
    if isinstance(value, list | tuple):
        return next(filter(None, map(fault_of_value, value)), None)
    if isinstance(value, float) and not math.isfinite(value):
        return f"expected finite numbers, got {value}"
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return f"expected numbers of at most 64 bits, got {shown(value)}"
    if isinstance(value, str):
        wrong = next((sign for sign in value if sign == "\0" or "\ud800" <= sign <= "\udfff"), None)
        if wrong is not None:
            return f"{shown(value)} holds \\u{ord(wrong):04x}, which is no character of a text"
    return None
