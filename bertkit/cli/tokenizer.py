"""``bertkit tokenizer train``."""

from __future__ import annotations

from typing import Annotated

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.commands import command
from bertkit.cli.settings import Settings

app = typer.Typer(help="Make a WordPiece vocabulary.", no_args_is_help=True)


@app.callback()
def _tokenizer() -> None:
    pass


@command(
    app,
    "pretraining",
    (
        "data.cased",
        "data.merge_score",
        "data.min_pair_frequency",
        "data.text_column",
        "data.dataset_config",
        "data.dataset_split",
        "data.streaming",
    ),
)
def train(
    corpus: Annotated[
        list[str], typer.Option("--corpus", help=options.CORPUS_HELP, metavar="PATH_OR_HUB_ID", show_default=False)
    ],
    vocab_size: Annotated[int, typer.Option(help="Pieces in the vocabulary, specials included.", show_default=False)],
    output_dir: options.OutputDir,
    settings: Settings,
    more: options.MorePaths = None,
) -> None:
    """Train a WordPiece tokenizer on text."""
    tokenizer = bertkit.train_tokenizer([*corpus, *(more or [])], vocab_size, output_dir, **settings.block("data"))
    print(f"{len(tokenizer)} pieces: {output_dir}")
