"""``bertkit tokenizer extend`` and ``swap``: other words for a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.commands import Settings, command
from bertkit.cli.groups import new_app
from bertkit.cli.printing import print_result

NewCheckpoint = Annotated[
    Path, options.option("--output-dir", help="Folder of the new checkpoint; new or empty.", panel=options.OUTPUT)
]
app = new_app()

_OF_EXTENSIONS = ("data.text_column", "data.dataset_config", "data.dataset_split", "data.streaming")


@command(app, "pretraining", _OF_EXTENSIONS, name="tokenizer extend")
def extend(
    model: options.Checkpoint,
    corpus: options.Corpus,
    output_dir: NewCheckpoint,
    settings: Settings,
    more: options.MorePaths = None,
    add: Annotated[int, typer.Option(help="Maximum number of new pieces.", min=1)] = 2000,
    min_frequency: Annotated[int, typer.Option(help="Minimum number of uses of a new piece in the text.", min=1)] = 5,
    revision: options.Revision = None,
    json: options.AsJson = False,
) -> None:
    """Add the words of a text to a checkpoint."""
    extension = bertkit.extend_tokenizer(
        model,
        [*(corpus or []), *(more or [])],
        output_dir,
        add=add,
        min_frequency=min_frequency,
        revision=revision,
        **settings.block("data"),
    )
    print_result(extension.record(), extension.lines(), json)


@app.command("tokenizer swap")
def swap(
    model: options.Checkpoint,
    tokenizer: Annotated[
        str, options.option(help="The new tokenizer: folder or Hub id, such as one of bertkit tokenizer train.")
    ],
    output_dir: NewCheckpoint,
    corpus: Annotated[
        list[str] | None,
        options.option(help="Text that both tokenizers split, to compare them. Repeatable.", metavar="PATH_OR_HUB_ID"),
    ] = None,
    more: options.MorePaths = None,
    revision: options.Revision = None,
    json: options.AsJson = False,
) -> None:
    """Give a checkpoint another tokenizer. It may be that of another language."""
    result = bertkit.swap_tokenizer(
        model, tokenizer, output_dir, corpus=[*(corpus or []), *(more or [])], revision=revision
    )
    print_result(result.record(), result.lines(), json)
