"""Paths in a recipe, which repeats its run from any folder, and paths in what is published."""

from __future__ import annotations

import dataclasses
import glob
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertkit.recipe.distillation import DISTILL
from bertkit.recipe.load import Recipe

# An absolute path within text; the group is its last part.
_PATH_WITHIN = re.compile(r"(?<![^\s'\"`(=])/(?:[^\s/'\"`()]+/)+([^\s/'\"`(),;]*)")


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


def without_paths(value: Any) -> Any:
    """Returns plain data with every absolute path reduced to its last part, so that it can be published.

    >>> without_paths({"data": {"corpus": ["/home/ada/books"], "hub": "nyu-mll/glue"}, "seed": 1})
    {'data': {'corpus': ['…/books'], 'hub': 'nyu-mll/glue'}, 'seed': 1}
    >>> without_paths("9 of 90 rows of /home/ada/a.csv, drawn; see https://example.org/a/b")
    '9 of 90 rows of …/a.csv, drawn; see https://example.org/a/b'
    """
    if isinstance(value, Mapping):
        return {key: without_paths(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_paths(item) for item in value]
    if isinstance(value, str) and Path(value).is_absolute():
        return f"…/{Path(value).name}"
    return _PATH_WITHIN.sub(r"…/\1", value) if isinstance(value, str) else value
