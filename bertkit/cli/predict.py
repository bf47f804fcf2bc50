"""``bertkit predict``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from bertkit.cli import options


def predict(
    checkpoint: Annotated[str, typer.Argument(help="A run directory or a Hub id.", show_default=False)],
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT]...", help="Texts to predict.", show_default=False)
    ] = None,
    input_file: Annotated[
        Path | None,
        typer.Option(
            "--input",
            help="Texts, one a line, a table, or SQuAD's JSON; - is stdin.",
            show_default=False,
        ),
    ] = None,
    output_file: Annotated[
        Path | None, typer.Option("--output", help="A new file: .csv, or a JSON object a line.", show_default=False)
    ] = None,
    question: Annotated[
        list[str] | None, typer.Option(help="To be answered from the context. Repeatable.", show_default=False)
    ] = None,
    context: Annotated[str | None, typer.Option(help="A text that has the answers.", show_default=False)] = None,
    context_file: Annotated[Path | None, typer.Option(help="A file of such a text.", show_default=False)] = None,
    json: options.AsJson = False,
) -> None:
    """Predict with a fine-tuned checkpoint; the task is read from it."""
    from bertkit.cli.printing import print_lines, print_list
    from bertkit.inference.files import predict_stream
    from bertkit.progress import wants_colours

    passage = options.one_context(context, context_file)
    found = predict_stream(checkpoint, texts, input_file, output_file, question, passage, colours=wants_colours())
    if json:
        print_list("predictions", (block.rows for block in found))
    elif output_file is None:
        for block in found:
            print_lines(block.lines)
    else:
        count = sum(len(block.rows) for block in found)
        print(f"{count} predictions: {output_file}", file=sys.stderr)
