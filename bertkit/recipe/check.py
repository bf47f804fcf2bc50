"""Validation of recipe values against the settings dataclasses; every fault is reported with its place."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Literal, Protocol, get_args, get_origin, get_type_hints

from bertkit.checkpoint.pretraining import MODEL_TYPE, field_types, new_architecture
from bertkit.errors import RecipeError, did_you_mean, shown
from bertkit.recipe.distillation import DISTILL, DistillationSettings
from bertkit.recipe.hub import NEEDED_IN_WIDGET, HubSettings
from bertkit.recipe.text_values import kinds, typed
from bertkit.recipe.tuning import KEYS, LORA, LoraSettings
from bertkit.recipe.values import RANGES, fault_of_value

BLOCKS = ("task", "model", "data", "train", "placement", "hub")

# Defaults of all runs that differ from those of transformers; a recipe can override each of them.
TRAIN_DEFAULTS: dict[str, Any] = {
    "global_train_batch_size": 32,
    "seed": 42,
    "logging_steps": 50.0,  # of the type that the check gives it, so that a recipe of a run loads as itself
    "save_total_limit": 2,
    "report_to": "none",
}

OWN_TRAIN_KEYS: dict[str, Any] = {
    "global_train_batch_size": int,
    "early_stopping_patience": int | None,
    "class_weights": str | dict[Any, Any] | None,
    "layer_lr_decay": float | None,
    DISTILL: dict[str, Any] | None,
    "report": bool,
}
"""Types of the keys of the ``train`` block that are not fields of ``TrainingArguments``."""

# Values that are mappings → the dataclass of their keys.
_MAPPINGS: dict[str, type] = {f"model.{LORA}": LoraSettings, f"train.{DISTILL}": DistillationSettings}

_MOST_WEIGHTS = 10**11  # of a new model: 400 GB; BERT-large has 3.4e8
_MOST_NAMED = 20  # unknown keys for which a similar key is looked up, which takes time; messages show no more

# TrainingArguments that a recipe must not set → what to use instead, or the reason.
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
    "logging_nan_inf_filter": "a loss that is not finite ends the run",
    "enable_jit_checkpoint": "SIGTERM and SIGUSR1 save a checkpoint in every run",
    "activation_checkpointing": "use placement.gradient_checkpointing",
    "gradient_checkpointing": "use placement.gradient_checkpointing",
    "output_dir": "use --output-dir",
    "resume_from_checkpoint": "use --resume",
    "do_train": "use the command of that name",
    "do_eval": "use the command of that name",
    "do_predict": "use the command of that name",
    "disable_tqdm": "progress bars are shown on a terminal only",
    "remove_unused_columns": "the task decides which columns the model gets",
    "local_rank": "the launcher sets it",
    "prediction_loss_only": "scores need the predictions",
    "batch_eval_metrics": "scores need the predictions of the whole set",
    "eval_do_concat_batches": "scores need the predictions of the whole set",
    "use_liger_kernel": "it has no kernels for encoders",
}


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
            near = _near(block, BLOCKS, faults)
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

    def _place(self, block: str, key: str) -> str:
        dotted = f"{block}.{key}"
        return self.places.get(dotted, dotted)

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
        """Checks a block against the annotations of ``settings`` and builds it; returns None if there are faults."""
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
        """Returns the values with a known key, the right type and in range; adds a fault for each of the others."""
        from huggingface_hub.dataclasses import type_validator

        good: dict[str, Any] = {}
        for key, value in self.blocks[block].items():
            place = self._place(block, key)
            if key not in hints or not isinstance(key, str):
                self.faults.append(f"{place}: unknown key{_near(key, hints, self.faults)}")
                continue
            try:
                value = typed(value, _MAPPINGS.get(f"{block}.{key}", hints[key]))
            except RecipeError as error:
                self.faults.append(f"{place}: {error}")
                continue
            if fault := fault_of_value(value):
                self.faults.append(f"{place}: {fault}")
                continue
            value = _number(value, hints[key])
            try:
                type_validator(key, value, hints[key])
                _named_choice(hints[key], value)
            except (TypeError, ValueError) as error:
                self.faults.append(f"{place}: {_expected(hints[key], value, error)}")
                continue
            numbers = RANGES.get(f"{block}.{key}")
            if numbers is not None and isinstance(value, int | float) and value not in numbers:
                self.faults.append(f"{place}: expected {numbers}, got {value}")
            else:
                good[key] = value
        return good

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
            own = field_types(new_architecture(None))
            others = {key: Any for key in given if key not in own}
            values = self._checked("model", {**others, "name_or_path": str | None, **own, **KEYS})
            self._check_mapping("model", LORA, values, LoraSettings)
            return values
        try:
            configuration = new_architecture(given.get(MODEL_TYPE))
        except RecipeError as error:
            self.faults.append(f"{architecture}: {error}")
            return dict(given)
        values = self._checked(
            "model", {"name_or_path": str | None, MODEL_TYPE: str | None, **field_types(configuration)}
        )
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

    def _check_mapping(self, block: str, key: str, values: Mapping[str, Any], settings: type) -> None:
        """Checks a value that is a mapping, such as ``model.lora``, against the dataclass of its keys."""
        if values.get(key) is not None:
            place = f"{block}.{key}"
            Checker({place: values[key]}, self.places, self.faults).settings(place, settings)

    def train(self) -> dict[str, Any]:
        """Checks the ``train`` block and returns it with the defaults of all runs."""
        for key in list(self.blocks["train"]):
            if not _is_in_train(key):
                instead = _NOT_IN_TRAIN.get(key, "use --push-to-hub, and the block hub")
                self.faults.append(f"{self._place('train', key)}: not set in a recipe; {instead}")
                del self.blocks["train"][key]
        values = self._checked("train", train_types())
        self._check_mapping("train", DISTILL, values, DistillationSettings)
        return {**TRAIN_DEFAULTS, **values}


def train_types() -> dict[str, Any]:
    """Returns the types of the keys of the ``train`` block."""
    from transformers import TrainingArguments

    hints = get_type_hints(TrainingArguments)
    fields = {field.name: hints[field.name] for field in dataclasses.fields(TrainingArguments)}
    return {**OWN_TRAIN_KEYS, **{key: hint for key, hint in fields.items() if _is_in_train(key)}}


def _is_in_train(key: Any) -> bool:
    return key not in _NOT_IN_TRAIN and not str(key).startswith(("hub_", "push_to_hub"))


def _near(given: Any, known: Iterable[str], faults: Sequence[str]) -> str:
    return did_you_mean(str(given), known) if len(faults) < _MOST_NAMED else ""


def _number(value: Any, hint: Any) -> Any:
    """Returns a number in the type that is expected: an int as a float, a whole float such as 1e5 as an int."""
    allowed = kinds(hint)
    if type(value) is int and float in allowed and int not in allowed:
        return float(value)
    if isinstance(value, float) and value.is_integer() and int in allowed and not allowed & {float, str, Any}:
        return int(value)
    return value


def _choices(hint: Any) -> list[str]:
    """Returns the values that a Literal or an Enum (alone or in a union) allows; empty for other annotations."""
    if get_origin(hint) is Literal:
        return [str(choice) for choice in get_args(hint)]
    enums = [each for each in (hint, *get_args(hint)) if isinstance(each, type) and issubclass(each, Enum)]
    return [str(member.value) for enum in enums for member in enum]


def _named_choice(hint: Any, value: Any) -> None:
    """Checks a string against the choices of ``hint``: TrainingArguments annotates names as ``SomeEnum | str``.

    Raises:
        ValueError: the string is not one of the choices.
    """
    choices = _choices(hint)
    if choices and isinstance(value, str) and value not in choices:
        raise ValueError(value)


def _expected(hint: Any, value: Any, error: Exception) -> str:
    if choices := _choices(hint):
        near = did_you_mean(str(value), choices) if isinstance(value, str) else ""
        return f"expected one of {', '.join(choices)}, got {shown(value)}{near}"
    wanted = hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
    inner = f" ({error.__cause__})" if error.__cause__ else ""
    return f"expected {wanted}, got {shown(value)}{inner}"
