"""Options of all training commands, their conversion to recipe overrides, and the output of runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import bertkit
from bertkit.cli import options
from bertkit.cli.commands import Settings
from bertkit.cli.groups import Options
from bertkit.cli.printing import print_results
from bertkit.recipe.fields import Text, with_types
from bertkit.recipe.files import find_recipe, read_recipe_file
from bertkit.recipe.load import load_placement
from bertkit.runtime.errors import RecipeError
from bertkit.tasks.registry import TASKS

if TYPE_CHECKING:
    from bertkit.training.runs.record import Run as FinishedRun

AFTER_FINETUNING = ("bertkit predict {} --input FILE", "bertkit demo {}")
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
    json: Annotated[bool, typer.Option("--json", help=options.AS_JSON, rich_help_panel=options.OUTPUT)] = False
    of_features: Annotated[Options, "run"]

    def overrides(self) -> dict[str, Any]:
        """Returns the recipe overrides of the options; see `overrides`."""
        return overrides(self.settings, self.set_, self.placement)


@dataclass(frozen=True, kw_only=True)
class FineTuning(Run):
    """Arguments of a fine-tuning command: one run, or many with options of features."""

    folds: Annotated[
        int | None,
        options.option(
            help="Folds of the training rows: each validates one run, or all score one run; 0 for none.",
            panel=options.GRIDS,
        ),
    ] = None
    of_features: Annotated[Options, "run", "finetune"]


@dataclass(frozen=True, kw_only=True)
class Training:
    """A training command before it starts, as the options of features see it.

    Attributes:
        run: the options.
        recipes: returns the recipes to train with: by the names of tasks, or one with an empty name.
        names: the names of the tasks; one empty name for one run without.
        given: further arguments of the functions that train and check.
        folds: number of folds whose models are runs of their own; None without such runs.
    """

    run: Run
    recipes: Callable[[], Mapping[str, Any]]
    names: Sequence[str] = ("",)
    given: Mapping[str, Any] = field(default_factory=dict)
    folds: int | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `bertkit.finetune` and `bertkit.check` from the options, without recipe and folder."""
        run = self.run
        usual: dict[str, Any] = {"model": run.model, "overrides": run.overrides(), "resume": run.resume}
        for each in run.of_features:
            usual |= each.arguments()
        return usual | dict(self.given)

    @property
    def many(self) -> dict[str, Any] | None:
        """The arguments that make one run many; None for one run."""
        found = (each.many(self) for each in self.run.of_features)
        return next((arguments for arguments in found if arguments is not None), None)


def train(
    function: Callable[..., FinishedRun],
    training: Training,
    shown: Callable[[Mapping[str, float]], Sequence[tuple[str, str]]],
    next_commands: Sequence[str],
) -> None:
    """Calls a function of `bertkit` and prints its results, unless the options say that a feature does something else.

    Args:
        function: `bertkit.finetune` or `bertkit.pretrain`.
        training: the command.
        shown: returns the printed metrics as (key, name).
        next_commands: commands that use the run, with ``{}`` in place of its folder.
    """
    if training.run.of_features.start(training):
        return
    if training.folds is not None:
        raise RecipeError(
            f"--folds {training.folds}: each fold of this task validates a run of its own, which this installation of "
            "bertkit has no feature for"
        )
    [recipe] = training.recipes().values()
    done = function(recipe, output_dir=training.run.output_dir, **training.arguments)
    print_results(done, list(shown(done.metrics)), training.run.json, next_commands)


def overrides(
    settings: Mapping[str, Any], set_: Sequence[str] | None, placement: str | None, flag: str = "--set"
) -> dict[str, Any]:
    """Returns recipe overrides by dotted key; single values take precedence over those of the placement.

    Args:
        settings: values of the given options, by dotted key.
        set_: strings of the form ``block.key=value``.
        placement: name or file of a recipe that has only a ``placement`` block.
        flag: the option that gives ``set_``, for messages.

    Raises:
        RecipeError: a string does not have the form ``key=value``, or a key is given twice with different values; or
            the placement does not exist or is invalid.
    """
    of_placement = {} if placement is None else load_placement(placement)
    placed = {f"placement.{key}": value for key, value in of_placement.items()}
    merged = dict(settings)
    for option in set_ or []:
        key, equals, text = option.partition("=")
        if not equals:
            raise RecipeError(f"{flag} {option}: expected block.key=value, such as train.learning_rate=3e-5")
        value = Text(text)
        earlier = merged.setdefault(key, value)
        if earlier != value and (isinstance(earlier, Text) or earlier != with_types(value, type(earlier))):
            values = f"{earlier.text if isinstance(earlier, Text) else earlier} and {text}"
            raise RecipeError(f"{key} is given twice: {values}; keep one of them")
    return placed | merged


def finetune(kind: str, usual: str | Path | Mapping[str, Any], run: FineTuning) -> None:
    """Fine-tunes with the recipe of a command and prints the scores.

    Args:
        kind: the task of the command.
        usual: recipe without ``--recipe``.
        run: the options.

    Raises:
        RecipeError: the recipe is of another task.
    """
    recipe = run.recipe or usual
    check_kind(recipe, kind)
    folds = run.folds
    training = Training(run=run, recipes=lambda: {"": recipe}, folds=folds)
    # --folds is a setting of one run if there are no options of grids, and if it is 0 or the run of this task scores
    # its rows by folds. Otherwise each fold validates a run of its own.
    is_one_run = replace(training, folds=None).many is None
    if folds is not None and is_one_run and (not folds or getattr(TASKS.task(kind), "can_score_by_folds", False)):
        run = replace(run, settings=Settings({**run.settings, "data.folds": folds}))
        training = replace(training, run=run, folds=None)
    train(bertkit.finetune, training, scores, AFTER_FINETUNING)


def finetune_several(recipes: Mapping[str, str], run: FineTuning) -> None:
    """Fine-tunes on several GLUE tasks by a feature that does so.

    Args:
        recipes: task → recipe.
        run: the options.

    Raises:
        RecipeError: an option is for one run, or there is no such feature.
    """
    named = f"--task {','.join(recipes)} names several"
    training = Training(run=run, recipes=lambda: recipes, names=tuple(recipes), folds=run.folds or None)
    if training.arguments.get("push_to_hub") is not None and training.many is None:
        raise RecipeError(f"--push-to-hub is for one run, and {named}; use bertkit push")
    if not run.of_features.start(training):
        raise RecipeError(f"{named}, which this installation of bertkit trains one by one only; name one task")


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
    from bertkit.training.runs.record import named_scores

    return named_scores(metrics)
