"""``bertkit embed``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.features import Options
from bertkit.cli.printing import print_result
from bertkit.cli.texts import OnError, Texts
from bertkit.runtime.errors import RecipeError
from bertkit.runtime.progress import counted


def embed(
    checkpoint: options.Checkpoint,
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="Texts to embed.", show_default=False)
    ] = None,
    *,
    output_file: Annotated[
        Path | None, options.option("--output", help="A new file: .npz, .parquet or .jsonl.")
    ] = None,
    input_file: Annotated[
        str | None, options.option("--input", metavar="PATH", help="Texts, one per line, or a table; - is stdin.")
    ] = None,
    text_column: Annotated[str | None, options.option(help="Text column of a table; text by default.")] = None,
    pooling: Annotated[
        Literal["cls", "mean", "max", "none"] | None,
        typer.Option(
            help="Pooling of the tokens of a text; none: one vector per token. By default that which the checkpoint "
            "records for sentence-transformers, else the mean."
        ),
    ] = None,
    layers: Annotated[str, typer.Option(help="Layers to concatenate; -1 is the last, 0 the embeddings.")] = "-1",
    max_seq_length: Annotated[
        int | None, options.option(help="Maximum number of tokens of a window, special tokens included.")
    ] = None,
    stride: Annotated[
        int | None, options.option(help="Tokens that neighbouring windows share; by default a quarter of a window.")
    ] = None,
    per_file: options.PerFile = False,
    on_error: OnError = None,
    of_features: Annotated[Options, "texts"],
    precision: options.Precision = "auto",
    revision: options.Revision = None,
    trust_remote_code: options.TrustRemoteCode = False,
    json: options.AsJson = False,
) -> None:
    """Compute vectors of texts, or of their tokens. Any encoder will do; long texts are read in windows."""
    how: dict[str, Any] = {
        "text_column": text_column,
        "pooling": pooling,
        "layers": numbers(layers, "--layers"),
        "max_seq_length": max_seq_length,
        "stride": stride,
        "precision": precision,
        "revision": revision,
    }
    others = {
        "TEXT": texts,
        "--output": output_file,
        "--trust-remote-code": trust_remote_code,
        "--per-file": per_file,
    }
    command = Texts(
        name="embed",
        checkpoint=checkpoint,
        input=input_file,
        how=how,
        others=others,
        on_error=on_error,
        json=json,
    )
    if of_features.start(command):
        return
    if output_file is None:
        raise RecipeError("give --output FILE, or --output-dir DIR for a folder of files")
    count, size = bertkit.embed(
        checkpoint,
        output_file,
        texts or None,  # no argument is an empty list
        None if input_file is None else Path(input_file),
        trust_remote_code=trust_remote_code,
        per_file=per_file,
        on_error=on_error or "stop",
        **how,
    )
    line = f"{counted(count, 'text')}, {size} numbers {'per token' if pooling == 'none' else 'each'}: {output_file}"
    print_result({"texts": count, "size": size, "output": str(output_file)}, [line], json)


def numbers(text: str, flag: str, example: str = "-1,-2") -> list[int]:
    """Parses whole numbers separated by commas, such as ``-1,-2``; RecipeError if an entry is not a whole number."""
    try:
        return [int(each) for each in text.split(",")]
    except ValueError as error:
        raise RecipeError(f"{flag} {text}: expected whole numbers separated by commas, such as {example}") from error
