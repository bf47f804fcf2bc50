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
    text: Annotated[str | None, typer.Argument(help="A text.", show_default=False)] = None,
    text_b: Annotated[
        str | None, typer.Argument(metavar="[TEXT_B]", help="The second text of a pair.", show_default=False)
    ] = None,
    label: Annotated[
        str | None,
        options.option(
            help="Label to explain, the predicted one by default; for tagging a word of TEXT, for multiple choice the "
            "number of an ending."
        ),
    ] = None,
    sentences: Annotated[
        Path | None,
        options.option(metavar="FILE", help="Text whose sentences are compared with TEXT_B as the next one."),
    ] = None,
    rank: Annotated[
        Path | None,
        options.option(metavar="FILE", help="Instead of TEXT: texts, one a line, to rank by pseudo-perplexity."),
    ] = None,
    pairs: Annotated[
        Path | None,
        options.option(metavar="FILE", help="Instead of TEXT: a table of minimal pairs with the columns good and bad."),
    ] = None,
    output: Annotated[Path | None, options.option(metavar="FILE", help="A new HTML file with all of it.")] = None,
    device: options.Device = "auto",
) -> None:
    """Show the inside of a checkpoint on a text: its pieces, the attention of all heads, what it would predict."""
    shown = bertkit.explain(
        checkpoint, text, text_b, label=label, sentences=sentences, rank=rank, pairs=pairs, output=output, device=device
    )
    for line in shown.lines():
        print_text(line)
    if output is not None:
        print_text(output)
