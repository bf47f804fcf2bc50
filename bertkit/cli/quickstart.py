"""``bertkit quickstart``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import bertkit
from bertkit.cli import options


def quickstart(
    output_dir: Annotated[Path, typer.Option(help="Where text, checkpoints and results go; new or empty.")] = Path(
        "bertkit-quickstart"
    ),
    json: options.AsJson = False,
) -> None:
    """The whole way on made-up text, offline, in about two minutes."""
    from bertkit.tour.quickstart import report

    tour = bertkit.quickstart(output_dir)
    print(report(tour, as_json=json))
