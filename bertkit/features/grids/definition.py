"""Definition of a grid: base recipe, values or ranges, seeds and folds; its cells, and ``grid.json``."""

from __future__ import annotations

import dataclasses
import json
import math
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from numbers import Integral
from pathlib import Path
from typing import Any

from bertkit.features.grids.values import Range, Values, label, spaces_of
from bertkit.recipe.load import Recipe
from bertkit.recipe.settings import has_steps
from bertkit.runtime.errors import OutputError, RecipeError, entries_of, listed, shown
from bertkit.runtime.files import write_json
from bertkit.runtime.json_text import dumps
from bertkit.tasks.registry import load_recipe
from bertkit.tasks.splits import FineTuningData
from bertkit.training.runs.directory import TRACKING_KEYS
from bertkit.training.runs.listing import GRID_FILE as GRID_FILE
from bertkit.training.runs.resolve import finetuning_recipe

Record = Mapping[str, Any]
"""Result of a cell: ``score``, ``metrics`` and ``collapsed``, or ``error`` if the run failed; and
``test_score`` of the runs of the best setting, if the task has a labelled test set."""

RUNS = "runs"
_UNSAFE = re.compile(r"[^A-Za-z0-9_.,=+-]+")
_MOST_CELLS = 100_000


@dataclass(frozen=True)
class Setting:
    """Values of the recipe that all cells of a setting share.

    Attributes:
        number: position in the grid, or number of the trial, from 0.
        values: dotted key → value; empty for the recipe as it is.
    """

    number: int
    values: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Name for folders and results, such as ``01-learning_rate=2e-05``."""
        return f"{self.number + 1:02}-{_UNSAFE.sub('_', label(self.values) or 'recipe')[:120]}"


@dataclass(frozen=True)
class Cell:
    """One run of a grid: a setting with a seed, and a fold if there are folds."""

    setting: Setting
    seed: int
    fold: int | None = None

    @property
    def name(self) -> str:
        """Name of the run directory."""
        return f"{self.setting.name}-seed={self.seed}" + ("" if self.fold is None else f"-fold={self.fold}")


@dataclass(frozen=True)
class Definition:
    """Definition of a grid.

    Attributes:
        recipe: the recipe that the cells change, with absolute paths.
        grid: dotted key → values; the settings are all combinations.
        search: dotted key → range or values to sample from, instead of a grid.
        trials: number of sampled settings; None without a search.
        seeds: seeds of the runs of every setting.
        folds: number of folds of the training set; None without cross-validation.
    """

    recipe: Recipe
    grid: Mapping[str, list[Any]]
    search: Mapping[str, Range | list[Any]]
    trials: int | None
    seeds: tuple[int, ...]
    folds: int | None

    def settings(self) -> list[Setting]:
        """Returns the settings of a grid in their order; one if there are only seeds or folds."""
        return [
            Setting(number, dict(zip(self.grid, values, strict=True)))
            for number, values in enumerate(product(*self.grid.values()))
        ]

    def cells(self, setting: Setting) -> list[Cell]:
        """Returns the cells of a setting: all folds of the first seed, then of the next one."""
        folds: Iterable[int | None] = [None] if self.folds is None else range(self.folds)
        return [Cell(setting, seed, fold) for seed in self.seeds for fold in folds]

    @property
    def runs_per_setting(self) -> int:
        return len(self.seeds) * (self.folds or 1)

    @property
    def number_of_cells(self) -> int:
        """Number of cells; for a search without pruning."""
        settings = math.prod(map(len, self.grid.values())) if self.trials is None else self.trials
        return settings * self.runs_per_setting

    def recipe_of(self, cell: Cell) -> Recipe:
        """Returns the recipe of the run of a cell; RecipeError if a value is invalid."""
        report = self.recipe.train.get("report", False)
        values = {**cell.setting.values, "train.seed": cell.seed, "train.report": report}
        if cell.fold is not None:
            values |= {"data.folds": self.folds, "data.fold": cell.fold}
        elif self.recipe.data.folds is None:
            values["data.folds"] = 0  # the runs are compared by the same held-out rows
        return finetuning_recipe(self.recipe, overrides=values)


def define(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    overrides: Mapping[str, Any],
    grid: Values,
    search: Values,
    trials: int | None,
    seeds: int | Sequence[int],
    folds: int | None,
) -> Definition:
    """Checks the arguments of `bertkit.finetune_grid` and each value.

    One RecipeError has all faults, but for numbers that are no integers, which are refused first. Which settings have
    values that do not fit each other is found by `bertkit.features.grids.grid.prepare`.
    """
    faults: list[str] = []
    try:  # integers of NumPy too
        trials, folds = (each if each is None else operator.index(each) for each in (trials, folds))
        seeds = (
            operator.index(seeds) if isinstance(seeds, (int, Integral)) else [operator.index(each) for each in seeds]
        )
    except TypeError as error:
        got = ", ".join(map(shown, (trials, folds, seeds)))
        raise RecipeError(f"--trials, --folds, --seeds: expected integers, of seeds also a list; got {got}") from error
    values, spaces = spaces_of("--grid", grid, faults), spaces_of("--search", search, faults)
    searches, every = bool(spaces), {**values, **spaces}
    if trials is not None and not search:
        faults.append("--trials: is for --search")
    faults += _faults_of_arguments(values, spaces, trials, seeds, folds, overrides)
    folds = folds or None
    of_folds = {} if folds is None or folds < 2 else {"data.folds": folds, "data.fold": 0}
    given = {**overrides, **of_folds}
    try:
        base = load_recipe(recipe, given)
    except RecipeError as error:
        base_fault = str(error)  # which each value, tried in the same recipe, has too
        others = [fault for fault in _faults_of_values(recipe, given, every, searches) if fault not in base_fault]
        raise RecipeError(listed([*faults, base_fault, *others])) from error
    if not isinstance(base.data, FineTuningData):
        faults.append(f"recipe {base.name}: task.kind is {base.kind!r}; a grid is for fine-tuning")
        raise RecipeError(listed(faults))
    if "train.num_train_epochs" in every and ("train.max_steps" in every or has_steps(base.train)):
        faults.append(
            "train.max_steps: takes precedence over the train.num_train_epochs of the grid; remove one of them"
        )
    first = base.train["seed"]
    numbers = seeds if not isinstance(seeds, int) else range(first, first + min(max(seeds, 1), _MOST_CELLS))
    definition = Definition(finetuning_recipe(base), values, spaces, trials, tuple(numbers), folds)
    if definition.number_of_cells > _MOST_CELLS:
        faults.append(f"the grid has {definition.number_of_cells} runs; expected at most {_MOST_CELLS}")
    else:
        faults += _faults_of_values(base, {}, {**every, "train.seed": list(numbers)}, searches)
    if faults:
        raise RecipeError(listed(faults))
    return definition


def _faults_of_arguments(
    values: Mapping[str, Any],
    spaces: Mapping[str, Any],
    trials: int | None,
    seeds: int | Sequence[int],
    folds: int | None,
    overrides: Mapping[str, Any],
) -> list[str]:
    """Returns the faults of arguments of `define` that do not depend on the recipe."""
    faults = []
    if values and spaces:
        faults.append("--grid and --search: give one of them; --search KEY=VALUE,VALUE samples from a list of values")
    if spaces and trials is None:
        faults.append("--search: give the number of settings to try with --trials")
    if trials is not None and trials < 1:
        faults.append(f"--trials: expected at least 1, got {trials}")
    if isinstance(seeds, int):
        if not 1 <= seeds <= _MOST_CELLS:
            faults.append(f"--seeds: expected 1 to {_MOST_CELLS}, got {seeds}")
    elif not seeds or len(set(seeds)) < len(seeds):
        faults.append(f"--seeds: expected different seeds, got {list(seeds)}")
    if folds is not None and folds != 0 and folds < 2:
        faults.append(f"--folds: expected at least 2, got {folds}")
    for key in (*values, *spaces):
        if key in overrides:
            faults.append(f"{key}: is given twice, in the grid and as a single value; keep one of them")
    if folds is not None:
        of_folds = [key for key in ("data.folds", "data.fold") if key in overrides]
        faults += [f"{key}: is a single value, and --folds has it too; keep one of them" for key in of_folds]
    return faults


def _faults_of_values(
    recipe: Any, given: Mapping[str, Any], values: Mapping[str, Range | list[Any]], is_search: bool
) -> list[str]:
    """Returns the faults of the values of a grid and of examples of its ranges: what cannot be used with the ``given``
    values, neither alone nor beside the first ones of the other keys."""
    option = "--search" if is_search else "--grid"
    faults: list[str] = []
    tried = {key: each.examples() if isinstance(each, Range) else each for key, each in values.items()}
    firsts = {key: each[0] for key, each in tried.items() if each}
    for key, each in tried.items():
        for value in each:
            try:
                with suppress(RecipeError):
                    load_recipe(recipe, {**given, key: value})
                    continue
                load_recipe(recipe, {**given, **firsts, key: value})
            except RecipeError as error:
                fault = str(error).partition(": ")[2].replace("(override) ", "")
                faults.append(f"{option} {fault.removeprefix('--set ')}" if fault.startswith("--set ") else fault)
    return list(dict.fromkeys(entries_of(faults)))


# ---- grid.json ------------------------------------------------------------------------------------------------------


def store(definition: Definition, folder: Path, data: Mapping[str, str]) -> None:
    """Writes ``grid.json``, or compares the definition with the one that is there, see `check_stored`."""
    now = _with_data(definition, data)
    if check_stored(definition, folder, data) != now:
        write_json(folder / GRID_FILE, now)


def check_stored(definition: Definition, folder: Path, data: Mapping[str, str]) -> dict[str, Any] | None:
    """Compares a definition with the one in ``grid.json``, and returns the contents of the file, None without one.

    Raises:
        RecipeError: the folder holds another grid; the message names every difference.
        OutputError: ``grid.json`` is damaged.
    """
    path = folder / GRID_FILE
    if not path.is_file():
        return None
    stored = _read(path)
    before, after = _select_compared(stored), _select_compared(_with_data(definition, data))
    changes = [
        f"{key} was {shown(before.get(key))} and is now {shown(after.get(key))}"
        for key in dict.fromkeys((*before, *after))
        if before.get(key) != after.get(key)
    ]
    if changes:
        raise RecipeError(
            f"{folder} holds another grid: {'; '.join(changes)}. Give the same values, or another --output-dir"
        )
    return stored


def _with_data(definition: Definition, data: Mapping[str, str]) -> dict[str, Any]:
    described = {
        "recipe_name": definition.recipe.name,
        "recipe": definition.recipe.to_dict(),
        "grid": definition.grid,
        "search": {
            key: dataclasses.asdict(space) if isinstance(space, Range) else space
            for key, space in definition.search.items()
        },
        "trials": definition.trials,
        "seeds": definition.seeds,
        "folds": definition.folds,
        "data": dict(data),
    }
    return dict(json.loads(dumps(described)))


def read(folder: Path) -> Definition:
    """Reads the definition of a grid from its folder; OutputError if there is no ``grid.json``, or it is damaged."""
    path = folder / GRID_FILE
    if not path.is_file():
        raise OutputError(f"{folder}: contains no grid ({GRID_FILE}); give the --output-dir of a grid")
    stored = _read(path)
    try:
        recipe = dataclasses.replace(load_recipe(stored["recipe"]), name=stored["recipe_name"])
        spaces = {key: Range(**each) if isinstance(each, dict) else each for key, each in stored["search"].items()}
        seeds = tuple(map(operator.index, stored["seeds"]))  # which are part of the names of folders
        return Definition(recipe, stored["grid"], spaces, stored["trials"], seeds, stored["folds"])
    except (KeyError, TypeError, AttributeError) as error:
        raise OutputError(f"{path}: damaged; restore it, or give another folder") from error


def _read(path: Path) -> dict[str, Any]:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        _select_compared(stored)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise OutputError(f"{path}: damaged ({error}); restore it, or give another folder") from error
    return dict(stored)


def _select_compared(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of ``grid.json`` that must not change, by dotted key: all but placement, hub, names, trackers
    and reports."""
    flat = {
        f"{block}.{key}": value
        for block, values in stored["recipe"].items()
        if block not in ("placement", "hub")
        for key, value in values.items()
        if block != "train" or key not in ("report", *TRACKING_KEYS)
    }
    for part in ("grid", "search"):
        flat |= {f"--{part} {key}": value for key, value in stored[part].items()}
    flat |= {f"--{name}": stored[name] for name in ("trials", "seeds", "folds")}
    return flat | {f"the fingerprint of {name}": value for name, value in stored["data"].items()}
