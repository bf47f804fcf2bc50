"""Options of several commands that do not set a recipe value, and completion of values in the shell.

For options that set a recipe value see `bertkit.cli.commands`. The functions of the completion get the incomplete word
and return the values that begin with it. They run at every press of the tab key, so they read names and small files
only. Without a value, the shell completes names of files.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from bertkit.recipe.files import GLUE, SCHEMA_FILE, list_recipes, recipe_folder, recipes_in
from bertkit.runtime.errors import RecipeError
from bertkit.runtime.placement import inference

_KINDS = {"multiple-choice": "multiple_choice", "pretrain": "pretraining", "squad": "question_answering"}


def complete_recipes(incomplete: str) -> list[str]:
    """Completes the name of a recipe."""
    return [name for name in list_recipes() if name.startswith(incomplete)]


def complete_glue_tasks(incomplete: str) -> list[str]:
    """Completes the last of the GLUE tasks in a list with commas."""
    before, comma, last = incomplete.rpartition(",")
    more = [] if comma else ["all"]
    earlier = before.split(",")
    return [
        before + comma + name for name in [*recipes_in(GLUE), *more] if name.startswith(last) and name not in earlier
    ]


def complete_placements(incomplete: str) -> list[str]:
    """Completes the name of a placement."""
    return [name for name in recipes_in("placement/") if name.startswith(incomplete)]


def complete_keys(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Completes a recipe key, with an equals sign and its description.

    The keys are those of the task that the command is named after, or of all tasks, as for ``distill``.
    """
    name = ctx.info_name or ""
    kind = _KINDS.get(name, name)
    descriptions: dict[str, str] = {}
    definitions = json.loads((recipe_folder() / SCHEMA_FILE).read_text(encoding="utf-8"))["definitions"]
    for definition, block in definitions.items():
        of_block, _, of_kind = definition.partition("_")
        is_of_task = of_block not in ("task", "data") or of_kind == kind or f"task_{kind}" not in definitions
        is_of_model = of_block != "model" or of_kind == f"of_{'pretraining' if kind == 'pretraining' else 'finetuning'}"
        if is_of_task and is_of_model:
            for key, value in block["properties"].items():
                descriptions[f"{of_block}.{key}="] = value.get("description", "")
    descriptions.pop("task.kind=", None)
    return [(key, text) for key, text in sorted(descriptions.items()) if key.startswith(incomplete)]


def option(
    *flags: str,
    help: str,
    panel: str | None = None,
    metavar: str | None = None,
    complete: Callable[..., Any] | None = None,
    rare: bool = False,
    **others: Any,
) -> Any:
    """Returns an option whose help does not show its default.

    Args:
        flags: names of the option; by default that of the parameter. A bool without them also has ``--no-NAME``.
        help, metavar: as of `typer.Option`.
        panel: panel of the option in ``--help``.
        complete: function that completes a value in the shell.
        rare: the option is shown by ``--help-all`` only.
        others: further arguments of `typer.Option`.
    """
    return typer.Option(
        *flags,
        help=help,
        rich_help_panel=panel,
        metavar=metavar,
        autocompletion=complete,
        show_default=False,
        hidden=rare,
        **others,
    )


def check_one_form(as_json: bool, format: str) -> None:
    """Checks that ``--json`` and ``--format`` do not both say how results are printed; RecipeError if they do."""
    if as_json and format != "text":
        raise RecipeError(f"--json and --format {format}: results have one form; give only one of them")


DATA, MODEL, TRAINING, GRIDS, OUTPUT = "Data", "Model", "Training", "Grids", "Output"
FOLDERS = "Folders of files"
"""Panels of options in the help; `bertkit.cli.commands` has the order of those of a training."""

CORPUS_HELP = "Text: files (.txt, .jsonl, .parquet, also .gz, .zst), folders, patterns, Hub ids. Repeatable."
Checkpoint = Annotated[
    str,
    typer.Argument(help="A run directory, a folder or a Hub id.", show_default=False),
]
Corpus = Annotated[
    list[str] | None,
    option("--corpus", help=CORPUS_HELP, metavar="PATH_OR_HUB_ID", panel=DATA),
]
OutputDir = Annotated[
    Path,
    option("--output-dir", help="The run directory; new or empty.", panel=OUTPUT),
]
MorePaths = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PATH",
        help="More paths of the corpus: --corpus a.txt b.txt, --corpus texts/*.txt.",
        show_default=False,
    ),
]
TextColumns = Annotated[
    list[str] | None,
    option(help="Text column of a table; twice for a pair. By default as in training, or a usual name."),
]
PerFile = Annotated[
    bool,
    typer.Option("--per-file", help="Each file of the folder of --input is a text: .txt, .md, .html or .eml."),
]
Precision = Annotated[
    inference.Precision,
    typer.Option("--precision", help="auto: float32 on CPUs, fp16 on GPUs."),
]
Device = Annotated[Literal["auto", "cpu"], typer.Option("--device", help="Device that computes.")]
Host = Annotated[str, typer.Option("--host", help="Address to listen on; the default is for this machine only.")]
Port = Annotated[int, typer.Option("--port", help="Port to listen on; 0 takes a free one.")]
AllowedHost = Annotated[
    list[str] | None,
    option(
        "--allowed-host",
        help="Another host name that requests may use, *.NAME for those below it, * for all; repeatable.",
    ),
]
Revision = Annotated[str | None, option("--revision", help="Branch, tag or commit of a Hub id.")]
TrustRemoteCode = Annotated[bool, typer.Option("--trust-remote-code", help="Run the code that the checkpoint brings.")]
PlacementFile = Annotated[
    str | None,
    option(
        "--placement",
        help="Where to run: auto, cpu, single_gpu, ddp, fsdp, tpu, or your own file.",
        panel=TRAINING,
        rare=True,
        complete=complete_placements,
    ),
]
SetValues = Annotated[
    list[str] | None,
    option("--set", help="Any recipe value: block.key=value. Repeatable.", metavar="KEY=VALUE", complete=complete_keys),
]
AS_JSON = "Print the result as JSON, and nothing else."
AsJson = Annotated[bool, typer.Option("--json", help=AS_JSON)]
AS_TABLE = "Form of the table: latex and markdown for papers and pages, csv with all digits for sheets."
TableFormat = Literal["text", "latex", "markdown", "csv"]
AsTable = Annotated[TableFormat, typer.Option("--format", help=AS_TABLE)]
AddressAsJson = Annotated[
    bool, typer.Option("--json", help="Print the address as one JSON object when connections are accepted.")
]
