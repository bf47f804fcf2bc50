"""Fine-tuning on several GLUE tasks, one run or one grid each: scores, and the zip file for gluebenchmark.com."""

from __future__ import annotations

import gc
import io
import zipfile
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Any, TypeVar

from transformers import TrainerCallback

from bertkit.features.grids.definition import RUNS
from bertkit.features.grids.grid import all_values, prepare
from bertkit.features.grids.results import BEST, GridResults
from bertkit.features.grids.table import failures, notes
from bertkit.features.grids.values import Values, label
from bertkit.features.grids.workers import grid_lock, main_score, metrics_of
from bertkit.recipe.files import GLUE, recipes_in
from bertkit.recipe.load import Recipe
from bertkit.runtime.errors import BertkitError, RecipeError, listed
from bertkit.runtime.files import write_json, write_whole
from bertkit.runtime.formats import Format, ResultTable, score_text
from bertkit.runtime.options import several
from bertkit.runtime.placement.processes import is_main_process
from bertkit.runtime.placement.resolve import check_processes
from bertkit.runtime.progress import counted, say
from bertkit.tasks.classification.glue import GlueTask
from bertkit.tasks.folds import load_splits
from bertkit.tasks.registry import load_recipe, task_of_recipe
from bertkit.training.arguments import check_callbacks
from bertkit.training.runs.directory import check_contents, check_repeated_run, writes_run
from bertkit.training.runs.finetune import finetune
from bertkit.training.runs.listeners import run_group
from bertkit.training.runs.record import is_finished, recorded
from bertkit.training.runs.resolve import finetuning_recipe

RESULTS, SUBMISSION = "glue_results.json", "glue_submission.zip"

T = TypeVar("T")


@dataclass(frozen=True)
class GlueResults:
    """Results of `finetune_glue`; ``glue_results.json`` has ``tasks``, ``scores``, ``average`` and ``collapsed``.

    Attributes:
        output_dir: folder with a run directory for each task.
        tasks: task → its scores on dev, ``eval_…``, in [0, 1], correlations in [-1, 1].
        scores: task → its main metric in percent, averaged over both dev sets for MNLI.
        average: mean of ``scores``.
        submission: the zip file for the leaderboard, with the finished tasks of earlier calls in the folder; ``None``
            if no task had a test set.
        missing: files that the leaderboard requires and no task has written.
        collapsed: task → description of its predictions on dev, if they are all the same; see
            `bertkit.training.runs.record.Run`.
    """

    output_dir: Path
    tasks: dict[str, dict[str, float]]
    scores: dict[str, float]
    average: float
    submission: Path | None
    missing: tuple[str, ...]
    collapsed: dict[str, str]


@dataclass(frozen=True)
class GlueGridResults:
    """Results of `finetune_glue_grid`, also written to ``glue_results.json``.

    Attributes:
        output_dir: folder with a grid for each task.
        tasks: task → results of its grid.
        average: mean over the tasks of the mean score of the best setting, in per cent; None if a task has no score.
        submission: the zip file for the leaderboard, from the best runs; None if no task had a test set.
        missing: files that the leaderboard requires and no run has written.
    """

    output_dir: Path
    tasks: dict[str, GridResults]
    average: float | None
    submission: Path | None
    missing: tuple[str, ...]

    @property
    def failed(self) -> dict[str, str]:
        """Returns the errors of the failed runs by name."""
        return {f"{task}/{name}": error for task, each in self.tasks.items() for name, error in each.failed.items()}


@writes_run
def finetune_glue(
    tasks: Sequence[str],
    *,
    output_dir: str | Path,
    model: str | None = None,
    data_dir: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    callbacks: Sequence[TrainerCallback] = (),
) -> GlueResults:
    """Fine-tunes the same checkpoint on several GLUE tasks separately (BERT §4.1).

    Tasks that an earlier call has finished in ``output_dir`` are not run again, and interrupted ones are resumed, so a
    call can be repeated until all tasks are finished.

    Args:
        tasks: names of recipes in ``finetune/glue/``.
        output_dir: output folder for a run directory per task, ``glue_results.json`` and ``glue_submission.zip``.
        model, data_dir, overrides, callbacks: as in `finetune`; the same for every task.

    Raises:
        BertkitError: an argument, recipe or data set is invalid for any of the tasks; then nothing has been trained.

    Examples:
        ```python
        results = bertkit.finetune_glue(["sst2"], model="my-bert", data_dir="GLUE", output_dir="out")
        results.scores
        ```
    """
    check_callbacks(callbacks)
    tasks = several(tasks)
    check_tasks(tasks)
    output_dir = Path(output_dir)
    values = all_values(overrides, model, data_dir)
    recipes = {name: finetuning_recipe(GLUE + name, overrides=values) for name in tasks}
    for recipe in recipes.values():
        check_processes(recipe.placement)
    check_contents(output_dir, _own_entries())

    def check_run(name: str) -> None:
        check_repeated_run(recipes[name], output_dir / name)
        if not is_finished(output_dir / name):
            load_splits(task_of_recipe(recipes[name]))  # reads its data

    _call_for_each(tasks, check_run)
    for number, (name, recipe) in enumerate(recipes.items(), start=1):
        folder = output_dir / name
        if is_finished(folder):
            say(f"{number}/{len(recipes)} {name}: already finished; {folder}")
            continue
        say(f"{number}/{len(recipes)} {name}")
        with run_group(output_dir):
            finetune(recipe, output_dir=folder, resume=(folder / "recipe.yaml").is_file(), callbacks=callbacks)
        gc.collect()  # a trainer and its model refer to each other
    scored = {
        name: {key: value for key, value in metrics_of(output_dir / name).items() if not key.startswith("eval_loss")}
        for name in recipes
    }
    scores = {name: 100 * main_score(task_of_recipe(recipe), scored[name]) for name, recipe in recipes.items()}
    collapsed = {name: text for name in recipes if (text := recorded(output_dir / name).get("collapse"))}
    runs = _find_earlier(output_dir, recipes) | {output_dir / name: recipe for name, recipe in recipes.items()}
    files = _find_predictions(runs)
    submission, missing = _find_submission(files, output_dir)
    results = GlueResults(output_dir, scored, scores, mean(scores.values()), submission, missing, collapsed)
    if is_main_process():
        written = ("tasks", "scores", "average", "collapsed")
        _write(files, output_dir, {name: getattr(results, name) for name in written})
    return results


def finetune_glue_grid(
    tasks: Sequence[str],
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
) -> GlueGridResults:
    """Fine-tunes a grid for each of several GLUE tasks, in the folder of its name.

    Args:
        tasks: names of recipes in ``finetune/glue/``.
        output_dir: folder for the grids, ``glue_results.json`` and ``glue_submission.zip``.
        grid, search, trials, seeds, folds, worker, model, data_dir, overrides: as in `bertkit.finetune_grid`; the same
            for every task.

    Raises:
        BertkitError: an argument, recipe or data set is invalid for any of the tasks; then nothing has been trained.

    Examples:
        ```python
        results = bertkit.finetune_glue_grid(
            ["sst2"], grid={"train.learning_rate": [2e-5, 3e-5]}, model="my-bert", data_dir="GLUE", output_dir="out"
        )
        results.tasks["sst2"].best  # the setting with the best mean
        ```
    """
    tasks = several(tasks)
    check_tasks(tasks)
    folder = Path(output_dir)
    check_contents(folder, (*_own_entries(), RUNS))  # the last is left where the process that writes is killed
    values = all_values(overrides, model, data_dir)
    prepared = _call_for_each(
        tasks, lambda name: prepare(GLUE + name, folder / name, grid, search, trials, seeds, folds, values)
    )
    grids = {name: each.run(worker) for name, each in prepared.items()}
    means = [100 * row.mean for each in grids.values() if (row := each.best_setting) and row.mean is not None]
    places = [folder / name / BEST for name, each in grids.items() if each.best is not None]
    runs = _find_earlier(folder, tasks, BEST) | {place: load_recipe(place / "recipe.yaml") for place in places}
    average = mean(means) if len(means) == len(grids) else None
    files = _find_predictions(runs)
    results = GlueGridResults(folder, grids, average, *_find_submission(files, folder))
    with grid_lock(folder):
        _write(files, folder, asdict(results))
    return results


def check_tasks(tasks: Sequence[str]) -> None:
    """Checks that there are tasks, and each once; RecipeError if there are none, or one is named twice."""
    if not tasks or len(set(tasks)) < len(tasks):
        raise RecipeError(f"tasks: expected one or more of {', '.join(recipes_in(GLUE))}, each once; got {list(tasks)}")


def _own_entries() -> list[str]:
    return [*recipes_in(GLUE), RESULTS, SUBMISSION]


def _call_for_each(tasks: Sequence[str], prepare_task: Callable[[str], T]) -> dict[str, T]:
    """Calls a function with the name of each task, also after faults; returns its results by task.

    Raises:
        RecipeError: the function raised errors for some of the tasks; the message lists all of them.
    """
    results, faults = {}, []
    for name in tasks:
        try:
            results[name] = prepare_task(name)
        except BertkitError as error:
            faults.append(f"{name}: {error}")
    if faults:
        hint = f"\nthe other tasks have no faults: --task {','.join(results)}" if results else ""
        raise RecipeError(listed(faults) + hint)
    return results


def _find_earlier(output_dir: Path, tasks: Container[str], inner: str = "") -> dict[Path, Recipe]:
    """Returns the finished runs of other tasks in a folder; ``inner`` is the folder of the run in that of its task."""
    places = [output_dir / name / inner for name in recipes_in(GLUE) if name not in tasks]
    return {place: load_recipe(place / "recipe.yaml") for place in places if is_finished(place)}


# ---- the leaderboard ------------------------------------------------------------------------------------------------


def _find_predictions(runs: Mapping[Path, Recipe]) -> dict[str, Path]:
    """Returns name in the zip file → prediction file, for run directories with their recipes."""
    files: dict[str, Path] = {}
    for folder, recipe in runs.items():
        task = task_of_recipe(recipe)
        assert isinstance(task, GlueTask)
        for split, file in task.settings.submission.items():
            path = folder / task.predictions_file(split)
            if path.is_file():
                files[file] = path
    return files


def _find_submission(files: Mapping[str, Path], output_dir: Path) -> tuple[Path | None, tuple[str, ...]]:
    """Returns the path of the zip file, None without any files for it, and the names that the leaderboard lacks."""
    required = [file for name in recipes_in(GLUE) for file in load_recipe(GLUE + name).task.submission.values()]
    return output_dir / SUBMISSION if files else None, tuple(file for file in required if file not in files)


def _write(files: Mapping[str, Path], output_dir: Path, results: Mapping[str, Any]) -> None:
    """Writes ``glue_results.json``, and the zip file for the leaderboard if there are prediction files."""
    if files:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as bundle:
            for file, path in files.items():
                bundle.write(path, file)
        write_whole(output_dir / SUBMISSION, packed.getvalue())
    write_json(output_dir / RESULTS, results, default=str)


# ---- tables ---------------------------------------------------------------------------------------------------------


def glue_table(results: GlueResults, format: Format = "text") -> str:
    """Formats the scores of all tasks on dev in per cent; see `ResultTable.formatted`."""
    rows = []
    for name, score in results.scores.items():
        metrics = ", ".join(f"{key.removeprefix('eval_')} {value:.4f}" for key, value in results.tasks[name].items())
        collapsed = f", collapsed: {results.collapsed[name]}" if name in results.collapsed else ""
        rows.append((name, f"{score:.1f}", metrics + collapsed))
    rows.append(("average", f"{results.average:.1f}", f"of {counted(len(rows), 'task')}, on dev"))
    columns = dict(zip(("task", "score", "metrics"), map(list, zip(*rows, strict=True)), strict=True))
    scores = [{"task": name, "score": score} for name, score in results.scores.items()]
    return ResultTable(columns, scores, lines=_for_the_leaderboard(results, "")).formatted(format)


def glue_grid_table(results: GlueGridResults, format: Format = "text") -> str:
    """Formats the best setting of each task, with means in per cent, in CSV as in the results; see
    `ResultTable.formatted`."""
    rows = []
    for name, each in results.tasks.items():
        row = each.best_setting
        if row is None or row.mean is None:
            rows.append((name, "-", "0", each.metric, "", "every run failed"))
            continue
        score = score_text(100 * row.mean, None if row.sd is None else 100 * row.sd, digits=1)
        rows.append((name, score, str(row.n), each.metric, label(row.values), notes(row)))
    if results.average is not None:
        rows.append(("average", f"{results.average:.1f}", "", "", "", ""))
    names = ("task", "mean ± sd", "n", "metric", "best setting", "notes")
    columns = {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    lines = []
    if (most := max(each.tried for each in results.tasks.values())) > 1:
        lines.append(
            f"{most} settings: the best one of each task is chosen on its validation set, so these scores are too high"
        )
    lines += [*_for_the_leaderboard(results, ", from the best runs"), *failures(results.failed)]
    best = [
        {"task": name, "metric": each.metric, "setting": row.name}
        | {key: getattr(row, key) for key in ("n", "mean", "sd", "low", "high")}
        for name, each in results.tasks.items()
        if (row := each.best_setting)
    ]
    table = ResultTable({name: column for name, column in columns.items() if any(column)}, best, lines=lines)
    return table.formatted(format)


def _for_the_leaderboard(results: GlueResults | GlueGridResults, source: str) -> list[str]:
    if results.submission is None:
        return []
    missing = f"; the leaderboard also requires {', '.join(results.missing)}" if results.missing else ""
    return [f"for the leaderboard{source}: {results.submission}{missing}"]
