"""``bertkit push``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal

import typer

import bertkit
from bertkit.cli import completion, options
from bertkit.cli.printing import print_text
from bertkit.json_text import dumps


def push(
    checkpoint: Annotated[
        str,
        typer.Argument(
            help="A run directory or a folder with a checkpoint.", show_default=False, autocompletion=completion.runs
        ),
    ],
    repo_id: Annotated[
        str, typer.Argument(metavar="REPO_ID", help="owner/name; created if it does not exist.", show_default=False)
    ],
    private: Annotated[
        bool, typer.Option("--private", help="Create a private repository; otherwise the Hub makes it public.")
    ] = False,
    revision: Annotated[
        str | None, typer.Option(help="Branch; created if it does not exist. Without it: main.", show_default=False)
    ] = None,
    as_: Annotated[
        Literal["bert", "bertkit"],
        typer.Option("--as", help="bert: for plain transformers; bertkit: with the code of its classes."),
    ] = "bert",
    license: Annotated[
        str | None, typer.Option(help="Licence for the model card, such as mit or apache-2.0.", show_default=False)
    ] = None,
    language: Annotated[
        list[str] | None, typer.Option(help="Language of the texts, such as en. Repeatable.", show_default=False)
    ] = None,
    no_report: Annotated[
        bool, typer.Option("--no-report", help="Leave out report.html, which shows texts of the validation set.")
    ] = False,
    space: Annotated[
        str | None,
        typer.Option(metavar="OWNER/NAME", help="Push a Space too, with the page of bertkit demo.", show_default=False),
    ] = None,
    json: options.AsJson = False,
) -> None:
    """Push a checkpoint to the Hub. The token is that of `hf auth login` or HF_TOKEN."""
    result = bertkit.push(
        checkpoint,
        repo_id,
        private=private,
        revision=revision,
        as_=as_,
        license=license,
        language=language or [],
        report=False if no_report else None,
        space=space,
    )
    print_text(dumps(asdict(result)) if json else result)
