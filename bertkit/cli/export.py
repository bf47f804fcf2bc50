"""``bertkit export``."""

from __future__ import annotations

from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import Annotated, Literal

import typer

from bertkit.cli import options


def export(
    checkpoint: Annotated[str, typer.Argument(help="A run directory, a folder or a Hub id.", show_default=False)],
    out: Annotated[Path, typer.Argument(help="A new folder.", show_default=False)],
    to: Annotated[
        Literal["bert"], typer.Option(help="bert: for plain transformers, without bertkit and trust_remote_code.")
    ] = "bert",
    json: options.AsJson = False,
) -> None:
    """Write a checkpoint in a form that needs no bertkit, and check that it computes the same."""
    from bertkit.sharing.export import export as export_checkpoint

    result = export_checkpoint(checkpoint, out, to=to)
    if json:
        print(dumps(asdict(result), default=str))
        return
    print(f"{result.folder}: {result.model_class}; {result.comparison}")
    for note in result.notes:
        print(f"note: {note}")
