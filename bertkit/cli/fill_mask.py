"""``bertkit fill-mask``."""

from __future__ import annotations

from dataclasses import asdict
from json import dumps
from typing import Annotated

import typer

import bertkit
from bertkit.cli import options


def fill_mask(
    checkpoint: options.Checkpoint,
    texts: Annotated[
        list[str],
        typer.Argument(metavar="TEXT...", help="Texts with [MASK] where words are missing.", show_default=False),
    ],
    top_k: Annotated[int, typer.Option(help="Guesses for each mask.")] = 5,
    json: options.AsJson = False,
) -> None:
    """What a masked language model expects in place of [MASK]: probability, token, the text with it."""
    found = bertkit.load(checkpoint).fill_mask(texts, top_k=top_k)
    if json:
        print(dumps([[[asdict(guess) for guess in mask] for mask in text] for text in found], ensure_ascii=False))
        return
    for guess in (guess for text in found for mask in text for guess in mask):
        print(f"{guess.probability:.4f}\t{guess.token}\t{guess.text}")
