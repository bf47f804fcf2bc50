"""Tasks of checkpoints, recorded by bertkit or inferred from the head of one that has none; recipes of their runs."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.model.checkpoint.encoders import longest_input, saved_head
from bertkit.model.checkpoint.faults import reading
from bertkit.model.checkpoint.load import longest_of_tokenizer
from bertkit.recipe.fields import fields_of
from bertkit.recipe.files import read_recipe_file
from bertkit.recipe.load import Checker
from bertkit.runtime.errors import CheckpointError, RecipeError, listed
from bertkit.tasks.base import Task
from bertkit.tasks.registry import TASKS

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

_STEP = re.compile(r"checkpoint-\d+")


def has_task(config: Any) -> bool:
    """Returns whether a checkpoint has a task: it records one, or has a head from which one can be inferred."""
    return getattr(config, "bertkit_task", None) is not None or saved_head(config) in _TASKS_OF_HEADS


def own_head(config: Any, name: str) -> type[PreTrainedModel] | None:
    """Returns the head of a checkpoint if it is a class of the package of its task; ``None`` for other checkpoints.

    Raises:
        CheckpointError: as `task_of_checkpoint`.
    """
    if getattr(config, "bertkit_task", None) is None:
        return None
    head = task_of_checkpoint(config, name).head
    return None if isinstance(head, str) else head


def task_of_checkpoint(config: Any, name: str, **data: Any) -> Task:
    """Builds the task that a checkpoint was fine-tuned for: recorded by bertkit, or inferred from its head.

    Args:
        config: the loaded configuration of the checkpoint.
        name: name of the checkpoint, for error messages.
        data: values of the ``data`` block that differ from training, such as ``data_dir``.

    Raises:
        CheckpointError: the checkpoint does not record its task and has no head from which it can be inferred; the
            package of the task is broken or not installed; or what is recorded is damaged, or contradicts the number of
            outputs.
        RecipeError: the task has no such ``data`` value, or not of this type.
    """
    recorded = getattr(config, "bertkit_task", None)
    if recorded is None:
        return stock_task(config, name, data)
    if not isinstance(recorded, Mapping):
        raise CheckpointError(
            f"{name}: bertkit_task in config.json is {str(recorded)[:60]!r}; expected an object that `bertkit "
            "finetune` wrote; get a complete copy of the checkpoint"
        )
    kind = recorded.get("kind")
    if not isinstance(kind, str) or kind not in TASKS.kinds():
        raise CheckpointError(
            f"{name}: fine-tuned for the task {kind!r}, which is not part of bertkit, and no installed package "
            "provides it; install the package that provides it"
        )
    try:
        task_class = TASKS.task(kind)
    except RecipeError as error:
        raise CheckpointError(f"{name}: fine-tuned for the task {kind!r}: {error}") from error
    checker = Checker({key: recorded.get(key) for key in ("task", "data")}, {})
    checker.faults += [f"{key}: missing" for key in ("task", "data") if recorded.get(key) is None]
    settings = checker.settings("task", task_class.Settings)
    kept = checker.settings("data", task_class.data_settings)
    if checker.faults:
        raise CheckpointError(
            f"{name}: config.json has a bertkit_task that this version of bertkit does not know "
            f"({'; '.join(checker.faults)}); update bertkit, or get a complete copy of the checkpoint"
        )
    given = _checked(data, task_class, f"{name} was fine-tuned for {kind}")
    try:
        task = task_class(settings, dataclasses.replace(kept, **given))
    except ValueError as error:
        raise RecipeError(f"data.{error}") from error
    with reading(name, "task"):
        outputs = task.config().get("num_labels", config.num_labels)
    if outputs != config.num_labels:
        raise CheckpointError(
            f"{name}: config.json has {config.num_labels} labels, but its bertkit_task has {outputs}; get a complete "
            "copy of the checkpoint"
        )
    return task


# ---- checkpoints that record no task --------------------------------------------------------------------------------


_TASKS_OF_HEADS = {
    "BertForSequenceClassification": "bertkit.tasks.classification.stock:StockClassification",
    "BertForTokenClassification": "bertkit.tasks.ner.stock:StockNer",
    "BertForQuestionAnswering": "bertkit.tasks.question_answering.stock:StockQuestionAnswering",
}
_OTHER_USES = {
    "BertForMaskedLM": "fill-mask and embed use its masked language model",
    "BertForPreTraining": "fill-mask and embed use its masked language model",
    "BertModel": "it is an encoder without a head, which embed uses",
}


def stock_task(config: PreTrainedConfig, name: str, data: Mapping[str, Any]) -> Task:
    """Returns the task of a checkpoint that does not record it.

    Args:
        config: the loaded configuration.
        name: name of the checkpoint, for its tokenizer and for error messages.
        data: values of the ``data`` block that differ from those inferred.

    Raises:
        CheckpointError: the head is of no such task, or its labels are not usable.
        RecipeError: the task has no such ``data`` value, or not of this type.
    """
    head = saved_head(config)
    place = _TASKS_OF_HEADS.get(head or "")
    if place is None:
        made = ", ".join(config.architectures or ["unknown"])
        use = f"; {_OTHER_USES[head]}" if head in _OTHER_USES else ""
        raise CheckpointError(
            f"{name}: config.json does not say which task this checkpoint ({made}) was fine-tuned for, and its head is "
            f"not that of a sequence classifier, a token classifier or a question answering model{use}; give such a "
            "checkpoint, or a run directory that `bertkit finetune` wrote"
        )
    module, _, class_name = place.partition(":")
    task_class = getattr(import_module(module), class_name)
    given = _checked(data, task_class, f"{name} is used for {task_class.kind}")
    longest = min(longest_input(config), longest_of_tokenizer(name))
    try:
        task: Task = task_class.of_config(config, name, longest, given)
    except ValueError as error:
        raise RecipeError(f"data.{error}") from error
    return task


def _checked(data: Mapping[str, Any], task_class: type[Task], use: str) -> dict[str, Any]:
    """Returns values of the ``data`` block, checked as those of a recipe.

    Raises:
        RecipeError: the task has no such setting, which ``use`` explains, or does not allow a value.
    """
    settings: type = task_class.data_settings
    known = fields_of(settings)
    for key in data:
        if key not in known:
            raise RecipeError(f"data.{key}: {use}, which has no such data setting")
    checker = Checker({"data": data}, {})
    values = checker.check_block("data", known)
    if checker.faults:
        raise RecipeError(listed(checker.faults))
    if values.get("max_seq_length") == 0:  # a task that is never trained has refused 0 already
        raise RecipeError("data.max_seq_length: 0 is for a training, which fits it to its texts; give the tokens")
    return values


def recipe_of(checkpoint: str) -> Path:
    """Returns the place of the recipe of a run directory or of a checkpoint in it."""
    folder = Path(checkpoint)
    if folder.is_dir() and not (folder / "recipe.yaml").is_file() and _STEP.fullmatch(folder.resolve().name):
        folder = folder.resolve().parent  # resolved, as it may be given as "."
    return folder / "recipe.yaml"


def block_of_run(checkpoint: str, name: str) -> Mapping[str, Any]:
    """Returns a block of the recipe of a run, as it is written; empty for a checkpoint that is not of a run."""
    recipe = recipe_of(checkpoint)
    block = read_recipe_file(recipe)[0].get(name) if recipe.is_file() else None
    return block if isinstance(block, Mapping) else {}
