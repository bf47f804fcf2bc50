"""Tasks by the kind in a recipe, built-in or of other packages; recipes; what the features know of a kind of task.

A package adds a task through the entry-point group ``bertkit.tasks``: the name is the kind, the value
``module:TaskClass`` names a subclass of `bertkit.tasks.base.Task`. In ``pyproject.toml``::

    [project.entry-points."bertkit.tasks"]
    word_order = "acme.word_order:WordOrderTask"
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, singledispatch, update_wrapper
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from bertkit.recipe import load
from bertkit.recipe.files import find_recipe, read_recipe_file
from bertkit.recipe.load import Recipe
from bertkit.runtime.errors import RecipeError, noted
from bertkit.runtime.options import several

if TYPE_CHECKING:
    from bertkit.tasks.base import Task

P = ParamSpec("P")
R = TypeVar("R")

GROUP = "bertkit.tasks"

_OWN = {
    "classification": "bertkit.tasks.classification.task:ClassificationTask",
    "glue": "bertkit.tasks.classification.glue:GlueTask",
    "multiple_choice": "bertkit.tasks.multiple_choice:MultipleChoiceTask",
    "ner": "bertkit.tasks.ner.task:NerTask",
    "pretraining": "bertkit.tasks.pretraining:Pretraining",
    "question_answering": "bertkit.tasks.question_answering.task:QuestionAnsweringTask",
    "reranking": "bertkit.tasks.reranking:RerankingTask",
    "similarity": "bertkit.tasks.similarity.task:SimilarityTask",
}
_COMMANDS = {"question_answering": "squad"}
# Kinds that clash with the command of a built-in task: `bertkit finetune squad`, `… multiple-choice`.
_RESERVED = {*_COMMANDS.values(), *(kind.replace("_", "-") for kind in _OWN)} - _OWN.keys()


class Registry:
    """Looks up tasks by kind. The module of a task is imported on first use."""

    @cached_property
    def _installed(self) -> Mapping[str, Sequence[EntryPoint]]:
        """Kind → the entry points of other packages with this name; `registered` rejects more than one."""
        found: dict[str, list[EntryPoint]] = {}
        for each in entry_points(group=GROUP):
            found.setdefault(each.name, []).append(each)
        return found

    def kinds(self) -> Sequence[str]:
        """Returns the kinds of all tasks, sorted."""
        return sorted({*_OWN, *self._installed})

    def third_party(self) -> Mapping[str, str]:
        """Returns kind → package of the available tasks of other packages, sorted; imports none of their modules.

        Kinds that several packages register, or that bertkit reserves, are left out.
        """
        return {
            kind: _package(entries[0])
            for kind, entries in sorted(self._installed.items())
            if len(entries) == 1 and kind not in _OWN and kind not in _RESERVED
        }

    def registered(self, kind: str) -> type[Any]:
        """Returns the class registered for a kind; it has ``kind``, ``Settings`` and ``data_settings``.

        The class is a subclass of `Task`, or `bertkit.tasks.pretraining.Pretraining` for pre-training.

        Raises:
            RecipeError: two packages register this kind, or its entry point cannot be imported or is not a task; the
                message names the entry point.
            KeyError: the kind is not registered.
        """
        others = self._installed.get(kind, ())
        if kind not in _OWN and not others:
            raise KeyError(kind)
        if others and (kind in _OWN or kind in _RESERVED or len(others) > 1):
            rival = "bertkit's own task of this name" if kind in _OWN or kind in _RESERVED else "each other"
            named = " and ".join(map(_named, others))
            raise RecipeError(
                f"{named}: in conflict with {rival}; uninstall the package that you do not need, or rename the kind"
            )
        if others:
            return _loaded(others[0])
        found: type[Any] = EntryPoint(kind, _OWN[kind], GROUP).load()
        return found

    def has_loss_of_classes(self, kind: str) -> bool:
        """Returns whether the loss of a kind is the usual one, the cross-entropy of classes, which can be weighted."""
        from bertkit.tasks.base import Task

        return getattr(self.registered(kind), "loss", None) is Task.loss

    def settings(self, kind: str) -> tuple[type, type]:
        """Returns the dataclasses of the blocks ``task`` and ``data`` of a task; raises the errors of `registered`."""
        found = self.registered(kind)
        return found.Settings, found.data_settings

    def pipeline_tag(self, kind: str) -> str | None:
        """Returns the Hub's name of a task; None for pre-training, where it depends on the run. Raises as
        `registered`."""
        return getattr(self.registered(kind), "pipeline_tag", None)

    def task(self, kind: str) -> type[Task]:
        """Returns the class of a fine-tuning task.

        Raises:
            RecipeError: as `registered`; or the kind is pre-training.
            KeyError: as `registered`.
        """
        from bertkit.tasks.base import Task

        found = self.registered(kind)
        if not issubclass(found, Task):
            raise RecipeError(f"task.kind is {kind!r}; use `bertkit pretrain`")
        return found


def _loaded(entry: EntryPoint) -> type[Any]:
    """Imports the task of another package and checks that recipes and checkpoints can use it."""
    from bertkit.tasks.base import Task
    from bertkit.tasks.splits import FineTuningData

    try:
        found = entry.load()
    except Exception as error:  # a foreign module may raise anything while it is imported
        raise RecipeError(
            f"{_named(entry)}: cannot be imported ({type(error).__name__}: {error}); fix or uninstall the package"
        ) from error
    if not (isinstance(found, type) and issubclass(found, Task)):
        raise RecipeError(f"{_named(entry)}: expected a subclass of bertkit.tasks.base.Task, got {found!r}")
    settings, data = (getattr(found, name, None) for name in ("Settings", "data_settings"))
    faults = []
    if getattr(found, "kind", None) != entry.name:
        faults.append(f"kind is {getattr(found, 'kind', None)!r}; expected the entry point's name, {entry.name!r}")
    if not dataclasses.is_dataclass(settings):
        faults.append(f"Settings is {settings!r}; expected a dataclass")
    if not (isinstance(data, type) and issubclass(data, FineTuningData)):
        faults.append(f"data_settings is {data!r}; expected a subclass of bertkit.tasks.splits.FineTuningData")
    if missing := getattr(found, "__abstractmethods__", ()):
        faults.append(f"does not define {', '.join(sorted(missing))}")
    if faults:
        raise RecipeError(f"{_named(entry)}: {found.__name__}: {'; '.join(faults)}")
    return found


def _named(entry: EntryPoint) -> str:
    return f"entry point {entry.name} = {entry.value} of {_package(entry)} (group {GROUP})"


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "an unnamed package"


TASKS = Registry()


def command_of(kind: str) -> str:
    """Returns the subcommand of ``bertkit finetune`` for a kind of task."""
    return _COMMANDS.get(kind, kind.replace("_", "-"))


def task_of_recipe(recipe: Recipe) -> Task:
    """Builds the task that a fine-tuning recipe describes."""
    return TASKS.task(recipe.kind)(recipe.task, recipe.data)


def load_recipe(source: str | Path | Mapping[str, Any] | Recipe, overrides: Mapping[str, Any] | None = None) -> Recipe:
    """Finds, overrides and checks a recipe.

    Args:
        source: a name (``finetune/glue/sst2``), a YAML file, a mapping of the blocks, or a recipe.
        overrides: values by dotted key, such as ``{"train.learning_rate": 3e-5}``; they take precedence over
            ``source``.

    Raises:
        RecipeError: the recipe does not exist or is invalid. One message lists the faults, at most 20, each with its
            file and line, or its override.

    Examples:
        ```python
        recipe = bertkit.load_recipe("finetune/glue/sst2", overrides={"train.learning_rate": 3e-5})
        recipe.train["learning_rate"]  # 3e-05
        ```
    """
    return load.load_recipe(source, overrides, TASKS)


def recipe_schema(kind: str | None = None) -> dict[str, Any]:
    """Returns the JSON Schema of recipes, for completion and checks in editors.

    Args:
        kind: name of a task, as in ``task.kind``; ``placement`` for files with only a ``placement`` block; None for all
            kinds.

    Raises:
        RecipeError: there is no such kind, or its task cannot be loaded.

    Examples:
        ```python
        bertkit.recipe_schema("ner")["properties"]
        ```
    """
    from bertkit.recipe import schema

    return schema.recipe_schema(kind, TASKS)


def validate_recipes(files: str | Path | Sequence[str | Path], *, run_code: bool = False) -> None:
    """Checks several recipe files.

    Args:
        files: names or files of recipes and placements.
        run_code: also run the code that a recipe names, such as ``data.sentence_splitter: file.py:function``. Otherwise
            no code of a recipe runs.

    Raises:
        RecipeError: a file is invalid; the message lists the faults of all files, at most 20 of each.

    Examples:
        ```python
        bertkit.copy_recipe("finetune/ner", "my-recipe.yaml")
        bertkit.validate_recipes(["my-recipe.yaml"])
        ```
    """
    faults: list[str] = []
    for file in map(Path, several(files)):
        with noted(faults, RecipeError):
            blocks, _ = read_recipe_file(find_recipe(file))
            if set(blocks) == {"placement"} or load.ACCELERATE_KEY in blocks:
                load.load_placement(file)
                continue
            recipe = load_recipe(file)
            if run_code:
                try:
                    recipe.data.run_code()
                except RecipeError as error:
                    raise RecipeError(f"recipe {recipe.name}: data.{error}") from error
    if faults:
        raise RecipeError("\n".join(faults))  # each is the list of a file


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
