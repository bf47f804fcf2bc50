"""The data of a run, from the recipe in its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertkit.recipe.yaml_files import read_recipe_file


def data_of_run(checkpoint: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of the ``data`` block that a run was trained with.

    Args:
        checkpoint: a run directory or a checkpoint in it, ``checkpoint-…``, or any other name of a checkpoint.
        given: values of the ``data`` block that the caller has.

    Returns:
        The values; none if the checkpoint is not of a run or is a copy from the Hub, whose recipe has no paths, or if a
        file, a folder or a Hub data set is given.

    Raises:
        RecipeError: ``recipe.yaml`` cannot be read.
    """
    folder = Path(checkpoint)
    recipe = (folder.parent if folder.name.startswith("checkpoint-") else folder) / "recipe.yaml"
    if any(key.endswith(("_dir", "_file")) or key == "dataset_name" for key in given) or not recipe.is_file():
        return {}
    data = read_recipe_file(recipe)[0].get("data")
    if not isinstance(data, Mapping) or any(str(value).startswith("…") for value in data.values()):
        return {}
    return {key: value for key, value in data.items() if value is not None}
