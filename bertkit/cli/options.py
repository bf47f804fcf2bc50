"""Options of several commands that do not set a recipe value; for those that do see `bertkit.cli.settings`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

CORPUS_HELP = "Text: files (.txt, .jsonl, .parquet, also .gz, .zst), folders, patterns, Hub ids. Repeatable."
Checkpoint = Annotated[str, typer.Argument(help="A run directory, a folder or a Hub id.", show_default=False)]
OutputDir = Annotated[Path, typer.Option("--output-dir", help="The run directory; new or empty.", show_default=False)]
MorePaths = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[PATH]...",
        help="More paths of the corpus: --corpus a.txt b.txt, --corpus texts/*.txt.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print exactly one JSON object.")]
# Settings that `tokenizer train` and `pretrain` share: of the text and of a vocabulary learned from it.
VOCABULARY_AND_TEXT = (
    "data.cased",
    "data.merge_score",
    "data.min_pair_frequency",
    "data.text_column",
    "data.dataset_config",
    "data.dataset_split",
    "data.streaming",
)
