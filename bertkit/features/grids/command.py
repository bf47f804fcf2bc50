"""``bertkit compare``, ``bertkit ensemble`` and ``bertkit ablations``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.commands import Settings
from bertkit.cli.finetune import glue_tasks
from bertkit.cli.printing import print_result
from bertkit.cli.training import overrides


def compare(
    systems: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN",
            help="Run directories, grids, or tables with the columns prediction and gold.",
            show_default=False,
        ),
    ],
    metric: Annotated[
        str | None, options.option(help="Metric to compare; the main one of the task by default.")
    ] = None,
    format: options.AsTable = "text",
    json: options.AsJson = False,
) -> None:
    """Test whether runs, grids or predictions really differ."""
    from bertkit.features.grids.table import comparison_table

    options.check_one_form(json, format)
    results = bertkit.compare(*systems, metric=metric)
    print_result(results, [comparison_table(results, format)], json, format)


def ensemble(
    grid: Annotated[Path, typer.Argument(help="Output folder of a grid.", show_default=False)],
    *,
    output_dir: Annotated[Path, options.option(help="The new checkpoint.")],
    json: options.AsJson = False,
) -> None:
    """Average the runs of the best setting of a grid. The result is one checkpoint, for predict and evaluate."""
    result = bertkit.ensemble(grid, output_dir=output_dir)
    scores = [*zip(result.members, result.scores, strict=True), ("the ensemble", result.score)]
    lines = [f"{result.metric} {score:.4f}  {name}" for name, score in scores if score is not None]
    print_result(result, [*lines, f"checkpoint: {result.output_dir}"], json)


OF_ONE_VARIANT = ("task.pair_objective", "data.whole_word_mask")
_FINE_TUNING = "Fine-tuning"


def ablations(
    *,
    corpus: options.Corpus = None,
    more: options.MorePaths = None,
    output_dir: Annotated[Path, options.option(help="Folder of all runs and the results.")],
    size: Annotated[str, typer.Option(help="Recipe whose size of model is taken: bert-mini, …")] = "bert-base",
    settings: Settings,
    placement: options.PlacementFile = None,
    set_: options.SetValues = None,
    data_dir: Annotated[Path, options.option(help="Folder with GLUE's data.", panel=_FINE_TUNING)],
    task: Annotated[
        str, typer.Option(help="GLUE tasks, separated by commas.", rich_help_panel=_FINE_TUNING)
    ] = "mnli,qnli,mrpc,sst2",
    seeds: Annotated[
        int, typer.Option(help="Fine-tunings of each variant on each task.", rich_help_panel=_FINE_TUNING)
    ] = 3,
    finetune_set: Annotated[
        list[str] | None,
        options.option(
            help="Any recipe value of fine-tuning: block.key=value. Repeatable.",
            metavar="KEY=VALUE",
            panel=_FINE_TUNING,
        ),
    ] = None,
    format: options.AsTable = "text",
    json: options.AsJson = False,
) -> None:
    """Compare BERT with BERT without NSP and left-to-right. All are pre-trained alike, and compared on GLUE (§5.1)."""
    from bertkit.features.grids.table import ablations_table

    options.check_one_form(json, format)
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
    print_result(results, [ablations_table(results, format=format)], json, format)
    if results.failed:
        raise typer.Exit(1)
