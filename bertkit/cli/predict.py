"""``bertkit predict``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.printing import print_lines, print_list
from bertkit.errors import RecipeError


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
    from bertkit.progress import wants_colours

    passage = one_context(context, context_file)
    found = bertkit.predict(checkpoint, texts, input_file, output_file, question, passage, colours=wants_colours())
    if json:
        print_list("predictions", (block.rows for block in found))
    elif output_file is None:
        for block in found:
            print_lines(block.lines)
    else:
        count = sum(len(block.rows) for block in found)
        print(f"{count} predictions: {output_file}", file=sys.stderr)


def one_context(context: str | None, context_file: Path | None) -> str | Path | None:
    """Returns the text of ``--context`` or the path of ``--context-file``, or None without either.

    Raises:
        RecipeError: both are given.
    """
    if context is not None and context_file is not None:
        raise RecipeError("--context and --context-file: give one of them")
    return context if context_file is None else context_file
