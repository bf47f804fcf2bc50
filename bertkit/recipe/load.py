"""Recipes: loaded by name, overridden by key, checked as a whole; every fault is reported with its place.

A recipe is a YAML file with six blocks. ``task``, ``model``, ``data`` and ``train`` can change the results of a run;
``placement`` and ``hub`` do not. ``task.kind`` names the task, whose settings dataclasses define the keys of the blocks
``task`` and ``data``; the caller passes the registry of tasks. ``model`` has the fields of ``BertConfig``, or of the
configuration that ``model_type`` names, and the keys of `TuningSettings`; ``train`` has the fields of
``transformers.TrainingArguments`` and the keys of `TrainSettings` (`bertkit.recipe.settings`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bertkit.model.checkpoint.encoders import MODEL_TYPE, new_architecture
from bertkit.recipe.fields import (
    TRAIN_DEFAULTS,
    Fields,
    Text,
    faults_of,
    fields_of,
    model_fields,
    nested_settings,
    not_in_train,
    train_fields,
    with_types,
)
from bertkit.recipe.files import absolute, check_plain, find_recipe, read_recipe_file, recipes_in, to_yaml
from bertkit.recipe.nearest import nearest_key
from bertkit.recipe.settings import CONTRAST, DISTILL, HEAD, HEAD_RATE, KEYS, PAIRS, DistillationSettings, HubSettings
from bertkit.runtime.errors import RecipeError, did_you_mean, listed, shown
from bertkit.runtime.files import write_whole
from bertkit.runtime.placement.resolve import PlacementSettings

BLOCKS = ("task", "model", "data", "train", "placement", "hub")
ACCELERATE_KEY = "distributed_type"  # present in every file of `accelerate config`
_MOST_WEIGHTS = 10**11  # of a new model: 400 GB; BERT-large has 3.4e8
_MOST_NAMED = 20  # faults for which a similar key is looked up, which takes time; messages show no more


class Tasks(Protocol):
    """Protocol of a registry that maps ``task.kind`` to the settings of the task."""

    def kinds(self) -> Sequence[str]:
        """Returns the names of all tasks, sorted."""

    def settings(self, kind: str) -> tuple[type, type]:
        """Returns the dataclasses of the blocks ``task`` and ``data``; RecipeError if the task cannot be loaded."""

    def pipeline_tag(self, kind: str) -> str | None:
        """Returns the Hub's name of the task; None if it depends on the run. Raises as `settings`."""


@dataclass(frozen=True)
class Recipe:
    """Validated settings of one run; built by `load_recipe`.

    Attributes:
        name: name or file that it was loaded from, of a mapping the kind of its task; for messages and the model card.
        kind: name of the task.
        task: ``TaskSettings`` of the module of the task.
        data: ``DataSettings`` of the module of the task.
        model: ``BertConfig`` fields, and keys of `TuningSettings`; or ``model_type`` of new weights, and the fields of
            its configuration.
        train: ``TrainingArguments`` fields and keys of `TrainSettings`.
        placement: devices, precision, per-device batch size.
        hub: licence, language and other values for the model card and the Hub.
    """

    name: str
    kind: str
    task: Any
    data: Any
    model: dict[str, Any]
    train: dict[str, Any]
    placement: PlacementSettings
    hub: HubSettings

    @property
    def distillation(self) -> DistillationSettings | None:
        """Settings of the teacher; None without one."""
        return None if (given := self.train.get(DISTILL)) is None else DistillationSettings(**given)

    @property
    def has_teacher(self) -> bool:
        """Returns whether there is a teacher whose part of the loss has a weight."""
        return (settings := self.distillation) is not None and settings.weight > 0

    @property
    def is_warm(self) -> bool:
        """Returns whether something precedes the first step: a linear probe, contrast, texts apart."""
        return bool(self.train.get(PAIRS) or self.train.get(CONTRAST)) or self.train.get(HEAD) == "probe"

    @property
    def is_weighted(self) -> bool:
        """Returns whether the loss of the labels is another one than the task's."""
        return any(self.train.get(key) for key in ("class_weights", "label_smoothing_factor"))

    @property
    def is_tuned(self) -> bool:
        """Returns whether a key on frozen, new, kept or adapted weights, or on rates of their own, is given."""
        rates = map(self.train.get, ("layer_lr_decay", HEAD_RATE))
        return any(value is not None for value in (*rates, *map(self.model.get, KEYS)))

    @property
    def config_changes(self) -> dict[str, Any]:
        """Fields of the checkpoint's configuration that a fine-tuning changes."""
        return {key: value for key, value in self.model.items() if key not in ("name_or_path", *KEYS)}

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Returns the six blocks as plain data, which ``load_recipe`` accepts."""
        return {
            "task": {"kind": self.kind, **dataclasses.asdict(self.task)},
            "model": dict(self.model),
            "data": dataclasses.asdict(self.data),
            "train": dict(self.train),
            "placement": dataclasses.asdict(self.placement),
            "hub": dataclasses.asdict(self.hub),
        }

    def save(self, path: Path, heading: str) -> None:
        """Writes the resolved recipe as YAML, with ``heading`` as a comment in the first line."""
        write_whole(path, f"# {heading}\n{to_yaml(self.to_dict())}")


def load_recipe(
    source: str | Path | Mapping[str, Any] | Recipe, overrides: Mapping[str, Any] | None, tasks: Tasks
) -> Recipe:
    """Loads a recipe, applies overrides and checks it.

    Args:
        source: a name (``finetune/glue/sst2``), a YAML file, the blocks as a mapping, or a recipe.
        overrides: values by dotted key, such as ``{"train.learning_rate": 3e-5, "model.lora.r": 8}``; they take
            precedence over ``source``. A `Text` gets the type of its field.
        tasks: registry of the tasks that ``task.kind`` can name.

    Raises:
        RecipeError: the recipe does not exist or is invalid. One message lists all faults, each with its file and line
            or its override.
    """
    places: dict[str, str] = {}
    if isinstance(source, Recipe):
        name, blocks = source.name, source.to_dict()
    elif isinstance(source, Mapping):
        blocks = dict(source)
        named = blocks.get("task")
        name = str(named["kind"]) if isinstance(named, Mapping) and named.get("kind") else "(a mapping)"
    else:
        name = str(source)
        blocks, places = read_recipe_file(find_recipe(source))
    checker = Checker(blocks, places)
    checker.override(overrides or {})
    kind = checker.blocks["task"].pop("kind", None)
    settings = checker.task_settings(kind, tasks)
    recipe = Recipe(
        name,
        kind if isinstance(kind, str) else "",
        task=settings and checker.settings("task", settings[0]),
        data=settings and checker.settings("data", settings[1]),
        model=checker.model(),
        train=checker.train(),
        placement=checker.settings("placement", PlacementSettings),
        hub=checker.hub(settings and tasks.pipeline_tag(kind)),
    )
    if checker.faults:
        raise RecipeError(f"recipe {name}: {listed(checker.faults)}")
    return recipe


def with_absolute_paths(recipe: Recipe) -> Recipe:
    """Returns the recipe with absolute paths, so that ``recipe.yaml`` repeats the run from any folder."""
    model, train, data, task = dict(recipe.model), dict(recipe.train), recipe.data, recipe.task
    if model.get("name_or_path"):
        model["name_or_path"] = absolute(model["name_or_path"])
    if (teacher := train.get(DISTILL)) is not None:
        train[DISTILL] = {**teacher, "teacher": absolute(teacher["teacher"])}
    files = {name: absolute(place) for name in getattr(data, "paths", ()) if (place := getattr(data, name))}
    if metrics := getattr(task, "metrics", ()):
        task = dataclasses.replace(task, metrics=list(map(absolute, metrics)))
    return dataclasses.replace(recipe, task=task, data=dataclasses.replace(data, **files), model=model, train=train)


def load_placement(source: str | Path) -> dict[str, Any]:
    """Loads the values of a placement by key: a recipe file that has only a ``placement`` block.

    Args:
        source: a name (``cpu``, for ``recipes/placement/cpu.yaml``) or a file.

    Raises:
        RecipeError: the placement does not exist, has another block or a wrong value, or is a file of accelerate.
    """
    is_file = Path(source).suffix in (".yaml", ".yml") or "/" in str(source)
    known = recipes_in("placement/")
    if not is_file and str(source) not in known:
        raise RecipeError(f"--placement {shown(str(source))}: expected {', '.join(known)}, or a file")
    path = find_recipe(source if is_file else f"placement/{source}")
    blocks, places = read_recipe_file(path)
    if ACCELERATE_KEY in blocks:
        raise RecipeError(
            f"placement {source}: this is a configuration file of accelerate; run "
            f"accelerate launch --config_file {path} -m bertkit …, without --placement"
        )
    if set(blocks) != {"placement"}:
        raise RecipeError(f"placement {source}: expected one block, placement, in {path}; got {shown(list(blocks))}")
    checker = Checker(blocks, places)
    checker.settings("placement", PlacementSettings)
    if checker.faults:
        raise RecipeError(f"placement {source}: {listed(checker.faults)}")
    return checker.blocks["placement"]


# ---- checks --------------------------------------------------------------------------------------------------------


class Checker:
    """Checks the blocks of a recipe against the settings dataclasses and collects the faults.

    Args:
        blocks: block → key → value.
        places: dotted key → its place in the recipe, for messages.

    Attributes:
        blocks: the known blocks; empty where the recipe has none.
        faults: one message for each fault.
    """

    def __init__(self, blocks: Mapping[str, Any], places: Mapping[str, str]):
        self.blocks: dict[str, dict[str, Any]] = {block: {} for block in BLOCKS}
        self.faults: list[str] = []
        self._places = dict(places)
        self._task_keys: dict[str, Fields] = {}
        for block, values in blocks.items():
            if block not in BLOCKS:
                near = did_you_mean(str(block), BLOCKS) if len(self.faults) < _MOST_NAMED else ""
                self._note(f"unknown block; expected {', '.join(BLOCKS)}{near}", block)
            elif values is not None and not isinstance(values, Mapping):
                self._note(f"expected keys and values, got {shown(values)}", block)
            else:
                self.blocks[block] = dict(values or {})

    def _note(self, fault: str, *path: Any) -> None:
        self.faults.append(f"{self._place(*path)}: {fault}")

    def _place(self, *path: Any) -> str:
        """Returns the place of a value; of a key in a value that is a mapping, it is that of the whole and the key."""
        dotted = ".".join(map(str, path))
        if dotted in self._places or len(path) < 3:
            return self._places.get(dotted, dotted)
        return ".".join(map(str, (self._place(*path[:2]), *path[2:])))

    def _nearest(self, block: str, key: Any, fields: Fields) -> str:
        """Returns the end of the message about an unknown key: the key that was probably meant."""
        if len(self.faults) >= _MOST_NAMED:
            return ""
        others = {**self._task_keys, "placement": fields_of(PlacementSettings), "hub": fields_of(HubSettings)}
        keys = {"model": model_fields(of_checkpoint=True), "train": train_fields(), **others, block: fields}
        return f"; did you mean '{near}'?" if (near := nearest_key(block, str(key), keys)) else ""

    def override(self, overrides: Mapping[str, Any]) -> None:
        """Changes values by dotted key."""
        if "train.num_train_epochs" in overrides and "train.max_steps" not in overrides:
            self.blocks["train"].pop("max_steps", None)  # else max_steps would take precedence in transformers
        for dotted, value in sorted(overrides.items(), key=lambda each: each[0].count(".")):  # parts last
            block, _, key = dotted.partition(".")
            if block not in BLOCKS or not key:
                near = self._nearest("", dotted, Fields({}))
                self.faults.append(f"--set {dotted}: expected block.key with a block of {', '.join(BLOCKS)}{near}")
                continue
            key, _, part = key.partition(".")
            self._places[dotted] = f"(override) {dotted}"
            if part:  # of a value that is a mapping, such as model.lora.r
                whole = self.blocks[block].get(key)
                whole = with_types(whole, Any) if isinstance(whole, Text) else whole
                if f"{block}.{key}" in overrides and not isinstance(whole, Mapping):
                    self._note(f"expected keys and values, as {part} is given too, got {shown(whole)}", block, key)
                place = f"(override) {block}.{key}"  # of several parts
                if not isinstance(whole, Mapping):
                    whole, place = {}, self._places[dotted]
                # The other parts keep their places, such as a line of the recipe.
                self._places |= {f"{block}.{key}.{each}": self._place(block, key, each) for each in whole}
                self._places[f"{block}.{key}"] = place
                value = {**whole, part: value}
            self.blocks[block][key] = value
        for block, key in (("task", "kind"), ("model", "name_or_path"), ("model", MODEL_TYPE)):  # others depend on them
            if key in self.blocks[block]:
                self.blocks[block][key] = with_types(self.blocks[block][key], str | None)

    def task_settings(self, kind: Any, tasks: Tasks) -> tuple[type, type] | None:
        """Returns the dataclasses of the blocks ``task`` and ``data``, or None with a fault if the task is invalid."""
        known = tasks.kinds()
        if isinstance(kind, str) and kind in known:
            try:
                task, data = tasks.settings(kind)
                self._task_keys = {"task": fields_of(task), "data": fields_of(data)}
                return task, data
            except RecipeError as error:  # the task's package is broken; the rest of the recipe is still checked
                self._note(str(error), "task", "kind")
                return None
        expected = ", ".join(known)
        if not isinstance(kind, str) or not kind.isidentifier():
            self._note(f"expected the name of a task, one of {expected}, got {shown(kind)}", "task", "kind")
        else:
            self._note(f"unknown task {kind!r}; expected {expected}{did_you_mean(kind, known)}", "task", "kind")
        return None

    def settings(self, block: str, settings: type) -> Any:
        """Checks a block against the fields of ``settings`` and builds it; returns None if there are faults."""
        return self._build(block, settings, self.check_block(block, fields_of(settings)), self.blocks[block])

    def _build(self, block: str, settings: type, values: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        """Builds settings from the correct ``values`` of those ``given``; returns None with a fault."""
        missing = sorted(key for key in fields_of(settings).required if key not in given)
        self.faults += [f"{block}.{key}: missing" for key in missing]
        if missing or values.keys() != given.keys():
            return None
        try:
            return settings(**values)
        except ValueError as error:
            key, _, fault = str(error).partition(": ")
            self._note(fault, *block.split("."), key)
            return None

    def check_block(self, block: str, fields: Fields) -> dict[str, Any]:
        """Returns the values of a block with a known key, the right type and in range; notes a fault for the others."""
        from pydantic import ValidationError

        values: dict[str, Any] = {}
        for key, value in self.blocks[block].items():
            try:
                if key not in fields:
                    raise RecipeError(f"unknown key{self._nearest(block, key, fields)}")
                typed = with_types(value, fields[key].hint)
                check_plain(typed)
                values[key] = typed
            except RecipeError as error:
                self._note(str(error), block, key)
        try:
            values = fields.adapter.validate_python(values)
        except ValidationError as error:
            for path, fault in faults_of(error, fields, values):
                self._note(fault, block, *path)
                values.pop(path[0], None)
            values = fields.adapter.validate_python(values)
        for key, value in values.items():
            if isinstance(value, Mapping) and (settings := nested_settings(fields[key].hint)):
                self._build(f"{block}.{key}", settings, value, value)
        return values

    def hub(self, pipeline_tag: str | None) -> Any:
        """Checks and builds the ``hub`` block as `settings` does, and checks the examples of its widget for the task.

        Args:
            pipeline_tag: the Hub's name of the task; examples of question answering need a context.
        """
        hub = self.settings("hub", HubSettings)
        for example in hub.widget if hub is not None and pipeline_tag == "question-answering" else ():
            if not example.get("context", "").strip():
                self._note(f"expected text and context in every example, got {shown(example)}", "hub", "widget")
        return hub

    def model(self) -> dict[str, Any]:
        """Checks the ``model`` block and returns its values: fields of the configuration, ``model_type`` or
        ``name_or_path``, and keys of `TuningSettings`."""
        given = self.blocks["model"]
        if given.get("name_or_path") is not None:
            if given.get(MODEL_TYPE) is not None:
                fault = "with --model (model.name_or_path) the architecture is that of the checkpoint"
                self._note(f"{fault}; use --recipe continue, or remove this key", "model", MODEL_TYPE)
            # Other fields depend on the architecture of the checkpoint: `load_config` checks their names.
            others = tuple(key for key in given if isinstance(key, str))
            return self.check_block("model", model_fields(of_checkpoint=True, others=others))
        try:
            configuration = new_architecture(given.get(MODEL_TYPE))
        except RecipeError as error:
            self._note(str(error), "model", MODEL_TYPE)
            return dict(given)
        values = self.check_block("model", model_fields(given.get(MODEL_TYPE), of_checkpoint=False))
        own = {key: value for key, value in values.items() if key not in ("name_or_path", MODEL_TYPE)}
        try:
            config = configuration(**own)
        except Exception as error:  # the classes of transformers check values in many ways
            self._note(str(error.__cause__ or error), "model")
            return values
        sizes = ("hidden_size", "vocab_size", "max_position_embeddings", "num_hidden_layers", "intermediate_size")
        hidden, pieces, positions, layers, intermediate = (getattr(config, name, None) or 0 for name in sizes)
        weights = hidden * (pieces + positions + layers * (4 * hidden + 2 * intermediate))
        if weights > _MOST_WEIGHTS:
            self._note(f"about {weights:.1e} weights; expected at most {_MOST_WEIGHTS:.0e}", "model")
        return values

    def train(self) -> dict[str, Any]:
        """Checks the ``train`` block and returns it with the defaults of all runs."""
        for key in list(self.blocks["train"]):
            if instead := not_in_train(key):
                self._note(f"not set in a recipe; {instead}", "train", key)
                del self.blocks["train"][key]
        return {**TRAIN_DEFAULTS, **self.check_block("train", train_fields())}
