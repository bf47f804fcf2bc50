"""``bertkit recipes``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.groups import Group
from bertkit.cli.printing import print_result, print_text
from bertkit.recipe.files import read_recipe_file, recipe_text
from bertkit.runtime.json_text import dumps

app = typer.Typer(cls=Group, help="List, read, copy and check recipes.", no_args_is_help=True)

Name = Annotated[
    str,
    typer.Argument(
        help="A recipe's name, such as finetune/glue/sst2.", show_default=False, autocompletion=options.complete_recipes
    ),
]


@app.command("list")
def list_(json: options.AsJson = False) -> None:
    """List the names of all recipes."""
    names = bertkit.list_recipes()
    print_result(names, names, json)


@app.command()
def show(name: Name, json: options.AsJson = False) -> None:
    """Print a recipe."""
    if json:
        print_text(dumps(read_recipe_file(bertkit.find_recipe(name))[0]))
        return
    print_text(recipe_text(name), end="")


@app.command()
def copy(
    name: Name,
    destination: Annotated[Path, typer.Argument(help="The new file.", show_default=False)],
    json: options.AsJson = False,
) -> None:
    """Copy a recipe to a new file."""
    target = bertkit.copy_recipe(name, destination)
    print_result({"recipe": str(target)}, [target], json)


@app.command()
def schema(
    kind: Annotated[
        str | None, options.option(help="A task, as in task.kind, or placement; all kinds by default.")
    ] = None,
) -> None:
    """Print the JSON Schema of recipes. Editors complete and check with it."""
    print_text(dumps(bertkit.recipe_schema(kind), indent=1, ensure_ascii=False))


@app.command()
def validate(
    files: Annotated[list[Path], typer.Argument(help="Recipe files.", metavar="FILE", show_default=False)],
    run_code: Annotated[
        bool,
        typer.Option("--run-code", help="Also run the code that a recipe names, such as data.sentence_splitter."),
    ] = False,
    json: options.AsJson = False,
) -> None:
    """Check recipes; one message lists all faults of all files. Without --run-code, no code of a recipe runs."""
    bertkit.validate_recipes(files, run_code=run_code)
    print_result({"valid": list(map(str, files))}, [f"{file}: ok" for file in files], json)
