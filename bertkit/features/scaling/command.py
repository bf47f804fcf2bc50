"""Options of ``bertkit predict`` and ``embed`` for folders of files, and the output of these commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.groups import OptionsOfFeature
from bertkit.cli.printing import print_result
from bertkit.cli.texts import Texts
from bertkit.runtime.errors import RecipeError
from bertkit.runtime.progress import counted


@dataclass(frozen=True, kw_only=True)
class Folder(OptionsOfFeature):
    """Options of a command over a folder of files; `bertkit.cli.commands.command` turns the fields into options."""

    output_dir: Annotated[
        str | None,
        options.option(
            metavar="DIR",
            help="Write a folder of files, for --input of a folder, a pattern or a URL; the same one continues.",
            panel=options.FOLDERS,
        ),
    ] = None
    output_format: Annotated[
        Literal["jsonl", "parquet"] | None,
        options.option(
            help="Format of the files of results; jsonl by default, parquet for vectors.", panel=options.FOLDERS
        ),
    ] = None
    engine: Annotated[
        Literal["local", "ray"] | None,
        options.option(help="Who computes; local by default.", panel=options.FOLDERS, rare=True),
    ] = None
    ray_address: Annotated[
        str | None,
        options.option(
            help="A running Ray cluster; by default RAY_ADDRESS, or one of this machine.",
            panel=options.FOLDERS,
            rare=True,
        ),
    ] = None
    workers: Annotated[
        int | None,
        options.option(
            help="Processes, or workers of Ray; by default one per GPU, or per core where there is none.",
            panel=options.FOLDERS,
            rare=True,
        ),
    ] = None
    num_processes: Annotated[
        int | None, options.option(help="The earlier name of --workers.", panel=options.FOLDERS, rare=True)
    ] = None
    part: Annotated[
        str | None,
        options.option(
            metavar="I/N",
            help="Do the I-th of N shares of the work only; others do the rest.",
            panel=options.FOLDERS,
            rare=True,
        ),
    ] = None
    threads: Annotated[
        int | None,
        options.option(
            help="Threads of each worker on a CPU, 1 by default; last digits depend on it.",
            panel=options.FOLDERS,
            rare=True,
        ),
    ] = None
    per_line: Annotated[
        bool | None,
        typer.Option(
            "--per-line", help="Each line of the .txt files of a folder is a text.", rich_help_panel=options.FOLDERS
        ),
    ] = None
    shard_rows: Annotated[
        int | None,
        options.option(
            help="Rows of a file of results: 8192 by default, 256 for vectors of tokens.",
            panel=options.FOLDERS,
            rare=True,
        ),
    ] = None

    def start(self, command: Texts) -> bool:
        """Computes a folder of results if ``--output-dir`` is given.

        Raises:
            RecipeError: it is given with options for one file, or others without it, or it is missing.
        """
        if self.output_dir is None:
            given = {f"--{name.replace('_', '-')}": value for name, value in vars(self).items()}
            _refuse(given, "is for --output-dir DIR; give it, or remove this")
            if command.input and Path(command.input).is_dir() and not command.others["--per-file"]:
                raise RecipeError(
                    f"--input {command.input}: is a folder; give --per-file if each of its files is one text, or "
                    "--output-dir DIR for a folder of results if its files are tables or have a text a line"
                )
            if command.name == "embed" and command.others["--output"] is None:
                raise RecipeError("give --output FILE, or --output-dir DIR for a folder of files")
            return False
        _refuse(command.others, "is not for --output-dir; remove it")
        function = bertkit.predict_folder if command.name == "predict" else bertkit.embed_folder
        result = function(command.checkpoint, **command.how, **self.arguments_for(command))
        rejected = f", {result.rejected} rejected" if result.rejected else ""
        again = result.shards - result.computed
        kept = f", {again} of them finished before" if again else ""
        shards = f"{counted(result.shards, 'shard')}{kept}: {result.output_dir}"
        print_result(result, [f"{counted(result.rows, 'row')}{rejected} in {shards}"], command.json)
        return True

    def arguments_for(self, command: Texts) -> dict[str, Any]:
        """Returns the arguments that `predict_folder` and `embed_folder` share, from the options given.

        Raises:
            RecipeError: ``--input`` is missing or stdin, or two options exclude each other.
        """
        from bertkit.runtime.placement.processes import Workers

        if command.input is None or command.input == "-":
            raise RecipeError("--output-dir: give a folder, a pattern or a URL of files with --input")
        given = {name: value for name, value in vars(self).items() if value is not None}
        if command.on_error is not None:
            given["on_error"] = command.on_error
        given["per_line"] = bool(self.per_line)
        if self.workers is not None and self.num_processes is not None:
            raise RecipeError("--num-processes: is the earlier name of --workers; give one of them")
        given["number"] = given.pop("num_processes", given.pop("workers", None))
        who = {name: given.pop(name) for name in list(given) if name in Workers.__dataclass_fields__}
        return {"input": command.input, "workers": Workers(**who), **given}


def _refuse(given: Mapping[str, Any], why: str) -> None:
    """Checks that no option was given: each is None, False or an empty list; RecipeError if one was given.

    Args:
        given: name of the option → its value.
        why: end of the message.
    """
    for name, value in given.items():
        if value is not None and value is not False and value != []:  # 0 was given
            raise RecipeError(f"{name}: {why}")
