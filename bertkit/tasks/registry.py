"""The tasks that a recipe's ``task.kind`` may name: bertkit's own and those of other packages; and recipes with them.

A package adds a task through the entry-point group ``bertkit.tasks``: the name is the kind, the value
``module:TaskClass`` names a subclass of `bertkit.tasks.base.Task`. In ``pyproject.toml``::

    [project.entry-points."bertkit.tasks"]
    word_order = "acme.word_order:WordOrderTask"
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.errors import RecipeError
from bertkit.recipe import load
from bertkit.recipe.load import Recipe

if TYPE_CHECKING:
    from bertkit.tasks.base import Task

GROUP = "bertkit.tasks"

_OWN = {
    "classification": "bertkit.tasks.classification.task:ClassificationTask",
    "glue": "bertkit.tasks.classification.glue:GlueTask",
    "multiple_choice": "bertkit.tasks.multiple_choice:MultipleChoiceTask",
    "ner": "bertkit.tasks.ner.task:NerTask",
    "pretraining": "bertkit.tasks.pretraining:Pretraining",
    "question_answering": "bertkit.tasks.question_answering.task:QuestionAnsweringTask",
}
# Kinds of others that would have the command of one of bertkit's tasks: `bertkit finetune squad`, `… multiple-choice`.
_RESERVED = {"squad", *(kind.replace("_", "-") for kind in _OWN)} - _OWN.keys()


class Registry:
    """Finds tasks by their kind. A task's module is imported when the task is asked for, and not before."""

    @cached_property
    def _installed(self) -> Mapping[str, Sequence[EntryPoint]]:
        """Kind → the entry points of other packages with this name; more than one is a fault, see `_entry`."""
        found: dict[str, list[EntryPoint]] = {}
        for each in entry_points(group=GROUP):
            found.setdefault(each.name, []).append(each)
        return found

    def kinds(self) -> Sequence[str]:
        """Returns the kinds of all tasks, sorted."""
        return sorted({*_OWN, *self._installed})

    def third_party(self) -> Mapping[str, str]:
        """Returns kind → package of the tasks of others that can be asked for, sorted; imports none of their modules.

        Kinds that more than one package has, or bertkit itself, are left out.
        """
        return {
            kind: _package(entries[0])
            for kind, entries in sorted(self._installed.items())
            if len(entries) == 1 and kind not in _OWN and kind not in _RESERVED
        }

    def registered(self, kind: str) -> type[Any]:
        """Returns the class that is registered under a kind, which has ``kind``, ``settings`` and ``data_settings``.

        It is a `Task`, or for pre-training `bertkit.tasks.pretraining.Pretraining`.

        Raises:
            RecipeError: two packages register this kind, or its entry point cannot be imported or is no task; the
                message names the entry point.
            KeyError: no package registers this kind.
        """
        others = self._installed.get(kind, ())
        if kind not in _OWN and not others:
            raise KeyError(kind)
        if others and (kind in _OWN or kind in _RESERVED or len(others) > 1):
            rival = "bertkit's own task of this name" if kind in _OWN or kind in _RESERVED else "each other"
            named = " and ".join(map(_named, others))
            raise RecipeError(f"{named}: in conflict with {rival}; uninstall what you do not need, or rename the kind")
        if others:
            return _loaded(others[0])
        found: type[Any] = EntryPoint(kind, _OWN[kind], GROUP).load()
        return found

    def settings(self, kind: str) -> tuple[type, type]:
        """Returns the dataclasses of a task's blocks ``task`` and ``data``; raises as `registered` does."""
        found = self.registered(kind)
        return found.settings, found.data_settings

    def task(self, kind: str) -> type[Task]:
        """Returns the class of a fine-tuning task.

        Raises:
            RecipeError: as `registered`; or the kind is that of pre-training.
            KeyError: as `registered`.
        """
        from bertkit.tasks.base import Task

        found = self.registered(kind)
        if not issubclass(found, Task):
            raise RecipeError(f"task.kind is {kind!r}; `bertkit pretrain` runs that")
        return found


def _loaded(entry: EntryPoint) -> type[Any]:
    """Imports the task of another package and checks what a recipe and a checkpoint need of it.

    Raises:
        RecipeError: it cannot be imported or is no complete task.
    """
    from bertkit.tasks.base import Task
    from bertkit.tasks.splits import FineTuningData

    try:
        found = entry.load()
    except Exception as error:  # a foreign module may raise anything while it is imported
        raise RecipeError(
            f"{_named(entry)}: cannot be imported ({type(error).__name__}: {error}); mend or uninstall the package"
        ) from error
    if not (isinstance(found, type) and issubclass(found, Task)):
        raise RecipeError(f"{_named(entry)}: expected a subclass of bertkit.tasks.base.Task, got {found!r}")
    settings, data = (getattr(found, name, None) for name in ("settings", "data_settings"))
    faults = []
    if getattr(found, "kind", None) != entry.name:
        faults.append(f"kind is {getattr(found, 'kind', None)!r}; expected the entry point's name, {entry.name!r}")
    if not dataclasses.is_dataclass(settings):
        faults.append(f"settings is {settings!r}; expected a dataclass")
    if not (isinstance(data, type) and issubclass(data, FineTuningData)):
        faults.append(f"data_settings is {data!r}; expected a subclass of bertkit.tasks.splits.FineTuningData")
    if missing := getattr(found, "__abstractmethods__", ()):
        faults.append(f"lacks {', '.join(sorted(missing))}")
    if faults:
        raise RecipeError(f"{_named(entry)}: {found.__name__}: {'; '.join(faults)}")
    return found


def _named(entry: EntryPoint) -> str:
    return f"entry point {entry.name} = {entry.value} of {_package(entry)} (group {GROUP})"


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "an unnamed package"


TASKS = Registry()


def load_recipe(source: str | Path | Mapping[str, Any] | Recipe, overrides: Mapping[str, Any] | None = None) -> Recipe:
    """Finds, overrides and checks a recipe.

    Args:
        source: a name (``finetune/glue/sst2``), a YAML file, the blocks as a mapping, or a recipe.
        overrides: values by dotted key, such as ``{"train.learning_rate": 3e-5}``; they win over ``source``.

    Raises:
        RecipeError: no such recipe, or anything wrong in it. All faults are named in one message, each with the file
            and line or the override it stands in.
    """
    return load.load_recipe(source, overrides, TASKS)


def validate_recipes(files: Sequence[Path]) -> None:
    """Checks several recipe files.

    Raises:
        RecipeError: names every fault of every file.
    """
    load.validate_recipes(files, TASKS)
