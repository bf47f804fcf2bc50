"""``bertkit ablations``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.commands import Settings
from bertkit.cli.finetune import glue_tasks
from bertkit.cli.printing import print_text
from bertkit.cli.training import overrides
from bertkit.json_text import dumps

OF_ONE_VARIANT = ("task.pair_objective", "data.whole_word_mask")
_FINE_TUNING = "Fine-tuning"


def ablations(
    *,
    corpus: Annotated[
        list[str] | None,
        typer.Option("--corpus", help=options.CORPUS_HELP, metavar="PATH_OR_HUB_ID", show_default=False),
    ] = None,
    more: options.MorePaths = None,
    output_dir: Annotated[Path, typer.Option(help="Folder of all runs and the results.", show_default=False)],
    size: Annotated[str, typer.Option(help="Recipe whose size of model is taken: bert-mini, …")] = "bert-base",
    settings: Settings,
    placement: options.PlacementFile = None,
    set_: options.SetValues = None,
    data_dir: Annotated[
        Path, typer.Option(help="Folder with GLUE's data.", rich_help_panel=_FINE_TUNING, show_default=False)
    ],
    task: Annotated[
        str, typer.Option(help="GLUE tasks, separated by commas.", rich_help_panel=_FINE_TUNING)
    ] = "mnli,qnli,mrpc,sst2",
    seeds: Annotated[
        int, typer.Option(help="Fine-tunings of each variant on each task.", rich_help_panel=_FINE_TUNING)
    ] = 3,
    finetune_set: Annotated[
        list[str] | None,
        typer.Option(
            help="Any recipe value of fine-tuning: block.key=value. Repeatable.",
            metavar="KEY=VALUE",
            rich_help_panel=_FINE_TUNING,
            show_default=False,
        ),
    ] = None,
    json: options.AsJson = False,
) -> None:
    """Pre-train BERT, BERT without NSP and a left-to-right model alike, and compare them on GLUE tasks (BERT §5.1)."""
    from bertkit.grids.table import ablations_table

    results = bertkit.ablations(
        [*(corpus or []), *(more or [])],
        data_dir=data_dir,
        output_dir=output_dir,
        size=size,
        tasks=glue_tasks(task, None),
        seeds=seeds,
        overrides=overrides(settings, set_, placement),
        finetuning=overrides({}, finetune_set, placement),
    )
    print_text(dumps(asdict(results), default=str) if json else ablations_table(results))
    if results.failed:
        raise typer.Exit(1)
