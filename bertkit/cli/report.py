"""``bertkit report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.printing import print_text
from bertkit.json_text import dumps


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...",
            help="Run directories, finished or not.",
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
    """Write report.html of a run, or of several runs side by side."""
    path = bertkit.report(*runs, output=output, texts=not no_texts, explain=explain)
    print_text(dumps({"report": str(path)}) if json else path)
