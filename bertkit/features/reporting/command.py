"""``bertkit report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.groups import new_app
from bertkit.cli.printing import print_result
from bertkit.runtime.errors import RecipeError

app = new_app()


@app.command()
def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR",
            help="Run directories, finished or not; or the folder of a grid.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        options.option(
            metavar="FILE",
            help="A new file. Without it: report.html and figures/ in the one DIR, or report.html here for several.",
        ),
    ] = None,
    no_texts: Annotated[bool, typer.Option("--no-texts", help="Leave out all texts of the data.")] = False,
    explain: Annotated[
        int, options.option(metavar="N", help="Mark what words add to the N most confident wrong predictions of texts.")
    ] = 0,
    json: options.AsJson = False,
) -> None:
    """Write report.html of a run, several runs or a grid."""
    from bertkit.training.runs.listing import GRID_FILE  # imports numpy, which ``--help`` does without

    if len(runs) == 1 and (runs[0] / GRID_FILE).is_file() and hasattr(bertkit, "report_grid"):
        if explain or no_texts:
            raise RecipeError("--explain and --no-texts are for runs; the report of a grid shows no texts")
        path = bertkit.report_grid(runs[0], output=output)
    else:
        path = bertkit.report(*runs, output=output, texts=not no_texts, explain=explain)
    print_result({"report": str(path)}, [path], json)
