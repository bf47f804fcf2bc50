"""What depends on the kind of a task: its command, its usual recipe, and functions with an implementation by kind."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, singledispatch, update_wrapper
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from bertkit.recipe.files import find_recipe, read_recipe_file

if TYPE_CHECKING:
    from bertkit.tasks.base import Task

P = ParamSpec("P")
R = TypeVar("R")

COMMANDS = {"question_answering": "squad"}
"""Kind → its command, where that has another name."""


def command_of(kind: str) -> str:
    """Returns the subcommand of ``bertkit finetune`` for a kind of task."""
    return COMMANDS.get(kind, kind.replace("_", "-"))


@singledispatch
def default_recipe(task: Task) -> str | Path | dict[str, Any]:
    """Returns the recipe of a task without settings of its own: a name, a file, or the blocks."""
    if type(task).__module__.startswith("bertkit."):
        return f"finetune/{command_of(task.kind)}"
    return recipe_of_package(type(task))


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


class by_kind_of_task(Generic[P, R]):
    """Decorates a function of a task, so that it has implementations by the class of the task.

    The function itself is the default. The implementation for the tasks of ``bertkit.tasks.ner`` is in ``ner.py``
    beside the module of the function, which is imported when a task of this kind is first given. Other packages
    register theirs as with `functools.singledispatch`, on which this is built::

        @served.register
        def _(task: LevelsTask) -> Served: ...
    """

    def __init__(self, function: Callable[Concatenate[Any, P], R]):
        self._implementations = singledispatch(function)
        self._room = function.__module__.rpartition(".")[0]
        self.register = self._implementations.register
        update_wrapper(self, function)

    def __call__(self, task: Task, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._implementation(task)(task, *args, **kwargs)

    def knows(self, task: Task) -> bool:
        """Returns whether there is an implementation for a task, besides the default."""
        return self._implementation(task) is not self._implementations.dispatch(object)

    def _implementation(self, task: Task) -> Callable[Concatenate[Any, P], R]:
        for module in _modules(self._room, type(task)):
            import_module(module)
        return self._implementations.dispatch(type(task))


@cache
def _modules(room: str, task: type) -> list[str]:
    """Returns the modules of a room that are named as the modules of a task's classes in ``bertkit.tasks``."""
    kinds = [match[1] for each in task.__mro__ if (match := re.match(r"bertkit\.tasks\.(\w+)", each.__module__))]
    return [f"{room}.{kind}" for kind in dict.fromkeys(kinds) if find_spec(f"{room}.{kind}")]
