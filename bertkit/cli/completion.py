"""Completion of values in the shell: recipes, tasks, recipe keys, placements, run directories.

Each function gets the incomplete word and returns the values that begin with it. They run at every press of the tab
key, so they read names and small files only. Without a value, the shell completes names of files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import typer

from bertkit.recipe.files import SCHEMA_FILE, list_recipes, recipe_folder

_GLUE = "finetune/glue/"
_PLACEMENT = "placement/"
_KINDS = {"multiple-choice": "multiple_choice", "pretrain": "pretraining", "squad": "question_answering"}
_MARKS = ("recipe.yaml", "config.json", "grid.json")
_DEPTH = 3  # folders below the one that the word names
_MOST = 200


def recipes(incomplete: str) -> list[str]:
    """Completes the name of a recipe."""
    return [name for name in list_recipes() if name.startswith(incomplete)]


def glue_tasks(incomplete: str) -> list[str]:
    """Completes the last of the GLUE tasks in a list with commas."""
    before, comma, last = incomplete.rpartition(",")
    names = [name.removeprefix(_GLUE) for name in list_recipes() if name.startswith(_GLUE)]
    more = [] if comma else ["all"]
    given = before.split(",")
    return [before + comma + name for name in [*names, *more] if name.startswith(last) and name not in given]


def placements(incomplete: str) -> list[str]:
    """Completes the name of a placement."""
    names = [name.removeprefix(_PLACEMENT) for name in list_recipes() if name.startswith(_PLACEMENT)]
    return [name for name in names if name.startswith(incomplete)]


def kinds(incomplete: str) -> list[str]:
    """Completes the kind of a recipe."""
    found = {name.removeprefix("task_") for name in _definitions() if name.startswith("task_")}
    return [name for name in sorted({*found, "placement"}) if name.startswith(incomplete)]


def keys(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Completes a recipe key of the task of the command, with an equals sign and its description."""
    name = ctx.info_name or ""
    kind = _KINDS.get(name, name)
    found: dict[str, str] = {}
    for definition, block in _definitions().items():
        of_block, _, of_kind = definition.partition("_")
        is_of_task = of_block not in ("task", "data") or of_kind == kind or f"task_{kind}" not in _definitions()
        is_of_model = of_block != "model" or of_kind == f"of_{'pretraining' if kind == 'pretraining' else 'finetuning'}"
        if is_of_task and is_of_model:
            for key, value in block["properties"].items():
                found[f"{of_block}.{key}="] = value.get("description", "")
    found.pop("task.kind=", None)
    return [(key, text) for key, text in sorted(found.items()) if key.startswith(incomplete)]


def runs(incomplete: str) -> list[str]:
    """Completes a run directory, a grid or another folder with a checkpoint."""
    typed = Path(incomplete).expanduser() if incomplete else Path()
    base = typed if incomplete.endswith(("/", ".")) or not incomplete else typed.parent
    found = sorted(str(path) for path in _marked(base, _DEPTH))
    return [name for name in found if name.startswith(os.path.expanduser(incomplete.removeprefix("./")))][:_MOST]


def _marked(folder: Path, depth: int) -> Iterator[Path]:
    try:
        entries = [entry for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith(".")]
    except OSError:
        return
    for entry in entries[:_MOST]:
        path = Path(entry.path)
        if any((path / name).is_file() for name in _MARKS):
            yield path
        if depth > 1:
            yield from _marked(path, depth - 1)


def _definitions() -> dict[str, dict[str, dict[str, dict[str, str]]]]:
    return dict(json.loads((recipe_folder() / SCHEMA_FILE).read_text(encoding="utf-8"))["definitions"])
