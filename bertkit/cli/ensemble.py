"""``bertkit ensemble``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import bertkit
from bertkit.cli import completion, options
from bertkit.cli.printing import print_text
from bertkit.json_text import dumps


def ensemble(
    grid: Annotated[
        Path, typer.Argument(help="Output folder of a grid.", show_default=False, autocompletion=completion.runs)
    ],
    *,
    output_dir: Annotated[Path, typer.Option(help="The new checkpoint.", show_default=False)],
    json: options.AsJson = False,
) -> None:
    """Average the runs of the best setting of a grid in one checkpoint, for predict and evaluate."""
    made = bertkit.ensemble(grid, output_dir=output_dir)
    if json:
        print_text(dumps(asdict(made), default=str))
        return
    for name, score in zip(made.members, made.scores, strict=True):
        print_text(f"{made.metric} {score:.4f}  {name}")
    if made.score is not None:
        print_text(f"{made.metric} {made.score:.4f}  the ensemble")
    print_text(f"checkpoint: {made.output_dir}")
