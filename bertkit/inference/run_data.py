"""The data of a run, from the recipe in its folder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertkit.errors import DataError
from bertkit.inference.ensemble import is_ensemble
from bertkit.recipe.yaml_files import read_recipe_file

_STEP = re.compile(r"checkpoint-\d+")


def data_of_run(checkpoint: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of the ``data`` block that a run was trained with.

    Args:
        checkpoint: a run directory or a checkpoint in it, ``checkpoint-…``, or any other name of a checkpoint.
        given: values of the ``data`` block that the caller has.

    Returns:
        The values; none if the checkpoint is not of a run, if its recipe has paths without their folders, as those of
        runs that were pushed to the Hub, or if a file, a folder or a Hub data set is given.

    Raises:
        RecipeError: ``recipe.yaml`` cannot be read.
        DataError: the checkpoint is an ensemble of folds, whose members were trained on the rows of each other's folds.
    """
    folder = Path(checkpoint)
    recipe = folder / "recipe.yaml"
    if folder.is_dir() and not recipe.is_file() and _STEP.fullmatch(folder.name):
        recipe = folder.resolve().parent / "recipe.yaml"
    if any(key.endswith(("_dir", "_file")) or key == "dataset_name" for key in given) or not recipe.is_file():
        return {}
    data = read_recipe_file(recipe)[0].get("data")
    if not isinstance(data, Mapping) or any(str(value).startswith("…") for value in data.values()):
        return {}
    if data.get("folds") is not None and is_ensemble(checkpoint):
        raise DataError(
            f"{checkpoint}: its members were trained on different folds, so together they have seen all rows; give "
            "other data, with --validation-file or --data-dir"
        )
    return {key: value for key, value in data.items() if value is not None}
