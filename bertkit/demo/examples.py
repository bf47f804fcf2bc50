"""Example inputs of a page: the first texts of the validation set of the run, if it is still on this machine."""

from __future__ import annotations

from pathlib import Path

from bertkit.errors import BertkitError
from bertkit.recipe.yaml_files import read_recipe_file
from bertkit.tasks.base import Task
from bertkit.tasks.construction import task_of_recipe
from bertkit.tasks.registry import load_recipe

_MOST = 5
_LONGEST = 2000  # characters of an example


def examples_of_run(checkpoint: str, task: Task) -> list[list[str]]:
    """Returns the texts of `Task.page_fields` of up to five examples.

    The list is empty for a checkpoint without a recipe, for data from the Hub, and for files that are gone.
    """
    path = Path(checkpoint) / "recipe.yaml"
    if not path.is_file():
        return []
    try:
        read_recipe_file(path)
        of_run = task_of_recipe(load_recipe(str(path)))
        if of_run.dataset is not None and getattr(of_run.data, "data_dir", None) is None:
            return []
        _, splits = of_run.load(["validation"])
        columns = splits["validation"].examples[: _MOST * 4]
        rows = [task.page_texts(columns, row) for row in range(len(next(iter(columns.values()))))]
    except (BertkitError, OSError, KeyError, StopIteration):
        return []
    return [row for row in rows if all(0 < len(text.strip()) <= _LONGEST for text in row)][:_MOST]
