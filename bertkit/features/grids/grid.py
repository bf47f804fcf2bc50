"""Fine-tuning of a grid: many runs of one recipe with different values, seeds and folds."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bertkit.features.grids.best import complete_best
from bertkit.features.grids.definition import GRID_FILE, RUNS, Definition, Setting, check_stored, define, store
from bertkit.features.grids.results import GridResults, collect, write
from bertkit.features.grids.values import Range, Values
from bertkit.features.grids.workers import ENCODED, forget_failures, grid_lock, source_of, work, work_on_gpus
from bertkit.inference.outcome import further_metrics
from bertkit.recipe.load import Recipe
from bertkit.runtime.errors import BertkitError, OutputError, RecipeError, TrainingError, importing, noted, raise_all
from bertkit.runtime.json_text import dumps
from bertkit.runtime.locks import FolderInUseError, RunLock
from bertkit.runtime.placement.resolve import visible_gpus
from bertkit.runtime.progress import counted
from bertkit.tasks.arguments import with_settings
from bertkit.tasks.base import Task
from bertkit.tasks.encoding import sharing_encodings
from bertkit.tasks.folds import load_splits
from bertkit.tasks.registry import task_of_recipe
from bertkit.tasks.splits import is_labelled
from bertkit.training.arguments import best_checkpoint_arguments
from bertkit.training.initialization import finetuning_start
from bertkit.training.objectives import check_class_weights, weighted_labels
from bertkit.training.runs.directory import check_place, contents
from bertkit.training.runs.training import set_up

_NOT_OF_ROWS = ("max_seq_length", "folds", "fold")  # keys of data; the runs of a grid divide the same rows


@dataclass(frozen=True)
class PreparedGrid:
    """A checked grid.

    Attributes:
        definition: its settings, seeds and folds.
        folder: its output folder.
        task: the task, with the values learnt from the data.
        data: split → fingerprint.
        gpus: number of GPUs; of several each has a process, which runs one cell at a time. Otherwise this process runs
            the cells.
    """

    definition: Definition
    folder: Path
    task: Task
    data: Mapping[str, str]
    gpus: int

    def run(self, worker: bool) -> GridResults:
        """Runs the cells, or takes part in the work of other processes, and writes the results when all have ended.

        Raises:
            FolderInUseError: another process works on the grid, and ``worker`` is False.
            RecipeError: the folder holds another grid.
            TrainingError: the worker processes have ended before all cells have.
        """
        definition, folder = self.definition, self.folder
        with ExitStack() as stack:
            if not worker:
                # One process is in charge, so that a command that is given twice by mistake makes no two workers.
                try:
                    stack.enter_context(RunLock(folder))
                except FolderInUseError as error:
                    raise FolderInUseError(f"{error}; or give the same command with --worker to take part") from error
            with grid_lock(folder):
                store(definition, folder, self.data)
                if not worker:
                    forget_failures(folder)
            if self.gpus > 1:
                work_on_gpus(folder, self.gpus)
                if source_of(definition, folder).cells():
                    left = collect(definition, self.task, folder).unfinished
                    runs = counted(left, "run has", "runs have")
                    raise TrainingError(f"{folder}: {runs} not ended; repeat the command to continue")
            else:
                with sharing_encodings(folder / ENCODED):
                    work(definition, folder)
            with grid_lock(folder, math.inf):  # another worker may be predicting the test sets
                shutil.rmtree(folder / ENCODED, ignore_errors=True)
                tests = [name for name in self.data if not is_labelled(name)]
                complete_best(definition, collect(definition, self.task, folder), tests)
                return write(definition, collect(definition, self.task, folder))


def finetune_grid(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    *,
    output_dir: str | Path,
    grid: Values = (),
    search: Values = (),
    trials: int | None = None,
    seeds: int | Sequence[int] = 1,
    folds: int | None = None,
    worker: bool = False,
    model: str | None = None,
    data_dir: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    **settings: Any,
) -> GridResults:
    """Fine-tunes a recipe with all combinations of values, several seeds and folds, and compares the settings.

    Each run is the one that `bertkit.finetune` makes with the same values; its directory is below
    ``output_dir/runs``. Only the best run has a report, unless ``train.report`` is set, and only the runs of the best
    setting predict the test set. Repeating the call continues: finished runs stay, interrupted ones are resumed, and
    failed ones are tried again.

    Args:
        recipe, model, data_dir, overrides, settings: as in `bertkit.finetune`.
        output_dir: folder of the grid; new or empty, or that of the same grid.
        grid: recipe key → values, or strings such as ``train.learning_rate=2e-5,3e-5`` and ``paper``, the grid of the
            BERT paper.
        search: recipe key → `Range` or values to sample from, or strings such as
            ``train.learning_rate=1e-5..1e-4:log``; instead of ``grid``.
        trials: number of settings that a search tries.
        seeds: number of seeds, counted from the recipe's, or the seeds themselves.
        folds: divide the training set into this number of folds; each is the validation set of one run.
        worker: take part in a grid that another process, perhaps on another machine, works on in the same folder.

    Returns:
        The results, also written to ``grid_results.json`` and ``grid_results.csv``; ``best/`` is the best run.

    Raises:
        BertkitError: an argument, a value or the data are invalid, the folder holds another grid, or another process
            works on it and ``worker`` is False; then nothing has been trained.
        TrainingError: worker processes have ended before the grid was complete.

    Examples:
        ```python
        grid = {"train.learning_rate": [2e-5, 3e-5]}
        results = bertkit.finetune_grid(
            "classification", grid=grid, train_file="reviews.csv", model="my-bert", output_dir="grid"
        )
        results.best  # the setting with the best mean
        ```
    """
    folder = Path(output_dir)
    values = all_values(with_settings(recipe, overrides, settings), model, data_dir)
    return prepare(recipe, folder, grid, search, trials, seeds, folds, values).run(worker)


def all_values(overrides: Mapping[str, Any] | None, model: str | None, data_dir: str | Path | None) -> dict[str, Any]:
    """Returns the overrides with a model and a data folder, if these are given."""
    more = {"model.name_or_path": model, "data.data_dir": data_dir}
    return {**(overrides or {}), **{key: str(value) for key, value in more.items() if value is not None}}


def prepare(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    folder: Path,
    grid: Values,
    search: Values,
    trials: int | None,
    seeds: int | Sequence[int],
    folds: int | None,
    overrides: Mapping[str, Any],
) -> PreparedGrid:
    """Checks everything that can be checked before a run: folder, values, placement, checkpoint and data.

    One BertkitError has all faults.
    """
    faults: list[str] = []
    with noted(faults, OutputError):
        check_place(folder)
        entries = contents(folder)
        if entries and GRID_FILE not in entries and entries != [RUNS]:
            raise OutputError(
                f"--output-dir {folder}: already contains {', '.join(entries[:3])} and no grid; give another folder"
            )
    definition = None
    with noted(faults, RecipeError):
        definition = define(recipe, overrides, grid, search, trials, seeds, folds)
    if definition is None:
        raise_all(faults, RecipeError)
    assert definition is not None
    if search:
        with importing("--search", "search"):
            import optuna  # noqa: F401
    settings = definition.recipe.placement
    gpus = 0 if settings.device == "cpu" or settings.num_processes == 1 else visible_gpus()
    recipes = []
    for setting in settings_to_check(definition):
        with noted(faults, RecipeError):  # of values that do not fit each other
            recipes.append(definition.recipe_of(definition.cells(setting)[0]))
    of_checkpoints = {
        dumps([each.model, each.data.max_seq_length]): each for each in recipes if each.model.get("name_or_path")
    }
    for each in recipes:
        with noted(faults, BertkitError):
            if each.model.get("name_or_path") is None:
                missing = "no checkpoint to start from; give --model or model.name_or_path"
                raise RecipeError(f"recipe {each.name}: {missing}")
            check_run(each, folder)
    for each in of_checkpoints.values():
        with noted(faults, BertkitError):
            finetuning_start(each)
    task, data = _check_data(recipes, faults)
    raise_all(list(dict.fromkeys(faults)), RecipeError)
    assert task is not None
    check_stored(definition, folder, data)  # now, since a call with several grids runs the others first
    return PreparedGrid(definition, folder, task, data, gpus)


def key_of_rows(recipe: Recipe) -> str:
    """Returns a text that is the same for recipes that read the same rows in the same way."""
    blocks = recipe.to_dict()
    return dumps([blocks["task"], {name: each for name, each in blocks["data"].items() if name not in _NOT_OF_ROWS}])


def _check_data(recipes: Sequence[Recipe], faults: list[str]) -> tuple[Task | None, dict[str, str]]:
    """Reads the data of recipes, those of several once, and checks the weights of their classes.

    Returns:
        The task of the first recipe, with the values learnt from its data, and split → fingerprint of these.
    """
    tasks: dict[str, Task | None] = {}
    data: dict[str, str] = {}
    for recipe in recipes:
        key = key_of_rows(recipe)
        with noted(faults, BertkitError):
            if key not in tasks:
                tasks[key] = None
                tasks[key], splits = load_splits(task_of_recipe(recipe))
                data = data or {name: split.fingerprint for name, split in splits.items()}
            if recipe.is_weighted and (task := tasks[key]) is not None:
                check_class_weights(recipe, weighted_labels(task))
    return next(iter(tasks.values()), None), data


def check_run(recipe: Recipe, folder: Path) -> None:
    """Checks what does not depend on checkpoint and data of a run in a grid: placement, arguments of the Trainer and
    metrics; raises the BertkitError of the first fault."""
    if recipe.placement.num_processes not in (None, 1) or recipe.placement.strategy != "auto":
        raise RecipeError("placement: a grid trains each run in one process; remove num_processes and strategy")
    # The process that checks sees all GPUs, a worker only its own.
    alone = replace(recipe, placement=replace(recipe.placement, num_processes=1))
    set_up(alone, folder / RUNS / "new", **best_checkpoint_arguments(recipe))
    further_metrics(getattr(recipe.task, "metrics", ()))


def settings_to_check(definition: Definition) -> list[Setting]:
    """Returns all settings of a grid, or settings with the ends of the ranges of a search."""
    if not definition.search:
        return definition.settings()
    ends = {
        key: [space.low, space.high] if isinstance(space, Range) else space for key, space in definition.search.items()
    }
    number = max(map(len, ends.values()))
    return [Setting(each, {key: values[each % len(values)] for key, values in ends.items()}) for each in range(number)]
