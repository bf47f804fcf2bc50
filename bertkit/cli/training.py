"""Options of all training commands and of grids, their conversion to recipe overrides, and the output of runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.commands import Settings
from bertkit.cli.printing import print_next, print_result, print_results
from bertkit.features.checks.command import print_report
from bertkit.recipe.fields import Text, typed
from bertkit.recipe.files import find_recipe, read_recipe_file
from bertkit.recipe.load import load_placement
from bertkit.runtime.errors import RecipeError
from bertkit.tasks.registry import TASKS

if TYPE_CHECKING:
    from bertkit.features.checks.findings import Report
    from bertkit.recipe.load import Recipe
    from bertkit.training.runs.directory import Run as FinishedRun


_MANY_RUNS = "Grids"
AFTER_FINETUNING = ("bertkit predict {} --input FILE", "bertkit demo {}")
AFTER_A_GRID = ("bertkit report {}", "bertkit predict {}/best --input FILE")
AFTER_PRETRAINING = (
    "bertkit finetune classification --model {} --train-file FILE --output-dir NEW",
    "bertkit embed {} --input FILE --output vectors.npz",
)
"""Commands that use a run of each kind."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """Arguments of a training command; `bertkit.cli.commands.command` turns the fields into options.

    A command with a different help text for a field declares the field again in a subclass.
    """

    output_dir: options.OutputDir
    recipe: Annotated[
        str | None,
        options.option(
            help="A recipe's name (bertkit recipes list) or file.",
            complete=options.complete_recipes,
            panel=options.TRAINING,
        ),
    ] = None
    model: Annotated[
        str | None, options.option(help="Checkpoint to start from: a folder or a Hub id.", panel=options.MODEL)
    ] = None
    settings: Settings
    placement: options.PlacementFile = None
    set_: options.SetValues = None
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue the run in --output-dir.", rich_help_panel=options.OUTPUT),
    ] = False
    push_to_hub: Annotated[
        str | None,
        options.option(
            help="Push the finished run to this repository of the Hub.",
            metavar="REPO_ID",
            panel=options.OUTPUT,
        ),
    ] = None
    json: Annotated[bool, typer.Option("--json", help=options.AS_JSON, rich_help_panel=options.OUTPUT)] = False
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Report faults and the cost of the run; train and write nothing.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = False
    check_labels: Annotated[
        bool,
        options.option(
            "--check-labels", help="With --check: also look for wrong labels.", panel=options.OUTPUT, rare=True
        ),
    ] = False
    fix: Annotated[
        Path | None,
        options.option(
            help="With --check: the table without empty and repeated rows, labels unified.",
            metavar="OUT.csv",
            panel=options.OUTPUT,
            rare=True,
        ),
    ] = None
    strict: Annotated[
        bool, options.option("--strict", help="With --check: warnings are errors.", panel=options.OUTPUT, rare=True)
    ] = False

    def start(
        self,
        function: Callable[..., FinishedRun],
        recipe: str | Path | Mapping[str, Any] | None,
        shown: Callable[[Mapping[str, float]], Sequence[tuple[str, str]]],
        next_commands: Sequence[str],
        **given: Any,
    ) -> None:
        """Runs a function of `bertkit` and prints its results, or checks the run if ``--check`` is given.

        Args:
            function: `bertkit.finetune` or `bertkit.pretrain`.
            recipe: recipe of the run.
            shown: returns the printed metrics as (key, name).
            next_commands: commands that use the run, with ``{}`` in place of its folder.
            given: arguments of the function that are not options of all runs.
        """
        if self.is_checked:
            print_report(self.report(recipe, **given), self.json)
            return
        done = function(recipe, output_dir=self.output_dir, **self._arguments(), **given)
        print_results(done, list(shown(done.metrics)), self.json, next_commands)

    def report(
        self, recipe: str | Path | Mapping[str, Any] | Recipe | None, output_dir: Path | None = None, **given: Any
    ) -> Report:
        """Checks a run; its folder is ``output_dir``, by default that of the command."""
        folder = output_dir or self.output_dir
        return bertkit.check(
            recipe,
            output_dir=folder,
            labels=self.check_labels,
            strict=self.strict,
            fix=self.fix,
            **{**self._arguments(), **given},
        )

    @property
    def is_checked(self) -> bool:
        """Returns whether the run is only checked.

        Raises:
            RecipeError: an option of the check is given without ``--check``.
        """
        for flag, is_given in (("--check-labels", self.check_labels), ("--strict", self.strict), ("--fix", self.fix)):
            if is_given and not self.check:
                raise RecipeError(f"{flag} is for --check; add it, or remove {flag}")
        return self.check

    def _arguments(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "overrides": self.overrides(),
            "resume": self.resume,
            "push_to_hub": self.push_to_hub,
        }

    def overrides(self) -> dict[str, Any]:
        """Returns the recipe overrides of the options; see `overrides`."""
        return overrides(self.settings, self.set_, self.placement)


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Options that turn one run into many; `bertkit.cli.commands.command` turns the fields into options."""

    grid: Annotated[
        list[str] | None,
        options.option(
            help="Values to try in all combinations: KEY=VALUE,VALUE, or paper for the grid of the BERT paper. "
            "Repeatable.",
            metavar="KEY=VALUES",
            complete=options.complete_keys,
            panel=_MANY_RUNS,
        ),
    ] = None
    search: Annotated[
        list[str] | None,
        options.option(
            help="Range to sample from instead: KEY=LO..HI, KEY=LO..HI:log or KEY=VALUE,VALUE. Repeatable.",
            metavar="KEY=RANGE",
            complete=options.complete_keys,
            panel=_MANY_RUNS,
            rare=True,
        ),
    ] = None
    trials: Annotated[int | None, options.option(help="Settings that --search tries.", panel=_MANY_RUNS, rare=True)] = (
        None
    )
    seeds: Annotated[
        int | None, options.option(help="Runs of each setting with different seeds.", panel=_MANY_RUNS)
    ] = None
    folds: Annotated[
        int | None,
        options.option(
            help="Folds of the training set, each of which validates one run; 0 for none.",
            panel=_MANY_RUNS,
        ),
    ] = None
    worker: Annotated[
        bool, options.option("--worker", help="Join the grid in --output-dir.", panel=_MANY_RUNS, rare=True)
    ] = False
    format: Annotated[
        options.TableFormat, options.option("--format", help=options.AS_TABLE, panel=_MANY_RUNS, rare=True)
    ] = "text"

    @property
    def is_given(self) -> bool:
        """Returns whether any of the options is given, other than the format of results."""
        values = {name: value for name, value in asdict(self).items() if name != "format"}
        return any(value is not None and value is not False for value in values.values())

    @property
    def has_only_folds(self) -> bool:
        """Returns whether no other option is given than the number of folds."""
        return self.folds is not None and not replace(self, folds=None).is_given

    def arguments(self) -> dict[str, Any]:
        """Returns the options as arguments of `bertkit.finetune_grid`."""
        return {
            "grid": self.grid or (),
            "search": self.search or (),
            "trials": self.trials,
            "seeds": 1 if self.seeds is None else self.seeds,
            "folds": self.folds,
            "worker": self.worker,
        }


@dataclass(frozen=True, kw_only=True)
class FineTuning(Run):
    """Arguments of a fine-tuning command: one run, or a grid of runs."""

    many: Grid


def overrides(settings: Mapping[str, Any], set_: Sequence[str] | None, placement: str | None) -> dict[str, Any]:
    """Returns recipe overrides by dotted key; single values take precedence over those of the placement.

    Args:
        settings: values of the given options, by dotted key.
        set_: strings of the form ``block.key=value``.
        placement: name or file of a recipe that has only a ``placement`` block.

    Raises:
        RecipeError: a string does not have the form ``key=value``, or a key is given twice with different values.
    """
    placed = {f"placement.{key}": value for key, value in load_placement(placement).items()} if placement else {}
    merged = dict(settings)
    for option in set_ or []:
        key, equals, text = option.partition("=")
        if not equals:
            raise RecipeError(f"--set {option}: expected block.key=value, such as train.learning_rate=3e-5")
        value = Text(text)
        earlier = merged.setdefault(key, value)
        if earlier != value and (isinstance(earlier, Text) or earlier != typed(value, type(earlier))):
            values = f"{earlier.text if isinstance(earlier, Text) else earlier} and {text}"
            raise RecipeError(f"{key} is given twice: {values}; keep one of them")
    return placed | merged


def finetune(kind: str, usual: str | Path | Mapping[str, Any], run: FineTuning) -> None:
    """Fine-tunes with the recipe of a command, once or as a grid, and prints the scores.

    Args:
        kind: the task of the command.
        usual: recipe without ``--recipe``.
        run: the options.

    Raises:
        RecipeError: the recipe is of another task.
    """
    recipe = run.recipe or usual
    check_kind(recipe, kind)
    if run.many.has_only_folds and (not run.many.folds or getattr(TASKS.task(kind), "can_score_by_folds", False)):
        settings = Settings({**run.settings, "data.folds": run.many.folds})
        run = replace(run, settings=settings, many=replace(run.many, folds=None))
    if run.many.is_given:
        if run.is_checked:
            print_report(grid_report(recipe, run), run.json)
            return
        from bertkit.features.grids.table import grid_table

        results = bertkit.finetune_grid(recipe, **grid_arguments(run))
        print_grid(results, run, grid_table, AFTER_A_GRID if results.best is not None else ())
        return
    if run.many.format != "text":
        raise RecipeError(f"--format {run.many.format}: is for the table of many runs; one run prints its scores")

    run.start(bertkit.finetune, recipe, scores, AFTER_FINETUNING)


def check_kind(recipe: str | Path | Mapping[str, Any], kind: str) -> None:
    """Checks that a recipe is of the task of the command.

    Raises:
        RecipeError: it is of another one; or it does not exist or cannot be read.
    """
    if isinstance(recipe, Mapping):
        return
    block = read_recipe_file(find_recipe(recipe))[0].get("task")
    other = block.get("kind") if isinstance(block, Mapping) else None
    if isinstance(other, str) and other in TASKS.kinds() and other != kind:
        raise RecipeError(f"--recipe {recipe}: is of the task {other}, and this command of the task {kind}")


def scores(metrics: Mapping[str, float]) -> list[tuple[str, str]]:
    """Returns the scores of a fine-tuning that are printed, as (key, name), without those of single classes."""
    from bertkit.training.runs.directory import named_scores

    return named_scores(metrics)


def grid_arguments(run: FineTuning) -> dict[str, Any]:
    """Returns the arguments of `bertkit.finetune_grid` other than the recipe.

    Raises:
        RecipeError: an option is for one run, or two give the form of the results.
    """
    options.check_one_form(run.json, run.many.format)
    if run.push_to_hub is not None:
        raise RecipeError("--push-to-hub: is for one run; push the best one with bertkit push OUTPUT_DIR/best REPO_ID")
    # Repeating the command continues a grid, so --resume has no effect.
    return {
        **run.many.arguments(),
        "output_dir": run.output_dir,
        "model": run.model,
        "overrides": run.overrides(),
    }


def grid_report(recipe: str | Path | Mapping[str, Any], run: FineTuning, output_dir: Path | None = None) -> Report:
    """Checks a grid; its folder is ``output_dir``, by default that of the command."""
    arguments = {**grid_arguments(run), "output_dir": output_dir or run.output_dir}
    del arguments["worker"]
    return bertkit.check_grid(recipe, **arguments, labels=run.check_labels, strict=run.strict, fix=run.fix)


def print_grid(results: Any, run: FineTuning, table: Callable[..., str], next_commands: Sequence[str] = ()) -> None:
    """Prints the results of one or several grids as a table, or as one JSON object.

    ``next_commands`` are printed below a table of text, with ``{}`` in place of the folder.

    Raises:
        typer.Exit: a run has failed; the exit code is 1.
    """
    print_result(results, [table(results, format=run.many.format)], run.json, run.many.format)
    if not run.json and run.many.format == "text":
        print_next(next_commands, results.output_dir)
    if results.failed:
        raise typer.Exit(1)
