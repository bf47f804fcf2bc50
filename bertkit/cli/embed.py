"""``bertkit embed``."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import Annotated, Literal

import typer

import bertkit
from bertkit.cli import options
from bertkit.errors import RecipeError


def embed(
    checkpoint: options.Checkpoint,
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
    text_column: Annotated[
        str | None, typer.Option(help="The column of the texts in a table; text by default.", show_default=False)
    ] = None,
    pooling: Annotated[
        Literal["cls", "mean", "max", "none"], typer.Option(help="Of a text's tokens; none: a vector a token.")
    ] = "mean",
    layers: Annotated[str, typer.Option(help="Joined end to end; -1 is the last, 0 the embeddings.")] = "-1",
    max_seq_length: Annotated[
        int | None, typer.Option(help="Tokens of one window with specials.", show_default=False)
    ] = None,
    stride: Annotated[
        int | None,
        typer.Option(help="Tokens that neighbouring windows share; by default a quarter.", show_default=False),
    ] = None,
    json: options.AsJson = False,
) -> None:
    """Vectors of texts, or of their tokens, from any encoder; long texts are read in windows."""
    count, size = bertkit.embed(
        checkpoint,
        output_file,
        texts,
        input_file,
        text_column,
        pooling,
        numbers(layers, "--layers"),
        max_seq_length,
        stride,
    )
    if json:
        print(dumps({"texts": count, "size": size, "output": str(output_file)}))
    else:
        number = "1 text" if count == 1 else f"{count} texts"
        print(f"{number}, {size} numbers {'a token' if pooling == 'none' else 'each'}: {output_file}")


def numbers(given: str, flag: str) -> list[int]:
    """Parses whole numbers separated by commas, such as ``-1,-2``.

    Raises:
        RecipeError: an entry is not a whole number.
    """
    try:
        return [int(each) for each in given.split(",")]
    except ValueError as error:
        raise RecipeError(f"{flag} {given}: expected whole numbers with commas between them, such as -1,-2") from error
