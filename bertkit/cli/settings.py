"""Options that set one recipe value each, with the type of its field in the settings dataclasses."""

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

# Types of a few fields of transformers.TrainingArguments, whose import takes seconds. A test compares them with the
# original.
_TRAIN: dict[str, Any] = {
    "learning_rate": float,
    "num_train_epochs": float,
    "max_steps": int,
    "seed": int,
    "report_to": list[str],
    "run_name": str | None,
    **OWN_TRAIN_KEYS,
}
_PANELS = {"task": "Task", "data": "Data", "train": "Training", "placement": "Placement"}


class Settings(dict[str, Any]):
    """Recipe values given as options, by dotted key: ``{"train.learning_rate": 3e-5}``.

    A command with a parameter of this type has the options passed to `bertkit.cli.commands.command`.
    """

    def block(self, name: str) -> dict[str, Any]:
        """Returns the values of one block of the recipe, by key without the name of the block."""
        return {key.removeprefix(f"{name}."): value for key, value in self.items() if key.startswith(f"{name}.")}


@dataclass(frozen=True)
class Setting:
    """Option that sets one recipe value.

    Attributes:
        key: dotted key of the value, such as ``data.max_seq_length``.
        help: help text of the option.
        flag: name of the option; None derives it from the key, such as ``--max-seq-length``.
        metavar: placeholder of the value in the help; None for the type.
        group: panel of the option in the help; None for that of the block.
    """

    key: str
    help: str
    flag: str | None = None
    metavar: str | None = None
    group: str | None = None

    @property
    def block(self) -> str:
        return self.key.partition(".")[0]

    @property
    def name(self) -> str:
        """Returns the key without its block: the name of the field in the dataclass."""
        return self.key.partition(".")[2]

    @property
    def parameter(self) -> str:
        """Returns the key as the name of a command parameter, such as ``data__max_seq_length``."""
        return self.key.replace(".", "__")

    @property
    def option(self) -> str:
        """Returns the name of the option on the command line."""
        return self.flag or "--" + self.name.replace("_", "-")

    @property
    def panel(self) -> str:
        """Returns the panel of the option in the help."""
        return self.group or _PANELS[self.block]


_SHARED = {
    setting.key: setting
    for setting in (
        Setting("data.data_dir", "Folder with the data; without it, the data set is loaded from the Hub."),
        Setting("data.train_file", "Table to train on: .csv, .tsv, .jsonl or .parquet."),
        Setting("data.validation_file", "Table to evaluate on; without it, some training rows are held out."),
        Setting("data.test_file", "Table to predict, with or without labels."),
        Setting("data.dataset_name", "Hub data set, instead of files."),
        Setting("data.dataset_config", "Configuration of the Hub data set."),
        Setting("data.train_split", "Split of the Hub data set to train on, or a part of one: train[:90%]."),
        Setting("data.validation_split", "Split of the Hub data set to evaluate on, or a part of one."),
        Setting("data.test_split", "Split of the Hub data set to predict, or a part of one."),
        Setting("data.dataset_split", "Split of the Hub data set; train by default."),
        Setting("data.text_column", "Text column in tables and Hub data sets; text by default."),
        Setting("data.streaming", "Read the corpus during training, for a corpus that does not fit on disk."),
        Setting("data.tokenizer_type", "Type of the trained vocabulary; wordpiece by default, or that of the recipe."),
        Setting("data.cased", "Keep upper case and accents in the trained vocabulary."),
        Setting("data.merge_score", "Criterion by which pairs of pieces are merged; frequency by default."),
        Setting("data.min_pair_frequency", "Minimum number of occurrences of a pair to merge."),
        Setting("data.comment_prefix", "Start of comment lines in column files: '#' in CoNLL-U."),
        Setting("data.snap", "Extend spans that cut words to whole words; by default they are refused."),
        Setting("data.offset_unit", "What the offsets of spans count; characters by default."),
        Setting("task.text_columns", "Text column; give it twice for a pair.", "--text-column"),
        Setting("task.label_column", "Label column."),
        Setting("data.long_text", "Cut a text beyond --max-seq-length, or read all of it in overlapping windows."),
        Setting("data.stride", "Tokens that neighbouring windows share; by default a quarter of a window."),
        Setting("data.pooling", "Pooling of the windows of a text; mean by default."),
        Setting("train.learning_rate", "Peak learning rate."),
        Setting("train.num_train_epochs", "Passes over the training data."),
        Setting("train.max_steps", "Optimizer steps; takes precedence over epochs."),
        Setting("train.global_train_batch_size", "Sequences per optimizer step, over all processes and accumulation."),
        Setting("train.class_weights", "Loss for imbalanced classes: balanced, or focal."),
        Setting("train.seed", "Random seed of weights, order, masks and dropout."),
        Setting(
            "train.report_to",
            "Write losses, scores and figures to trackio, wandb, tensorboard, mlflow or another tracker. Repeatable.",
            metavar="NAME",
            group="Output",
        ),
        Setting(
            "train.run_name",
            "Name of the run, or of the group of runs, in the trackers; the folder's by default.",
            metavar="NAME",
            group="Output",
        ),
        Setting("data.max_seq_length", "Maximum number of tokens of an input, special tokens included."),
        Setting("data.max_train_samples", "Use at most this number of training examples, the first ones."),
        Setting("data.max_eval_samples", "Use at most this number of evaluation examples, the first ones."),
        Setting(
            "placement.num_processes", "Number of processes, one per device; with ddp and fsdp all GPUs by default."
        ),
    )
}
"""Settings shared by several commands, by key."""

_OF_EVERY_RUN = (
    "data.max_seq_length",
    "data.max_train_samples",
    "data.max_eval_samples",
    "train.learning_rate",
    "train.num_train_epochs",
    "train.max_steps",
    "train.global_train_batch_size",
    "train.seed",
    "train.report_to",
    "train.run_name",
    "placement.num_processes",
)


def run_settings(*own: str | Setting) -> list[Setting]:
    """Returns the settings of a command and those of all runs; its own settings replace shared ones of the same key.

    Args:
        own: settings of the command, or keys of shared settings.
    """
    first = chosen(own)
    return first + [setting for setting in chosen(_OF_EVERY_RUN) if setting.key not in {each.key for each in first}]


def chosen(settings: Sequence[str | Setting]) -> list[Setting]:
    """Returns the settings, with keys replaced by the shared settings."""
    return [_SHARED[each] if isinstance(each, str) else each for each in settings]


def of_a_task(kind: str) -> list[Setting]:
    """Returns all options of the settings of a task, and those of all runs.

    A field of ``TaskSettings`` or ``DataSettings`` is an option if it has the name of a shared setting, or if its
    metadata has a ``help``: ``field(default=3, metadata={"help": "Labels per text."})``, optionally with ``flag`` and
    ``metavar``. Metadata take precedence over the shared setting.

    Args:
        kind: name of the task, as in ``task.kind``.
    """
    found: list[Setting] = []
    for block, settings in zip(("task", "data"), TASKS.settings(kind), strict=True):
        for field in dataclasses.fields(settings):
            key, of_field = f"{block}.{field.name}", field.metadata
            if "help" in of_field:
                found.append(Setting(key, of_field["help"], of_field.get("flag"), of_field.get("metavar")))
            # Tables are files: their settings have data_dir only to reject it, so it is not an option there.
            elif key in _SHARED and (field.name != "data_dir" or field.name in getattr(settings, "paths", ())):
                found.append(_SHARED[key])
    return run_settings(*found)


def option_types(kind: str) -> dict[str, Any]:
    """Returns dotted key → type of the option for all recipe values of a task that an option can set.

    Args:
        kind: name of the task, as in ``task.kind``; its module is imported.
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
    """Returns the type of an option for a value annotated ``hint``, in a union with None for an option not given.

    Returns None for a value that an option cannot set, such as a mapping.

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
