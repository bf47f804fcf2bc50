"""``bertkit quickstart``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.groups import new_app
from bertkit.cli.printing import print_text

app = new_app()


@app.command()
def quickstart(
    output_dir: Annotated[Path, typer.Option(help="Folder for text, checkpoints and results; new or empty.")] = Path(
        "bertkit-quickstart"
    ),
    json: options.AsJson = False,
) -> None:
    """Pre-train, fine-tune and predict on synthetic text. It works offline, in about two minutes."""
    from bertkit.features.tour.quickstart import report

    tour = bertkit.quickstart(output_dir)
    print_text(report(tour, as_json=json))
