"""``bertkit tokenizer train``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bertkit.cli import options

app = typer.Typer(help="Make a WordPiece vocabulary.", no_args_is_help=True, rich_markup_mode=None)

Corpus = Annotated[
    list[Path], typer.Option("--corpus", help="Text files or folders. Repeatable.", metavar="PATH", show_default=False)
]


@app.callback()
def _tokenizer() -> None:
    pass


@app.command()
def train(
    corpus: Corpus,
    vocab_size: Annotated[int, typer.Option(help="Pieces in the vocabulary, specials included.", show_default=False)],
    output_dir: options.OutputDir,
    more: options.MorePaths = None,
    cased: Annotated[bool, typer.Option("--cased", help="Keep upper case and accents.")] = False,
) -> None:
    """Train a WordPiece tokenizer on plain text."""
    from bertkit.training.tokenizer import train_tokenizer_on

    tokenizer = train_tokenizer_on([*corpus, *(more or [])], vocab_size, output_dir, cased=cased)
    print(f"{len(tokenizer)} pieces: {output_dir}")
