"""``bertkit predict``."""

from __future__ import annotations

import sys
from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from bertkit.cli import options


def predict(
    checkpoint: Annotated[str, typer.Argument(help="A run directory or a Hub id.", show_default=False)],
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT]...", help="Texts to predict.", show_default=False)
    ] = None,
    input_file: Annotated[
        Path | None, typer.Option("--input", help="A file of texts, one a line; - is stdin.", show_default=False)
    ] = None,
    output_file: Annotated[
        Path | None, typer.Option("--output", help="A new JSONL file, one prediction a line.", show_default=False)
    ] = None,
    json: options.AsJson = False,
) -> None:
    """Predict with a fine-tuned checkpoint; the task is read from it."""
    from bertkit.inference.files import predict_texts, write_jsonl

    rows, predictor = predict_texts(checkpoint, texts, input_file, output_file)
    if output_file is not None:
        write_jsonl(output_file, rows)
        print(f"{len(rows)} predictions: {output_file}", file=sys.stderr)
    if json:
        print(dumps({"predictions": rows}, ensure_ascii=False))
    elif output_file is None:
        for row in rows:
            print(f"{predictor.task.line(row)}\t{row['text']}")
