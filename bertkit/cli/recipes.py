"""``bertkit recipes``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import bertkit

app = typer.Typer(help="List, read, copy and check recipes.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="A recipe's name, such as finetune/glue/sst2.", show_default=False)]


@app.command("list")
def list_() -> None:
    """The names of all recipes."""
    for name in bertkit.list_recipes():
        print(name)


@app.command()
def show(name: Name) -> None:
    """Print a recipe."""
    print(bertkit.find_recipe(name).read_text(encoding="utf-8"), end="")


@app.command()
def copy(name: Name, destination: Annotated[Path, typer.Argument(help="The new file.", show_default=False)]) -> None:
    """Copy a recipe to a file of your own."""
    print(bertkit.copy_recipe(name, destination))


@app.command()
def validate(
    files: Annotated[list[Path], typer.Argument(help="Recipe files.", metavar="FILE...", show_default=False)],
) -> None:
    """Check recipes: every fault of every file in one message."""
    bertkit.validate_recipes(files)
    for file in files:
        print(f"{file}: ok")
