"""Options of several commands that do not set a recipe value; for those that do see `bertkit.cli.commands`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from bertkit.cli import completion

CORPUS_HELP = "Text: files (.txt, .jsonl, .parquet, also .gz, .zst), folders, patterns, Hub ids. Repeatable."
Checkpoint = Annotated[
    str,
    typer.Argument(help="A run directory, a folder or a Hub id.", show_default=False, autocompletion=completion.runs),
]
OUTPUT = "Output"
"""Panel of the options about what a run writes, in the help."""
OutputDir = Annotated[
    Path,
    typer.Option("--output-dir", help="The run directory; new or empty.", show_default=False, rich_help_panel=OUTPUT),
]
MorePaths = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[PATH]...",
        help="More paths of the corpus: --corpus a.txt b.txt, --corpus texts/*.txt.",
        show_default=False,
    ),
]
Precision = Annotated[
    Literal["auto", "float32", "bf16", "fp16"],
    typer.Option("--precision", help="auto: float32 on CPUs, fp16 on GPUs."),
]
Device = Annotated[Literal["auto", "cpu"], typer.Option("--device", help="Device that computes.")]
Host = Annotated[str, typer.Option("--host", help="Address to listen on; the default is for this machine only.")]
Port = Annotated[int, typer.Option("--port", help="Port to listen on; 0 takes a free one.")]
AllowedHost = Annotated[
    list[str] | None,
    typer.Option(
        "--allowed-host",
        help="Another host name that requests may use, *.NAME for those below it, * for all; repeatable.",
        show_default=False,
    ),
]
Revision = Annotated[
    str | None, typer.Option("--revision", help="Branch, tag or commit of a Hub id.", show_default=False)
]
TrustRemoteCode = Annotated[bool, typer.Option("--trust-remote-code", help="Run the code that the checkpoint brings.")]
PlacementFile = Annotated[
    str | None,
    typer.Option(
        "--placement",
        help="Where to run: auto, cpu, single_gpu, ddp, fsdp, tpu, or your own file.",
        rich_help_panel="Placement",
        show_default=False,
        autocompletion=completion.placements,
    ),
]
SetValues = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Any recipe value: block.key=value. Repeatable.",
        metavar="KEY=VALUE",
        show_default=False,
        autocompletion=completion.keys,
    ),
]
AS_JSON = "Print the result as JSON, and nothing else."
AsJson = Annotated[bool, typer.Option("--json", help=AS_JSON)]
AddressAsJson = Annotated[
    bool, typer.Option("--json", help="Print the address as one JSON object when connections are accepted.")
]
