"""Paths in a recipe, which repeats its run from any folder."""

from __future__ import annotations

import dataclasses
import glob
import os
from pathlib import Path

from bertkit.recipe.distillation import DISTILL
from bertkit.recipe.load import Recipe


def absolute(path: str | Path) -> str:
    """Makes a file, folder or pattern absolute, so that ``recipe.yaml`` works in any folder; Hub ids are unchanged.

    >>> absolute("google-bert/bert-base-uncased"), absolute("/texts/*.txt")
    ('google-bert/bert-base-uncased', '/texts/*.txt')
    """
    expanded = Path(path).expanduser()
    if expanded.exists():
        return str(expanded.resolve())
    if any(sign in str(path) for sign in "*?["):
        return os.path.join(glob.escape(os.getcwd()), expanded)
    return str(path)


def with_absolute_checkpoints(recipe: Recipe) -> Recipe:
    """Returns the recipe with absolute paths of the checkpoint and of the teacher, where these are folders."""
    model, train = dict(recipe.model), dict(recipe.train)
    if model.get("name_or_path"):
        model["name_or_path"] = absolute(model["name_or_path"])
    if (settings := train.get(DISTILL)) is not None:
        train[DISTILL] = {**settings, "teacher": absolute(settings["teacher"])}
    return dataclasses.replace(recipe, model=model, train=train)
