"""``bertkit explain``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.commands import command
from bertkit.cli.groups import new_app
from bertkit.cli.printing import print_result

app = new_app()


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Subject of an explanation and its settings; `bertkit.cli.commands.command` turns the fields into options.

    They are the arguments of `bertkit.explain`.
    """

    label: Annotated[
        str | None,
        options.option(
            help="Label to explain, the predicted one by default; for tagging a word of TEXT, for multiple choice the "
            "number of an ending."
        ),
    ] = None
    unit: Annotated[
        Literal["logit", "probability"] | None,
        options.option(help="What is attributed to words; the logit without it."),
    ] = None
    window: Annotated[
        int | None,
        options.option(
            help="Number, from 0, of the window of a TEXT longer than the model reads; without it the one that decides "
            "the prediction, or the first."
        ),
    ] = None
    sentences: Annotated[
        Path | None,
        options.option(metavar="FILE", help="Text whose sentences are compared with TEXT_B as the next one."),
    ] = None
    rank: Annotated[
        Path | None,
        options.option(metavar="FILE", help="Instead of TEXT: texts, one a line, to rank by pseudo-perplexity."),
    ] = None
    pairs: Annotated[
        Path | None,
        options.option(metavar="FILE", help="Instead of TEXT: a table of minimal pairs with the columns good and bad."),
    ] = None
    word: Annotated[
        str | None, options.option(help="Instead of TEXT: a word, whose vectors in the texts of --texts are compared.")
    ] = None
    texts: Annotated[
        Path | None,
        options.option(metavar="FILE", help="With --word: a table with columns text and label, or a text per line."),
    ] = None
    corpus: Annotated[
        str | None,
        options.option(metavar="STORE", help="Instead of a checkpoint: a token store, as pre-training takes it."),
    ] = None
    recipe: Annotated[
        str | None, options.option(help="With --corpus: recipe of the pre-training; pretrain/bert-base by default.")
    ] = None
    example: Annotated[
        int | None, options.option(help="With --corpus: number of the example in the epoch; 0 without it.")
    ] = None
    epoch: Annotated[int | None, options.option(help="With --corpus: number of the epoch; 0 without it.")] = None
    phase: Annotated[
        int | None, options.option(help="With --corpus: number of the phase of the run, from 0; 0 without it.")
    ] = None
    output: Annotated[Path | None, options.option(metavar="FILE", help="A new HTML file with all of it.")] = None
    device: options.Device = "auto"
    revision: options.Revision = None
    trust_remote_code: options.TrustRemoteCode = False


@command(app, (), ())
def explain(
    checkpoint: Annotated[
        str | None,
        typer.Argument(help="A run directory, a folder or a Hub id; none with --corpus.", show_default=False),
    ] = None,
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="A text.", show_default=False)] = None,
    text_b: Annotated[
        str | None, typer.Argument(metavar="TEXT_B", help="The second text of a pair.", show_default=False)
    ] = None,
    *,
    wanted: Wanted,
    json: options.AsJson = False,
) -> None:
    """Show the inside of a checkpoint on a text. You see its pieces, its attention, what it predicts and why."""
    shown = bertkit.explain(checkpoint, text, text_b, **vars(wanted))
    page = {} if wanted.output is None else {"output": str(wanted.output)}
    print_result({**shown.record(), **page}, [*shown.lines(), *page.values()], json)
