"""Recipe files: search by name, listing and copying."""

from __future__ import annotations

import re
from pathlib import Path

from bertkit.errors import RecipeError, did_you_mean, shown
from bertkit.files import check_new_file, write_whole
from bertkit.recipe.yaml_files import read_recipe_text

SCHEMA_FILE = "schema.json"
"""File with the schema of all kinds of recipes, beside bertkit's own."""

_SCHEMA = re.compile(r"^(# yaml-language-server: \$schema=)((?:\.\./)+\S+)$", re.M)


def recipe_folder() -> Path:
    """Returns the folder of bertkit's own recipes: inside of an installed package, or next to it in a checkout."""
    package = Path(__file__).parents[1]
    for folder in (package / "recipes", package.parent / "recipes"):
        if folder.is_dir():
            return folder
    raise RuntimeError(f"bertkit's recipes are missing: there is no folder recipes in {package} or next to it")


def list_recipes() -> list[str]:
    """Returns the names of all shipped recipes, such as ``finetune/glue/sst2``, sorted."""
    folder = recipe_folder()
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml"))


def find_recipe(name_or_file: str | Path) -> Path:
    """Returns the file of a recipe given by name, by the end of its name (``bert-mini``), or as a path.

    Raises:
        RecipeError: the recipe does not exist, or the end matches several names.
    """
    path = Path(name_or_file)
    try:
        is_file = path.is_file()
    except OSError as error:  # a name that is too long, or a folder that cannot be entered
        raise RecipeError(f"recipe {shown(str(name_or_file))}: {error.strerror}") from None
    if is_file:
        return path
    if path.suffix in (".yaml", ".yml"):
        raise RecipeError(f"recipe {name_or_file}: no such file")
    wanted, known = str(name_or_file).strip("/"), list_recipes()
    matches = [name for name in known if name == wanted] or [name for name in known if name.endswith(f"/{wanted}")]
    if len(matches) == 1:
        return recipe_folder() / f"{matches[0]}.yaml"
    if matches:
        raise RecipeError(f"recipe {shown(wanted)} is ambiguous: {', '.join(matches)}; give the full name")
    near = did_you_mean(wanted, [*known, *(name.rpartition("/")[2] for name in known)])
    raise RecipeError(f"unknown recipe {shown(wanted)}; `bertkit recipes list` lists all recipes{near}")


def recipe_text(name_or_file: str | Path) -> str:
    """Returns the text of a recipe, for a new file; the line that names the schema to editors has its whole path.

    Raises:
        RecipeError: the recipe does not exist or cannot be read.
    """
    path = find_recipe(name_or_file)
    text = read_recipe_text(path)
    return _SCHEMA.sub(lambda found: f"{found[1]}{(path.parent / found[2]).resolve()}", text, count=1)


def copy_recipe(name: str, destination: Path) -> Path:
    """Copies a recipe with its comments to a new file, or into a folder under its own name; returns the new path.

    Raises:
        OutputError: the file exists, or its folder does not.
    """
    source = find_recipe(name)
    target = destination / source.name if destination.is_dir() else destination
    check_new_file(target, str(target))
    write_whole(target, recipe_text(source).encode())
    return target
