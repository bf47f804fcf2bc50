"""``bertkit fill-mask``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.printing import print_text
from bertkit.json_text import dumps


def fill_mask(
    checkpoint: options.Checkpoint,
    texts: Annotated[
        list[str],
        typer.Argument(metavar="TEXT...", help="Texts with [MASK] where words are missing.", show_default=False),
    ],
    top_k: Annotated[int, typer.Option(help="Number of predictions per mask.")] = 5,
    revision: options.Revision = None,
    trust_remote_code: options.TrustRemoteCode = False,
    json: options.AsJson = False,
) -> None:
    """Predict the tokens at [MASK] with a masked language model: probability, token, and the text with it."""
    found = bertkit.load(checkpoint, revision=revision, trust_remote_code=trust_remote_code).fill_mask(
        texts, top_k=top_k
    )
    if json:
        print_text(dumps([[[asdict(guess) for guess in mask] for mask in text] for text in found], ensure_ascii=False))
        return
    for guess in (guess for text in found for mask in text for guess in mask):
        print_text(f"{guess.probability:.4f}\t{guess.token}\t{guess.text}")
