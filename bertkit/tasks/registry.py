"""The tasks that a recipe's ``task.kind`` may name, and recipes loaded with them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bertkit.recipe import load
from bertkit.recipe.load import Recipe

_MODULES = {
    "classification": "bertkit.tasks.classification.task",
    "glue": "bertkit.tasks.classification.glue",
    "multiple_choice": "bertkit.tasks.multiple_choice",
    "ner": "bertkit.tasks.ner.task",
    "pretraining": "bertkit.tasks.pretraining",
    "question_answering": "bertkit.tasks.question_answering.task",
}


class Registry:
    """Finds tasks by name; a task's module is imported when it is asked for."""

    def kinds(self) -> Sequence[str]:
        return sorted(_MODULES)

    def module(self, kind: str) -> Any:
        """Returns the module that defines ``TaskSettings``, ``DataSettings`` and, for fine-tuning, ``TASK``."""
        return importlib.import_module(_MODULES[kind])

    def settings(self, kind: str) -> tuple[type, type]:
        module = self.module(kind)
        return module.TaskSettings, module.DataSettings


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
