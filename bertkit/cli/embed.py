"""``bertkit embed``."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import Annotated, Literal

import typer

from bertkit.cli import options


def embed(
    checkpoint: Annotated[str, typer.Argument(help="A run directory, a folder or a Hub id.", show_default=False)],
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT]...", help="Texts to embed.", show_default=False)
    ] = None,
    *,
    output_file: Annotated[
        Path, typer.Option("--output", help="A new file: .npz, .parquet or .jsonl.", show_default=False)
    ],
    input_file: Annotated[
        Path | None, typer.Option("--input", help="Texts, one a line, or a table; - is stdin.", show_default=False)
    ] = None,
    text_column: options.TextColumn = None,
    pooling: Annotated[
        Literal["cls", "mean", "max", "none"], typer.Option(help="Of a text's tokens; none: a vector a token.")
    ] = "mean",
    layers: Annotated[str, typer.Option(help="Joined end to end; -1 is the last, 0 the embeddings.")] = "-1",
    max_seq_length: options.MaxSeqLength = None,
    stride: options.Stride = None,
    json: options.AsJson = False,
) -> None:
    """Vectors of texts, or of their tokens, from any encoder; long texts are read in windows."""
    from bertkit.inference.embedding_files import embed_texts

    count, size = embed_texts(
        checkpoint,
        output_file,
        texts,
        input_file,
        text_column,
        pooling,
        options.numbers(layers, "--layers"),
        max_seq_length,
        stride,
    )
    if json:
        print(dumps({"texts": count, "size": size, "output": str(output_file)}))
    else:
        number = "1 text" if count == 1 else f"{count} texts"
        print(f"{number}, {size} numbers {'a token' if pooling == 'none' else 'each'}: {output_file}")
