"""``bertkit compare``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import bertkit
from bertkit.cli import completion, options
from bertkit.cli.printing import print_text
from bertkit.json_text import dumps


def compare(
    systems: Annotated[
        list[Path],
        typer.Argument(
            metavar="A B...",
            help="Run directories, grids, or tables with the columns prediction and gold.",
            show_default=False,
            autocompletion=completion.runs,
        ),
    ],
    metric: Annotated[
        str | None, typer.Option(help="Metric to compare; the main one of the task by default.", show_default=False)
    ] = None,
    json: options.AsJson = False,
) -> None:
    """Compare predictions on the same examples: is the difference real?"""
    from bertkit.grids.table import comparison_table

    results = bertkit.compare(*systems, metric=metric)
    print_text(dumps(asdict(results), default=str) if json else comparison_table(results))
