"""Functions of a feature by kind of task, in the room of the feature: `by_kind_of_task` finds them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, singledispatch, update_wrapper
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from bertkit.tasks.base import Task

P = ParamSpec("P")
R = TypeVar("R")


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
        for module in _modules(self._room, type(task)):
            import_module(module)
        return self._implementations(task, *args, **kwargs)


@cache
def has_room(name: str) -> bool:
    """Returns whether a feature is there: a package of bertkit that can be removed, such as ``reporting``."""
    return find_spec(f"bertkit.{name}") is not None


@cache
def _modules(room: str, task: type) -> list[str]:
    """Returns the modules of a room that are named as the modules of a task's classes in ``bertkit.tasks``."""
    kinds = [match[1] for each in task.__mro__ if (match := re.match(r"bertkit\.tasks\.(\w+)", each.__module__))]
    return [f"{room}.{kind}" for kind in dict.fromkeys(kinds) if find_spec(f"{room}.{kind}")]
