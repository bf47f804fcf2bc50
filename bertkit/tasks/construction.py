"""Construction of tasks from recipes and checkpoints."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bertkit.checkpoint.faults import reading
from bertkit.errors import CheckpointError, RecipeError
from bertkit.recipe.check import Checker, blocks_of
from bertkit.tasks.base import Task
from bertkit.tasks.registry import TASKS
from bertkit.tasks.stock import is_stock_task, stock_task

if TYPE_CHECKING:
    from bertkit.recipe.load import Recipe


def task_of_recipe(recipe: Recipe) -> Task:
    """Builds the task that a fine-tuning recipe describes."""
    return TASKS.task(recipe.kind)(recipe.task, recipe.data)


def has_task(config: Any) -> bool:
    """Returns whether a checkpoint has a task: it records one, or has a head from which one can be inferred."""
    return getattr(config, "bertkit_task", None) is not None or is_stock_task(config)


def task_of_checkpoint(config: Any, name: str, **data: Any) -> Task:
    """Builds the task that a checkpoint was fine-tuned for: recorded by bertkit, or inferred from its head.

    Args:
        config: the loaded configuration of the checkpoint.
        name: name of the checkpoint, for error messages.
        data: values of the ``data`` block that differ from training, such as ``data_dir``.

    Raises:
        CheckpointError: the checkpoint does not record its task and has no head from which it can be inferred, or the
            package of the task is broken or not installed.
        RecipeError: the task has no such ``data`` value.
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
    faults = [f"{key}: missing" for key in ("task", "data") if recorded.get(key) is None]
    checker = Checker(blocks_of({key: recorded.get(key) for key in ("task", "data")}, {}, faults), {}, faults)
    settings = checker.settings("task", task_class.settings)
    kept = checker.settings("data", task_class.data_settings)
    if faults:
        raise CheckpointError(
            f"{name}: config.json has a bertkit_task that this version of bertkit does not know ({'; '.join(faults)}); "
            "update bertkit, or get a complete copy of the checkpoint"
        )
    known = {field.name for field in dataclasses.fields(kept)}
    for key in data:
        if key not in known:
            raise RecipeError(f"data.{key}: {name} was fine-tuned for {kind}, which has no such data setting")
    try:
        task = task_class(settings, dataclasses.replace(kept, **data))
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
