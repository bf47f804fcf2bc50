"""``bertkit reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.commands import OF_EVERY_RUN, Settings, command
from bertkit.cli.groups import new_app
from bertkit.cli.printing import print_result
from bertkit.cli.training import overrides

app = new_app()

_KEYS = [key for key in OF_EVERY_RUN if key != "placement.num_processes"]  # a grid trains each run in one process


@command(app, "classification", _KEYS)
def reproduce(
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="table-1 (GLUE), table-2 (SQuAD 1.1), table-3 (SQuAD 2.0), table-4 (SWAG), table-5 (pre-training "
            "tasks), table-6 (sizes) or table-7 (named entities).",
            show_default=False,
        ),
    ],
    *,
    model: Annotated[list[str], options.option(help="Checkpoint to fine-tune: a folder or a Hub id. Repeatable.")],
    data_dir: Annotated[
        Path | None,
        options.option(help="Folder with glue/, squad/, swag/ and conll2003/; without it, data from the Hub."),
    ] = None,
    tasks: Annotated[
        str | None, options.option(help="Tasks of the table, separated by commas, such as rte,mrpc.")
    ] = None,
    grid: Annotated[
        list[str] | None,
        options.option(
            help="Values to try for each task, as in bertkit finetune: KEY=VALUE,VALUE, or paper. Repeatable.",
            metavar="KEY=VALUES",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Fine-tunings of each checkpoint on each task.")] = 3,
    output_dir: Annotated[Path, options.option(help="Folder of all runs and the tables.")],
    settings: Settings,
    placement: options.PlacementFile = None,
    set_: options.SetValues = None,
    format: options.AsTable = "text",
    json: options.AsJson = False,
) -> None:
    """Make a table of the BERT paper again, beside its scores."""
    from bertkit.features.reproducing.scores import reproduction_table

    options.check_one_form(json, format)
    results = bertkit.reproduce(
        table,
        model=model,
        output_dir=output_dir,
        data_dir=data_dir,
        tasks=None if tasks is None else tasks.split(","),
        grid=grid or (),
        seeds=seeds,
        overrides=overrides(settings, set_, placement),
    )
    print_result(results, [reproduction_table(results, format=format)], json, format)
    if results.failed:
        raise typer.Exit(1)
