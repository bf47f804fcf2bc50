"""Settings of recipes as arguments of functions: ``train_file``, ``text_columns``, ``learning_rate``, …"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_origin

from bertkit.data.tables.objects import kind_of_table, refuse_unfinished, store_table
from bertkit.recipe.fields import Fields, fields_of, model_fields, train_fields
from bertkit.recipe.files import find_recipe, read_recipe_file
from bertkit.recipe.load import Checker, Recipe
from bertkit.recipe.nearest import nearest_key
from bertkit.runtime.errors import RecipeError, listed
from bertkit.runtime.options import several
from bertkit.runtime.placement.resolve import PlacementSettings
from bertkit.runtime.reading.hub import cache_folder
from bertkit.tasks.registry import TASKS


def with_settings(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    overrides: Mapping[str, Any] | None,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """Returns recipe overrides with settings that are given by the names of their keys, as the options of commands.

    Args:
        recipe: the recipe, whose task has the settings.
        overrides: values by dotted key.
        settings: values by key without the block. None is not given. A table object becomes a file, see `table_path`,
            and a text where a setting has a list, such as ``text_columns``, a list of it.

    Raises:
        RecipeError: there is no such setting, or it is in ``overrides`` too; or the recipe names no task.
    """
    values = dict(overrides or {})
    if not settings:
        return values
    if isinstance(recipe, Recipe):
        of_task, of_data = map(fields_of, TASKS.settings(recipe.kind))
    else:
        blocks, places = (recipe, {}) if isinstance(recipe, Mapping) else read_recipe_file(find_recipe(recipe))
        checker = Checker(blocks, places)
        found = checker.task_settings(checker.blocks["task"].get("kind"), TASKS)
        if found is None:
            raise RecipeError(listed(checker.faults))
        of_task, of_data = map(fields_of, found)
    keys: dict[str, Fields] = {  # in the order in which a name is looked up
        "task": of_task,
        "data": of_data,
        "train": train_fields(),
        "placement": fields_of(PlacementSettings),
        "model": model_fields(of_checkpoint=True),
    }
    for name, value in settings.items():
        block = next((block for block, fields in keys.items() if name in fields), None)
        if block is None:
            near = nearest_key("", name, keys)
            hint = f"; did you mean {near.partition('.')[2]!r}?" if near else ""
            raise RecipeError(f"{name}: no argument and no setting of this task{hint}")
        if value is None:
            continue
        if f"{block}.{name}" in values:
            raise RecipeError(f"{name}: is in overrides too, as {block}.{name}; keep one of them")
        if name.endswith("_file"):
            value = table_path(value, name)
        elif get_origin(keys[block][name].hint) is list:
            value = several(value)
        if isinstance(value, Path):
            value = str(value)
        values[f"{block}.{name}"] = list(value) if isinstance(value, tuple) else value
    return values


def table_path(value: Any, name: str) -> Any:
    """Returns the path of a file with the rows of a table object, in the cache of bertkit; a path or None unchanged.

    Raises:
        DataError: it is a LazyFrame, or several tables by their names, such as a ``DatasetDict``.
        RecipeError: it is anything else, such as a column.
    """
    refuse_unfinished(value, name)
    if value is None or isinstance(value, str | Path):
        return value
    if kind_of_table(value) is None:
        kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
        raise RecipeError(
            f"{name}: is a {kind}; expected a file, or rows with named columns: a DataFrame, such as "
            "pandas.DataFrame(columns), an Arrow table, a datasets.Dataset, or a list of dictionaries"
        )
    return store_table(value, cache_folder() / "tables", name)
