"""``bertkit recipes``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import bertkit
from bertkit.cli.printing import print_text
from bertkit.recipe.yaml_files import read_recipe_text

app = typer.Typer(help="List, read, copy and check recipes.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="A recipe's name, such as finetune/glue/sst2.", show_default=False)]


@app.command("list")
def list_() -> None:
    """List the names of all recipes."""
    for name in bertkit.list_recipes():
        print_text(name)


@app.command()
def show(name: Name) -> None:
    """Print a recipe."""
    print_text(read_recipe_text(bertkit.find_recipe(name)), end="")


@app.command()
def copy(name: Name, destination: Annotated[Path, typer.Argument(help="The new file.", show_default=False)]) -> None:
    """Copy a recipe to a new file."""
    print_text(bertkit.copy_recipe(name, destination))


@app.command()
def validate(
    files: Annotated[list[Path], typer.Argument(help="Recipe files.", metavar="FILE...", show_default=False)],
    run_code: Annotated[
        bool,
        typer.Option("--run-code", help="Also run the code that a recipe names, such as data.sentence_splitter."),
    ] = False,
) -> None:
    """Check recipes; one message lists all faults of all files. Without --run-code, no code of a recipe runs."""
    bertkit.validate_recipes(files, run_code=run_code)
    for file in files:
        print_text(f"{file}: ok")
