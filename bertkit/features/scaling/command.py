"""Options of commands over folders of files, and the output of these commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bertkit.cli import options
from bertkit.cli.printing import print_result
from bertkit.runtime.errors import RecipeError
from bertkit.runtime.progress import counted

if TYPE_CHECKING:
    from bertkit.features.scaling.folders import FolderResult


_PANEL = "Folders of files"


@dataclass(frozen=True, kw_only=True)
class Folder:
    """Options of a command over a folder of files; `bertkit.cli.commands.command` turns the fields into options."""

    output_dir: Annotated[
        str | None,
        options.option(
            metavar="DIR",
            help="Write a folder of files, for --input of a folder, a pattern or a URL; the same one continues.",
            panel=_PANEL,
        ),
    ] = None
    output_format: Annotated[
        Literal["jsonl", "parquet"] | None,
        options.option(help="Format of the files of results; jsonl by default, parquet for vectors.", panel=_PANEL),
    ] = None
    on_error: Annotated[
        Literal["stop", "skip"] | None,
        options.option(
            help="For a row that cannot be read: stop (the default), or skip it with its reason in rejected/ or shown.",
            panel=_PANEL,
        ),
    ] = None
    engine: Annotated[
        Literal["local", "ray"] | None, options.option(help="Who computes; local by default.", panel=_PANEL, rare=True)
    ] = None
    ray_address: Annotated[
        str | None,
        options.option(
            help="A running Ray cluster; by default RAY_ADDRESS, or one of this machine.", panel=_PANEL, rare=True
        ),
    ] = None
    workers: Annotated[
        int | None,
        options.option(
            help="Processes, or workers of Ray; by default one per GPU, or per core where there is none.",
            panel=_PANEL,
            rare=True,
        ),
    ] = None
    num_processes: Annotated[
        int | None, options.option(help="The earlier name of --workers.", panel=_PANEL, rare=True)
    ] = None
    part: Annotated[
        str | None,
        options.option(
            metavar="I/N", help="Do the I-th of N shares of the work only; others do the rest.", panel=_PANEL, rare=True
        ),
    ] = None
    threads: Annotated[
        int | None,
        options.option(
            help="Threads of each worker on a CPU, 1 by default; last digits depend on it.", panel=_PANEL, rare=True
        ),
    ] = None
    per_line: Annotated[
        bool | None,
        typer.Option("--per-line", help="Each line of the .txt files of a folder is a text.", rich_help_panel=_PANEL),
    ] = None
    shard_rows: Annotated[
        int | None, options.option(help="Rows of a file of results, 8192 by default.", panel=_PANEL, rare=True)
    ] = None

    def arguments(self, input: str | None) -> dict[str, Any]:
        """Returns the arguments that `predict_folder` and `embed_folder` share, from the options given.

        Raises:
            RecipeError: ``--input`` is missing or stdin, or two options exclude each other.
        """
        from bertkit.runtime.placement.processes import Workers

        if input is None or input == "-":
            raise RecipeError("--output-dir: give a folder, a pattern or a URL of files with --input")
        options = {name: value for name, value in vars(self).items() if value is not None}
        options["per_line"] = bool(self.per_line)
        if self.workers is not None and self.num_processes is not None:
            raise RecipeError("--num-processes: is the earlier name of --workers; give one of them")
        options["number"] = options.pop("num_processes", options.pop("workers", None))
        who = {name: options.pop(name) for name in list(options) if name in Workers.__dataclass_fields__}
        return {"input": input, "workers": Workers(**who), **options}

    def check_unused(self, *also_for_files: str) -> None:
        """Checks that no option was given without ``--output-dir``, except for some fields.

        Raises:
            RecipeError: one was given.
        """
        refuse(
            {"--" + name.replace("_", "-"): value for name, value in vars(self).items() if name not in also_for_files},
            "is for --output-dir DIR; give it, or remove this",
        )


def refuse(given: Mapping[str, Any], why: str) -> None:
    """Checks that none of some options was given: each is None, False or empty; RecipeError if one was given.

    Args:
        given: name of the option → its value.
        why: end of the message.
    """
    for name, value in given.items():
        if value not in (None, False, []):
            raise RecipeError(f"{name}: {why}")


def print_folder(result: FolderResult, as_json: bool) -> None:
    """Prints what was written."""
    rejected = f", {result.rejected} rejected" if result.rejected else ""
    again = result.shards - result.computed
    kept = f", {again} of them finished before" if again else ""
    line = f"{counted(result.rows, 'row')}{rejected} in {counted(result.shards, 'shard')}{kept}: {result.output_dir}"
    print_result(result, [line], as_json)
