"""``bertkit compare``, ``bertkit ensemble`` and ``bertkit ablations``; options that turn a fine-tuning into many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.commands import Settings, command
from bertkit.cli.finetune import glue_tasks
from bertkit.cli.groups import OptionsOfFeature, new_app
from bertkit.cli.printing import print_next, print_result
from bertkit.cli.training import Training, overrides
from bertkit.runtime.errors import RecipeError

app = new_app()

_AFTER_A_GRID = ("bertkit report {}", "bertkit predict {}/best --input FILE")


@dataclass(frozen=True, kw_only=True)
class Grid(OptionsOfFeature):
    """Options that turn one fine-tuning into many."""

    grid: Annotated[
        list[str] | None,
        options.option(
            help="Values to try in all combinations: KEY=VALUE,VALUE, or paper for the grid of the BERT paper. "
            "Repeatable.",
            metavar="KEY=VALUES",
            complete=options.complete_keys,
            panel=options.GRIDS,
        ),
    ] = None
    search: Annotated[
        list[str] | None,
        options.option(
            help="Range to sample from instead: KEY=LO..HI, KEY=LO..HI:log or KEY=VALUE,VALUE. Repeatable.",
            metavar="KEY=RANGE",
            complete=options.complete_keys,
            panel=options.GRIDS,
            rare=True,
        ),
    ] = None
    trials: Annotated[
        int | None, options.option(help="Settings that --search tries.", panel=options.GRIDS, rare=True)
    ] = None
    seeds: Annotated[
        int | None, options.option(help="Runs of each setting with different seeds.", panel=options.GRIDS)
    ] = None
    worker: Annotated[
        bool, options.option("--worker", help="Join the grid in --output-dir.", panel=options.GRIDS, rare=True)
    ] = False
    format: Annotated[
        options.TableFormat, options.option("--format", help=options.AS_TABLE, panel=options.GRIDS, rare=True)
    ] = "text"

    def many(self, command: Training) -> dict[str, Any] | None:
        """Returns the arguments of `bertkit.finetune_grid` other than recipe and folder; None for one run.

        Raises:
            RecipeError: an option is for one run, or two give the form of the results.
        """
        given = (self.grid, self.search, self.trials, self.seeds, command.folds)
        if all(value is None for value in given) and not self.worker:
            return None
        options.check_one_form(command.run.json, self.format)
        arguments = command.arguments
        if arguments.get("push_to_hub") is not None:
            raise RecipeError(
                "--push-to-hub: is for one run; push the best one with bertkit push OUTPUT_DIR/best REPO_ID"
            )
        # Repeating the command continues a grid, so --resume has no effect.
        return {
            "grid": self.grid or (),
            "search": self.search or (),
            "trials": self.trials,
            "seeds": 1 if self.seeds is None else self.seeds,
            "folds": command.folds,
            "worker": self.worker,
            "model": arguments["model"],
            "overrides": arguments["overrides"],
        }

    def start(self, command: Training) -> bool:
        """Trains a grid, or on several GLUE tasks."""
        run, many, is_one_task = command.run, command.many, len(command.names) == 1
        if many is None and is_one_task:
            if self.format != "text":
                raise RecipeError(f"--format {self.format}: is for the table of many runs; one run prints its scores")
            return False
        from bertkit.features.grids.glue import glue_grid_table, glue_table
        from bertkit.features.grids.table import grid_table

        if many is None:
            options.check_one_form(run.json, self.format)
            # Repeating the command continues where it stopped, so --resume has no effect.
            scores = bertkit.finetune_glue(
                command.names, output_dir=run.output_dir, model=run.model, overrides=run.overrides()
            )
            print_result(scores, [glue_table(scores, self.format)], run.json, self.format)
        elif is_one_task:
            [recipe] = command.recipes().values()
            results = bertkit.finetune_grid(recipe, output_dir=run.output_dir, **many)
            self._print(results, run.json, grid_table, _AFTER_A_GRID if results.best is not None else ())
        else:
            results = bertkit.finetune_glue_grid(command.names, output_dir=run.output_dir, **many)
            self._print(results, run.json, glue_grid_table)
        return True

    def _print(self, results: Any, as_json: bool, table: Callable[..., str], next_commands: Sequence[str] = ()) -> None:
        """Prints the results of one or several grids as a table, or as one JSON object.

        ``next_commands`` are printed below a table of text, with ``{}`` in place of the folder.

        Raises:
            typer.Exit: a run has failed; the exit code is 1.
        """
        print_result(results, [table(results, format=self.format)], as_json, self.format)
        if not as_json and self.format == "text":
            print_next(next_commands, results.output_dir)
        if results.failed:
            raise typer.Exit(1)


@app.command()
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


@app.command()
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


_OF_ONE_VARIANT = ("task.pair_objective", "data.whole_word_mask")
_FINE_TUNING = "Fine-tuning"


@command(app, "pretraining", without=_OF_ONE_VARIANT)
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
    from bertkit.features.grids.ablations import ablations_table

    options.check_one_form(json, format)
    results = bertkit.ablations(
        [*(corpus or []), *(more or [])],
        data_dir=data_dir,
        output_dir=output_dir,
        size=size,
        tasks=glue_tasks(task),
        seeds=seeds,
        overrides=overrides(settings, set_, placement),
        finetuning=overrides({}, finetune_set, placement, "--finetune-set"),
    )
    print_result(results, [ablations_table(results, format=format)], json, format)
    if results.failed:
        raise typer.Exit(1)
