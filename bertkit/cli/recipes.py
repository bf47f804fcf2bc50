"""``bertkit recipes``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="List, read, copy and check recipes.", no_args_is_help=True, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(help="A recipe's name, such as finetune/glue/sst2.", show_default=False)]


@app.command("list")
def list_() -> None:
    """The names of all recipes."""
    from bertkit.recipe.find import list_recipes

    for name in list_recipes():
        print(name)


@app.command()
def show(name: Name) -> None:
    """Print a recipe."""
    from bertkit.recipe.find import find_recipe

    print(find_recipe(name).read_text(encoding="utf-8"), end="")


@app.command()
def copy(name: Name, destination: Annotated[Path, typer.Argument(help="The new file.", show_default=False)]) -> None:
    """Copy a recipe to a file of your own."""
    from bertkit.recipe.find import copy_recipe

    print(copy_recipe(name, destination))


@app.command()
def validate(
    files: Annotated[list[Path], typer.Argument(help="Recipe files.", metavar="FILE...", show_default=False)],
) -> None:
    """Check recipes: every fault of every file in one message."""
    from bertkit.tasks.registry import validate_recipes

    validate_recipes(files)
    for file in files:
        print(f"{file}: ok")
