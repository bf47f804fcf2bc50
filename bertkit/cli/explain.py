"""``bertkit explain``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.printing import print_text


def explain(
    checkpoint: options.Checkpoint,
    text: Annotated[str, typer.Argument(help="A text.", show_default=False)],
    text_b: Annotated[
        str | None, typer.Argument(metavar="[TEXT_B]", help="The second text of a pair.", show_default=False)
    ] = None,
    output: Annotated[Path | None, options.option(metavar="FILE", help="A new HTML file with all of it.")] = None,
    device: options.Device = "auto",
) -> None:
    """Show the inside of a checkpoint on a text: its pieces and the attention of all heads."""
    print_text(bertkit.explain(checkpoint, text, text_b, output=output, device=device))
    if output is not None:
        print_text(output)
