"""The usual recipe of a task, by its class."""

from __future__ import annotations

from functools import singledispatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.recipe.files import find_recipe, read_recipe_file

if TYPE_CHECKING:
    from bertkit.tasks.base import Task


def default_recipe(task: Task) -> str | Path | dict[str, Any]:
    """Returns the recipe of a task without settings of its own: a name, a file, or the blocks."""
    is_ours = type(task).__module__.startswith("bertkit.")
    return recipe_of_bertkit(task) if is_ours else recipe_of_package(type(task))


@singledispatch
def recipe_of_bertkit(task: Task) -> str:
    """Returns the name of the recipe of a task of bertkit, not of a subclass in another package."""
    return f"finetune/{task.kind.replace('_', '-')}"


def recipe_of_package(task: type[Task]) -> str | Path | dict[str, Any]:
    """Returns the recipe of a task of another package: its file, or else its kind alone; on tables with the training of
    classification, whose rate and epochs are fitted to the rows and the encoder."""
    from bertkit.tasks.table_data import TableTask

    if task.recipe is not None:
        return task.recipe
    blocks: dict[str, Any] = {"task": {"kind": task.kind}}
    if issubclass(task, TableTask):
        blocks["train"] = read_recipe_file(find_recipe("finetune/classification"))[0]["train"]
    return blocks
