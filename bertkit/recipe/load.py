"""Recipes as checked data: found by name, overridden by key, validated as a whole.

A recipe is a YAML file of six blocks. ``task``, ``model``, ``data`` and ``train`` may change the numbers a run gives,
``placement`` and ``hub`` may not. ``task.kind`` names the task, whose settings say which keys the blocks ``task`` and
``data`` have; the caller tells which tasks there are. ``model`` has the fields of ``BertConfig`` and ``name_or_path``
(where weights come from), ``train`` those of ``transformers.TrainingArguments``, with ``global_train_batch_size`` in
place of the per-device keys, and ``early_stopping_patience``: after how many evaluations without a better score a
fine-tuning ends.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Protocol, get_args, get_origin, get_type_hints

from bertkit.errors import RecipeError, did_you_mean, listed
from bertkit.placement.accelerate_files import is_accelerate_file, placement_of
from bertkit.placement.settings import PlacementSettings
from bertkit.recipe.find import find_recipe, read_recipe_file, to_yaml
from bertkit.recipe.hub import HubSettings

BLOCKS = ("task", "model", "data", "train", "placement", "hub")

# Values of every run that are not transformers' own; a recipe may set each of them.
_TRAIN_DEFAULTS: dict[str, Any] = {
    "global_train_batch_size": 32,
    "seed": 42,
    "logging_steps": 50,
    "save_total_limit": 2,
    "report_to": "none",
}

OWN_TRAIN_KEYS: dict[str, Any] = {"global_train_batch_size": int, "early_stopping_patience": int | None}
"""The keys of the ``train`` block that are not transformers', and their types."""

_SEEDS = 2**32  # numpy takes no larger ones

# TrainingArguments that a recipe must not set, and where the same thing is said instead.
_NOT_IN_TRAIN: dict[str, str] = {
    "per_device_train_batch_size": "use train.global_train_batch_size, and placement.per_device_train_batch_size",
    "per_device_eval_batch_size": "use placement.per_device_eval_batch_size",
    "gradient_accumulation_steps": "it follows from train.global_train_batch_size and the placement",
    "auto_find_batch_size": "it would change the global batch",
    "average_tokens_across_devices": "losses are means over the global batch",
    "fsdp": "use --placement fsdp",
    "fsdp_config": "use --placement fsdp",
    "bf16": "use placement.mixed_precision",
    "fp16": "use placement.mixed_precision",
    "use_cpu": "use placement.device",
    "dataloader_num_workers": "use placement.dataloader_num_workers",
    "dataloader_pin_memory": "it follows from the placement",
    "activation_checkpointing": "use placement.gradient_checkpointing",
    "gradient_checkpointing": "use placement.gradient_checkpointing",
    "output_dir": "use --output-dir",
    "resume_from_checkpoint": "use --resume",
    "do_train": "use the command of that name",
    "do_eval": "use the command of that name",
    "do_predict": "use the command of that name",
    "disable_tqdm": "bars are shown on a terminal and nowhere else",
    "remove_unused_columns": "the task decides which columns the model gets",
    "local_rank": "the launcher sets it",
}


@dataclass(frozen=True)
class Recipe:
    """One checked run. Build it with `load_recipe`.

    Attributes:
        name: the name or file it was loaded from, for messages and the model card.
        task: the ``settings`` of the task that ``kind`` names.
        data: that task's ``data_settings``.
        model: ``BertConfig`` fields, and ``name_or_path`` where weights come from.
        train: ``TrainingArguments`` fields and ``global_train_batch_size`` (sequences per optimizer step).
        placement: devices, precision, per-device batch.
        hub: licence, language and the like, for the model card and the Hub.
    """

    name: str
    kind: str
    task: Any
    data: Any
    model: dict[str, Any]
    train: dict[str, Any]
    placement: PlacementSettings
    hub: HubSettings

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """The six blocks as plain data; ``load_recipe(recipe.to_dict())`` gives the recipe back."""
        return {
            "task": {"kind": self.kind, **dataclasses.asdict(self.task)},
            "model": dict(self.model),
            "data": dataclasses.asdict(self.data),
            "train": dict(self.train),
            "placement": dataclasses.asdict(self.placement),
            "hub": dataclasses.asdict(self.hub),
        }

    def save(self, path: Path, heading: str) -> None:
        """Writes the resolved recipe under a comment of one line."""
        path.write_text(f"# {heading}\n{to_yaml(self.to_dict())}", encoding="utf-8")


class Tasks(Protocol):
    """Finds the settings of tasks by ``task.kind``."""

    def kinds(self) -> Sequence[str]:
        """Returns the names of all tasks, sorted."""

    def settings(self, kind: str) -> tuple[type, type]:
        """Returns the dataclasses of the blocks ``task`` and ``data``; raises RecipeError where the task is broken."""


def load_recipe(
    source: str | Path | Mapping[str, Any] | Recipe, overrides: Mapping[str, Any] | None, tasks: Tasks
) -> Recipe:
    """Finds, overrides and checks a recipe.

    Args:
        source: a name (``finetune/glue/sst2``), a YAML file, the blocks as a mapping, or a recipe.
        overrides: values by dotted key, such as ``{"train.learning_rate": 3e-5}``; they win over ``source``.
        tasks: the tasks that ``task.kind`` may name.

    Raises:
        RecipeError: no such recipe, or anything wrong in it. All faults are named in one message, each with the file
            and line or the override it stands in.
    """
    places: dict[str, str] = {}
    given: dict[str, Any]
    if isinstance(source, Recipe):
        name, given = source.name, source.to_dict()
    elif isinstance(source, Mapping):
        name, given = "(a mapping)", dict(source)
    else:
        name = str(source)
        given, places = read_recipe_file(find_recipe(source))
    faults: list[str] = []
    blocks = _blocks(given, places, faults)
    overrides = dict(overrides or {})
    if "train.num_train_epochs" in overrides and "train.max_steps" not in overrides:
        blocks["train"].pop("max_steps", None)  # to transformers steps win over epochs; the last word here is epochs
    for dotted, value in overrides.items():
        block, _, key = dotted.partition(".")
        if block not in BLOCKS or not key:
            faults.append(f"--set {dotted}: expected block.key with a block of {', '.join(BLOCKS)}")
            continue
        blocks[block][key] = value
        places[dotted] = f"(override) {dotted}"
    return _Checker(name, blocks, places, faults).recipe(tasks)


def load_placement(source: str | Path) -> dict[str, Any]:
    """The values of a placement: a recipe file that has only a ``placement`` block, or a file of ``accelerate config``.

    Args:
        source: a name (``cpu``, for ``recipes/placement/cpu.yaml``) or a file.

    Raises:
        RecipeError: no such placement, another block in it, a wrong value, or one in accelerate's file that bertkit
            cannot heed itself.
    """
    is_file = Path(source).suffix in (".yaml", ".yml")
    path = find_recipe(source if is_file or "/" in str(source) else f"placement/{source}")
    blocks, places = read_recipe_file(path)
    if is_accelerate_file(blocks):
        blocks = {"placement": placement_of(blocks, path)}
    if set(blocks) != {"placement"}:
        raise RecipeError(f"placement {source}: expected one block, placement, in {path}; got {', '.join(blocks)}")
    faults: list[str] = []
    checker = _Checker(str(source), _blocks(blocks, places, faults), places, faults)
    checker.settings("placement", PlacementSettings)
    if faults:
        raise RecipeError(f"placement {source}: {listed(faults)}")
    return checker.blocks["placement"]


def validate_recipes(files: Sequence[Path], tasks: Tasks) -> None:
    """Checks several recipe files.

    Raises:
        RecipeError: names every fault of every file.
    """
    faults = []
    for file in files:
        try:
            blocks, _ = read_recipe_file(find_recipe(file))
            is_placement = set(blocks) == {"placement"} or is_accelerate_file(blocks)
            load_placement(file) if is_placement else load_recipe(file, None, tasks)
        except RecipeError as error:
            faults.append(str(error))
    if faults:
        raise RecipeError(listed(faults))


def _blocks(given: Mapping[str, Any], places: dict[str, str], faults: list[str]) -> dict[str, dict[str, Any]]:
    """The known blocks as dictionaries; unknown blocks and blocks that are no mapping are faults."""
    blocks: dict[str, dict[str, Any]] = {block: {} for block in BLOCKS}
    for block, values in given.items():
        place = places.get(block, block)
        if block not in BLOCKS:
            faults.append(f"{place}: unknown block; expected {', '.join(BLOCKS)}{did_you_mean(str(block), BLOCKS)}")
        elif values is not None and not isinstance(values, Mapping):
            faults.append(f"{place}: expected keys and values, got {values!r}")
        else:
            blocks[block] = dict(values or {})
    return blocks


class _Checker:
    """Checks all blocks, collects the faults, raises once."""

    def __init__(self, name: str, blocks: dict[str, dict[str, Any]], places: dict[str, str], faults: list[str]):
        self.name, self.blocks, self.places, self.faults = name, blocks, places, faults

    def recipe(self, tasks: Tasks) -> Recipe:
        kind = self.blocks["task"].pop("kind", None)
        settings = self._task_settings(kind, tasks)
        model = self._model()
        train = self._train()
        placement = self.settings("placement", PlacementSettings)
        hub = self.settings("hub", HubSettings)
        task, data = (
            (self.settings(block, each) for block, each in zip(("task", "data"), settings, strict=True))
            if settings
            else (None, None)
        )
        if self.faults:
            raise RecipeError(f"recipe {self.name}: {listed(self.faults)}")
        return Recipe(self.name, str(kind), task, data, model, train, placement, hub)

    def _place(self, block: str, key: str) -> str:
        dotted = f"{block}.{key}"
        return self.places.get(dotted, dotted)

    def _task_settings(self, kind: Any, tasks: Tasks) -> tuple[type, type] | None:
        known = tasks.kinds()
        if isinstance(kind, str) and kind in known:
            try:
                return tasks.settings(kind)
            except RecipeError as error:  # the package of this task is broken; the rest of the recipe is still checked
                self.faults.append(f"{self._place('task', 'kind')}: {error}")
                return None
        place, expected = self._place("task", "kind"), ", ".join(known)
        if not isinstance(kind, str) or not kind.isidentifier():
            self.faults.append(f"{place}: expected the name of a task, one of {expected}, got {kind!r}")
        else:
            self.faults.append(f"{place}: unknown task {kind!r}; expected {expected}{did_you_mean(kind, known)}")
        return None

    def settings(self, block: str, settings: type) -> Any:
        """Builds the dataclass ``settings`` from a block whose values are checked against its annotations."""
        hints = get_type_hints(settings)
        hints = {field.name: hints[field.name] for field in dataclasses.fields(settings)}
        required = {
            field.name
            for field in dataclasses.fields(settings)
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        }
        values = self._checked(block, hints)
        missing = required - self.blocks[block].keys()
        self.faults += [f"{block}.{key}: missing" for key in sorted(missing)]
        if values.keys() != self.blocks[block].keys() or missing:
            return None
        try:
            return settings(**values)
        except ValueError as error:
            key = str(error).partition(":")[0]
            self.faults.append(f"{self._place(block, key)}:{str(error).partition(':')[2]}")
            return None

    def _checked(self, block: str, hints: Mapping[str, Any]) -> dict[str, Any]:
        """The values of a block that have a known key and the type of that key; the others become faults."""
        from huggingface_hub.dataclasses import type_validator

        good: dict[str, Any] = {}
        for key, value in self.blocks[block].items():
            place = self._place(block, key)
            if key not in hints:
                self.faults.append(f"{place}: unknown key{did_you_mean(str(key), hints)}")
                continue
            # YAML and people write 1 where a float is meant.
            if isinstance(value, int) and not isinstance(value, bool) and _is_float(hints[key]):
                value = float(value)
            try:
                type_validator(key, value, hints[key])
                _named_choice(hints[key], value)
            except (TypeError, ValueError) as error:
                self.faults.append(f"{place}: {_expected(hints[key], value, error)}")
            else:
                good[key] = value
        return good

    def _model(self) -> dict[str, Any]:
        from bertkit.model.configuration_bert import BertConfig

        # Only what BertConfig itself declares: labels, dtype and the like are the task's and the placement's.
        own = {field.name: field.type for field in dataclasses.fields(BertConfig) if field.name in vars(BertConfig)}
        given = self.blocks["model"]
        if given.get("name_or_path") is not None:  # then the fields not given here are the checkpoint's, and so are
            # the names that there are, which `load_config` knows
            others = {key: Any for key in given if key not in own}
            return self._checked("model", {**others, "name_or_path": str | None, **own})
        values = self._checked("model", {"name_or_path": str | None, **own})
        try:
            BertConfig(**{key: value for key, value in values.items() if key != "name_or_path"})
        except ValueError as error:
            self.faults.append(f"model: {error.__cause__ or error}")
        return values

    def _train(self) -> dict[str, Any]:
        from transformers import TrainingArguments

        hints = get_type_hints(TrainingArguments)
        fields = {field.name: hints[field.name] for field in dataclasses.fields(TrainingArguments)}
        for key in list(self.blocks["train"]):
            if key in _NOT_IN_TRAIN or str(key).startswith(("hub_", "push_to_hub")):
                instead = _NOT_IN_TRAIN.get(key, "use --push-to-hub, and the block hub")
                self.faults.append(f"{self._place('train', key)}: not set in a recipe; {instead}")
                del self.blocks["train"][key]
        values = self._checked("train", {**OWN_TRAIN_KEYS, **fields})
        train = {**_TRAIN_DEFAULTS, **values}
        if train["global_train_batch_size"] < 1:
            self.faults.append(
                f"{self._place('train', 'global_train_batch_size')}: "
                f"expected at least 1 sequence, got {train['global_train_batch_size']}"
            )
        for key in ("learning_rate", "num_train_epochs", "max_steps", "early_stopping_patience"):
            if values.get(key) is not None and not values[key] > 0 and not (key == "max_steps" and values[key] == -1):
                self.faults.append(f"{self._place('train', key)}: expected more than 0, got {values[key]}")
        if not 0 <= train["seed"] < _SEEDS:
            self.faults.append(f"{self._place('train', 'seed')}: expected 0 to {_SEEDS - 1}, got {train['seed']}")
        return train


def _is_float(hint: Any) -> bool:
    return hint is float or (float in getattr(hint, "__args__", ()) and int not in getattr(hint, "__args__", ()))


def _choices(hint: Any) -> list[str]:
    """The values a Literal or an Enum (alone or beside ``str``) admits; empty for any other annotation."""
    if get_origin(hint) is Literal:
        return [str(choice) for choice in get_args(hint)]
    enums = [each for each in (hint, *get_args(hint)) if isinstance(each, type) and issubclass(each, Enum)]
    return [str(member.value) for enum in enums for member in enum]


def _named_choice(hint: Any, value: Any) -> None:
    """TrainingArguments annotates names as ``SomeEnum | str``, which admits any string: the Enum decides here."""
    choices = _choices(hint)
    if choices and isinstance(value, str) and value not in choices:
        raise ValueError(value)


def _expected(hint: Any, value: Any, error: Exception) -> str:
    if choices := _choices(hint):
        near = did_you_mean(str(value), choices)
        return f"expected one of {', '.join(choices)}, got {value!r}{near}"
    wanted = hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
    inner = f" ({error.__cause__})" if error.__cause__ else ""
    return f"expected {wanted}, got {value!r}{inner}"
