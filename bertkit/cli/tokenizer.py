"""``bertkit tokenizer train``."""

from __future__ import annotations

from typing import Annotated

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.commands import Settings, command
from bertkit.cli.printing import print_text
from bertkit.json_text import dumps

app = typer.Typer(help="Train a vocabulary.", no_args_is_help=True)


KEYS = (
    "data.tokenizer_type",
    "data.cased",
    "data.merge_score",
    "data.min_pair_frequency",
    "data.text_column",
    "data.dataset_config",
    "data.dataset_split",
    "data.streaming",
)


@app.callback()
def _tokenizer() -> None:
    pass


@command(app, "pretraining", KEYS)
def train(
    corpus: Annotated[
        list[str], typer.Option("--corpus", help=options.CORPUS_HELP, metavar="PATH_OR_HUB_ID", show_default=False)
    ],
    vocab_size: Annotated[
        int, typer.Option(help="Number of pieces in the vocabulary, special tokens included.", show_default=False)
    ],
    output_dir: options.OutputDir,
    settings: Settings,
    more: options.MorePaths = None,
    json: options.AsJson = False,
) -> None:
    """Train a tokenizer on text."""
    tokenizer = bertkit.train_tokenizer([*corpus, *(more or [])], vocab_size, output_dir, **settings.block("data"))
    found = {"output_dir": str(output_dir), "vocab_size": len(tokenizer)}
    print_text(dumps(found) if json else f"{len(tokenizer)} pieces: {output_dir}")
