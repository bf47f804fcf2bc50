"""``bertkit tokenizer train``."""

from __future__ import annotations

from typing import Annotated

import typer

from bertkit.cli import options

app = typer.Typer(help="Make a WordPiece vocabulary.", no_args_is_help=True, rich_markup_mode=None)

Corpus = Annotated[
    list[str], typer.Option("--corpus", help=options.CORPUS_HELP, metavar="PATH_OR_HUB_ID", show_default=False)
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
    cased: options.Cased = False,
    merge_score: options.MergeScore = None,
    min_pair_frequency: options.MinPairFrequency = None,
    text_column: options.TextColumn = None,
    dataset_config: options.DatasetConfig = None,
    dataset_split: options.DatasetSplit = None,
    streaming: options.Streaming = False,
) -> None:
    """Train a WordPiece tokenizer on text."""
    from bertkit.training.tokenizer import train_tokenizer_on

    tokenizer = train_tokenizer_on(
        [*corpus, *(more or [])],
        vocab_size,
        output_dir,
        cased=cased,
        merge_score=merge_score or "frequency",
        min_pair_frequency=min_pair_frequency,
        text_column=text_column or "text",
        dataset_config=dataset_config,
        dataset_split=dataset_split or "train",
        streaming=streaming,
    )
    print(f"{len(tokenizer)} pieces: {output_dir}")
