"""``bertkit negatives``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.printing import print_result


def negatives(
    pairs: Annotated[
        Path,
        typer.Argument(help="Table with a text and its positive, as for finetune.", show_default=False),
    ],
    out: Annotated[Path, typer.Argument(help="A new file: .csv or .jsonl.", show_default=False)],
    model: Annotated[
        str, options.option(help="Checkpoint whose vectors are compared, of bertkit or sentence-transformers.")
    ],
    number: Annotated[int, options.option(help="Negatives of each pair.", min=1)] = 3,
    margin: Annotated[
        float,
        options.option(
            help="A text is no negative if its cosine is above that of the positive less this share of it.", min=0
        ),
    ] = 0.05,
    text_column: Annotated[
        list[str] | None,
        options.option(help="Column of the text, then that of its positive; by default those with usual names."),
    ] = None,
    batch_size: Annotated[int, options.option(help="Texts that are encoded at once.", min=1)] = 32,
    json: options.AsJson = False,
) -> None:
    """Find near but wrong texts for similarity and reranking. They are negatives for finetune."""
    mined = bertkit.mine_negatives(
        pairs,
        out,
        model=model,
        number=number,
        margin=margin,
        text_columns=text_column or (),
        batch_size=batch_size,
    )
    print_result(mined, [f"{mined.path}: {mined.rows} of {mined.pairs} pairs with {number} negatives each"], json)
