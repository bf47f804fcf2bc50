"""Options that set one value of a recipe, each with the type of that value's field in the settings' dataclasses."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from bertkit.placement.settings import PlacementSettings
from bertkit.recipe.check import OWN_TRAIN_KEYS
from bertkit.tasks.registry import TASKS

# The other keys of this block are fields of transformers.TrainingArguments; importing that takes seconds, so these few
# have their types here. A test compares them.
_TRAIN: dict[str, Any] = {
    "learning_rate": float,
    "num_train_epochs": float,
    "max_steps": int,
    "seed": int,
    **OWN_TRAIN_KEYS,
}
_PANELS = {"task": "Task", "data": "Data", "train": "Training", "placement": "Placement"}


class Settings(dict[str, Any]):
    """Recipe values that were given as options, by dotted key: ``{"train.learning_rate": 3e-5}``.

    A command whose signature has a parameter of this type gets the options that `bertkit.cli.commands.command` names.
    """

    def block(self, name: str) -> dict[str, Any]:
        """Returns the values of one block of the recipe, by key without the block's name."""
        return {key.removeprefix(f"{name}."): value for key, value in self.items() if key.startswith(f"{name}.")}


@dataclass(frozen=True)
class Setting:
    """An option that sets one recipe value.

    Attributes:
        key: the value's dotted key, such as ``data.max_seq_length``.
        help: the option's help.
        flag: the option's name; without it the key's, ``--max-seq-length``.
        metavar: what help shows for the value; without it the type.
    """

    key: str
    help: str
    flag: str | None = None
    metavar: str | None = None

    @property
    def block(self) -> str:
        return self.key.partition(".")[0]

    @property
    def name(self) -> str:
        """The key without its block: the dataclass' field."""
        return self.key.partition(".")[2]

    @property
    def parameter(self) -> str:
        """The key as the name of a command's parameter."""
        return self.key.replace(".", "__")

    @property
    def option(self) -> str:
        """The name that users type."""
        return self.flag or "--" + self.name.replace("_", "-")

    @property
    def panel(self) -> str:
        """The group of options that help shows it in."""
        return _PANELS[self.block]


_SHARED = {
    setting.key: setting
    for setting in (
        Setting("data.data_dir", "Folder with the data; without it the set is loaded from the Hub."),
        Setting("data.train_file", "Table to train on: .csv, .tsv, .jsonl or .parquet."),
        Setting("data.validation_file", "Table to score on; without it some training rows are held out."),
        Setting("data.test_file", "Table to predict, with or without labels."),
        Setting("data.dataset_name", "A set of the Hub instead of files."),
        Setting("data.dataset_config", "Configuration of a Hub set."),
        Setting("data.dataset_split", "Split of a Hub set; train by default."),
        Setting("data.text_column", "The column of the text in tables and Hub sets; text by default."),
        Setting("data.streaming", "Read the corpus while training on it: for one that does not fit the disk."),
        Setting("data.cased", "Keep upper case and accents in the vocabulary that is trained."),
        Setting("data.merge_score", "What the vocabulary's trainer merges pairs by; frequency by default."),
        Setting("data.min_pair_frequency", "How often a pair has to occur to be merged."),
        Setting("task.text_columns", "The column of the text; twice for a pair.", "--text-column"),
        Setting("task.label_column", "The column of the labels."),
        Setting("data.long_text", "Cut a text beyond --max-seq-length, or read all of it in overlapping windows."),
        Setting("data.stride", "Tokens that neighbouring windows share; by default a quarter."),
        Setting("data.pooling", "Of the windows of a text; mean by default."),
        Setting("train.learning_rate", "Peak learning rate."),
        Setting("train.num_train_epochs", "Passes over the data."),
        Setting("train.max_steps", "Optimizer steps; wins over epochs."),
        Setting("train.global_train_batch_size", "Sequences per optimizer step, over all processes and accumulation."),
        Setting("train.seed", "Seed of weights, order, masks, dropout."),
        Setting("data.max_seq_length", "Tokens of one input with specials."),
        Setting("data.max_train_samples", "Only the first so many examples."),
        Setting("data.max_eval_samples", "Only the first so many examples."),
        Setting("placement.num_processes", "Processes to start, one for each device; with ddp and fsdp all GPUs."),
    )
}
"""Settings that several commands have."""

_OF_EVERY_RUN = (
    "data.max_seq_length",
    "data.max_train_samples",
    "data.max_eval_samples",
    "train.learning_rate",
    "train.num_train_epochs",
    "train.max_steps",
    "train.global_train_batch_size",
    "train.seed",
    "placement.num_processes",
)


def of_a_run(*own: str | Setting) -> list[Setting]:
    """Returns a command's own settings and those of every run; a setting of its own takes the place of a shared one.

    Args:
        own: settings, or keys of those that several commands have.
    """
    first = chosen(own)
    return first + [setting for setting in chosen(_OF_EVERY_RUN) if setting.key not in {each.key for each in first}]


def chosen(settings: Sequence[str | Setting]) -> list[Setting]:
    """Returns settings, the shared ones looked up by their keys."""
    return [_SHARED[each] if isinstance(each, str) else each for each in settings]


def of_a_task(kind: str) -> list[Setting]:
    """Returns every option that the settings of a task offer, and those of every run.

    A field of ``TaskSettings`` or ``DataSettings`` is an option where it has the name of a shared setting, or where
    its metadata has the option's ``help``: ``field(default=3, metadata={"help": "Labels a text."})``; ``flag`` and
    ``metavar`` may be there too. The metadata win.

    Args:
        kind: the name of the task, as ``task.kind`` says it.
    """
    found: list[Setting] = []
    for block, settings in zip(("task", "data"), TASKS.settings(kind), strict=True):
        for field in dataclasses.fields(settings):
            key, of_field = f"{block}.{field.name}", field.metadata
            if "help" in of_field:
                found.append(Setting(key, of_field["help"], of_field.get("flag"), of_field.get("metavar")))
            # Tables are files, so the settings of tables have this field only to refuse it.
            elif key in _SHARED and (field.name != "data_dir" or field.name in getattr(settings, "paths", ())):
                found.append(_SHARED[key])
    return of_a_run(*found)


def option_types(kind: str) -> dict[str, Any]:
    """Returns dotted key → type of the option, for every recipe value of a task that an option can set.

    Args:
        kind: the name of the task, as ``task.kind`` says it. Its module is imported.
    """
    task, data = TASKS.settings(kind)
    types: dict[str, Any] = {f"train.{name}": option_type(hint) for name, hint in _TRAIN.items()}
    for block, settings in (("task", task), ("data", data), ("placement", PlacementSettings)):
        paths = {name for each in settings.__mro__ for name in getattr(each, "paths", ())}
        for name, hint in _hints(settings).items():
            found = option_type(hint)
            if found is not None:
                types[f"{block}.{name}"] = Path | None if name in paths else found
    return types


def _hints(settings: type) -> Mapping[str, Any]:
    hints = get_type_hints(settings)
    return {field.name: hints[field.name] for field in dataclasses.fields(settings)}


def option_type(hint: Any) -> Any:
    """Returns the type of an option that sets a value annotated ``hint``, with None for not given.

    None itself is the answer for a value that no option can give, such as a mapping.

    >>> option_type(int)
    int | None
    >>> option_type(str | int | None)
    str | None
    >>> option_type(list[str])
    list[str] | None
    >>> option_type(Literal["mean", "max"])
    typing.Optional[typing.Literal['mean', 'max']]
    >>> option_type(dict[str, str])
    """
    union = isinstance(hint, UnionType) or get_origin(hint) is Union
    members = [member for member in (get_args(hint) if union else (hint,)) if member is not NoneType]
    if str in members:
        return str | None
    if len(members) > 1:
        return None
    [member] = members
    plain = (bool, int, float, Path)
    one_of_a_list = get_origin(member) is list and get_args(member)[0] in (str, int, float)
    return member | None if member in plain or one_of_a_list or get_origin(member) is Literal else None
