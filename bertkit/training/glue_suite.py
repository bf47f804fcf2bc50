"""Fine-tuning on several GLUE tasks, with a table of scores and a zip file for the leaderboard (gluebenchmark.com)."""

from __future__ import annotations

import gc
import io
import json
import statistics
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from bertkit.errors import BertkitError, OutputError, RecipeError, listed
from bertkit.files import remove_unfinished, write_json, write_whole
from bertkit.placement.resolve import check_processes, is_main_process
from bertkit.progress import counted, is_score, say
from bertkit.recipe.find import list_recipes
from bertkit.recipe.load import Recipe
from bertkit.tasks.classification.glue import GlueTask
from bertkit.tasks.construction import task_of_recipe
from bertkit.tasks.folds import load_splits
from bertkit.tasks.registry import load_recipe
from bertkit.tasks.splits import is_scored
from bertkit.training.callbacks import check_callbacks
from bertkit.training.finetune import finetune, with_absolute_paths
from bertkit.training.recovery.run_scope import writes_run
from bertkit.training.run_directory import check_repeated_run, contents, is_finished, recorded
from bertkit.training.tracking import run_group

RESULTS, SUBMISSION = "glue_results.json", "glue_submission.zip"
FAMILY = "finetune/glue/"


@dataclass(frozen=True)
class GlueResults:
    """Results of `finetune_glue`, also written to ``glue_results.json``.

    Attributes:
        output_dir: folder with a run directory for each task.
        tasks: task → its scores on dev, ``eval_…``, in [0, 1], correlations in [-1, 1].
        scores: task → its main metric in percent, averaged over both dev sets for MNLI.
        average: mean of ``scores``.
        submission: the zip file for the leaderboard; ``None`` if no task had a test set.
        missing: files that the leaderboard requires and no task has written.
        collapsed: task → description of its predictions on dev, if they are all the same; see `bertkit.training.Run`.
    """

    output_dir: Path
    tasks: dict[str, dict[str, float]]
    scores: dict[str, float]
    average: float
    submission: Path | None
    missing: tuple[str, ...]
    collapsed: dict[str, str]


def glue_tasks() -> list[str]:
    """Returns the names of the tasks that have a recipe."""
    return [name.removeprefix(FAMILY) for name in list_recipes() if name.startswith(FAMILY)]


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
    """
    check_callbacks(callbacks)
    if not tasks or len(set(tasks)) < len(tasks):
        raise RecipeError(f"tasks: expected one or more of {', '.join(glue_tasks())}, each once; got {list(tasks)}")
    output_dir = Path(output_dir)
    given = {"model.name_or_path": model, "data.data_dir": data_dir}
    chosen = {**(overrides or {}), **{key: str(value) for key, value in given.items() if value is not None}}
    recipes = {name: with_absolute_paths(load_recipe(FAMILY + name, chosen)) for name in tasks}
    for recipe in recipes.values():
        check_processes(recipe.placement)
    _check(recipes, output_dir)
    results: dict[str, dict[str, float]] = {}
    for number, (name, recipe) in enumerate(recipes.items(), start=1):
        folder = output_dir / name
        if is_finished(folder):
            say(f"{number}/{len(recipes)} {name}: already finished; {folder}")
        else:
            say(f"{number}/{len(recipes)} {name}")
            with run_group(output_dir):
                finetune(recipe, output_dir=folder, resume=(folder / "recipe.yaml").is_file(), callbacks=callbacks)
            gc.collect()  # a trainer and its model refer to each other
        results[name] = _evaluation(folder)
    return _conclude(recipes, results, output_dir)


def _check(recipes: Mapping[str, Recipe], output_dir: Path) -> None:
    """Checks all tasks before the first one is run; reads the data of all tasks that are not finished.

    Raises:
        BertkitError: ``output_dir`` contains other files, a task there was run with another recipe, or data are missing
            or invalid.
    """
    if output_dir.exists() and not output_dir.is_dir():
        raise OutputError(f"--output-dir {output_dir}: a file of that name exists; give a folder")
    known = {*glue_tasks(), RESULTS, SUBMISSION}
    others = [name for name in contents(output_dir) if name not in known]
    if others:
        raise OutputError(
            f"--output-dir {output_dir}: contains {', '.join(others[:3])}, which is not a task; give another folder"
        )
    faults = {}
    for name, recipe in recipes.items():
        try:
            check_repeated_run(recipe, output_dir / name)
            if not is_finished(output_dir / name):
                load_splits(_task(recipe))
        except BertkitError as error:
            faults[name] = f"{name}: {error}"
    if faults:
        rest = [name for name in recipes if name not in faults]
        hint = f"\nthe other tasks have no faults: --task {','.join(rest)}" if rest else ""
        raise RecipeError(listed(list(faults.values())) + hint)


def _task(recipe: Recipe) -> GlueTask:
    task = task_of_recipe(recipe)
    assert isinstance(task, GlueTask)
    return task


def _evaluation(folder: Path) -> dict[str, float]:
    metrics = json.loads((folder / "eval_results.json").read_text(encoding="utf-8"))
    return {key: value for key, value in metrics.items() if is_score(key) and not key.startswith("eval_loss")}


def _conclude(recipes: Mapping[str, Recipe], results: dict[str, dict[str, float]], output_dir: Path) -> GlueResults:
    scores: dict[str, float] = {}
    for name, recipe in recipes.items():
        task = _task(recipe)
        suffixes = [split.removeprefix("validation") for split in task.splits if is_scored(split)]
        scores[name] = 100 * statistics.mean(results[name][f"eval_{task.main_metric}{suffix}"] for suffix in suffixes)
    average = statistics.mean(scores.values())
    files, missing = submission_files({name: (recipe, output_dir / name) for name, recipe in recipes.items()})
    collapsed = {name: text for name in recipes if (text := recorded(output_dir / name).get("collapse"))}
    submission = output_dir / SUBMISSION if files else None
    found = GlueResults(output_dir, results, scores, average, submission, missing, collapsed)
    if not is_main_process():
        return found
    remove_unfinished(output_dir)
    write_submission(files, output_dir)
    write_json(output_dir / RESULTS, {"tasks": results, "scores": scores, "average": average, "collapsed": collapsed})
    return found


def submission_files(runs: Mapping[str, tuple[Recipe, Path]]) -> tuple[dict[str, Path], tuple[str, ...]]:
    """Finds the prediction files of runs for the leaderboard.

    Args:
        runs: task → recipe and run directory.

    Returns:
        Name in the zip file → file; and the names that the leaderboard requires and no run has written.
    """
    files: dict[str, Path] = {}
    for recipe, folder in runs.values():
        task = _task(recipe)
        for split, file in task.task.submission.items():
            path = folder / task.predictions_file(split)
            if path.is_file():
                files[file] = path
    wanted = [file for name in glue_tasks() for file in load_recipe(FAMILY + name).task.submission.values()]
    return files, tuple(file for file in wanted if file not in files)


def write_submission(files: Mapping[str, Path], output_dir: Path) -> None:
    """Writes the zip file for the leaderboard, if there are any files."""
    if files:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as bundle:
            for file, path in files.items():
                bundle.write(path, file)
        write_whole(output_dir / SUBMISSION, packed.getvalue())


def glue_table(results: GlueResults) -> str:
    """Formats the scores of all tasks as a table for a terminal."""
    width = max(map(len, results.scores))
    lines = []
    for name, score in results.scores.items():
        shown = ", ".join(f"{key.removeprefix('eval_')} {value:.4f}" for key, value in results.tasks[name].items())
        collapse = f", collapsed: {results.collapsed[name]}" if name in results.collapsed else ""
        lines.append(f"{name:<{width}}  {score:5.1f}  {shown}{collapse}")
    number = len(results.scores)
    lines.append(f"{'':<{width}}  {results.average:5.1f}  average of {counted(number, 'task')}, on dev")
    if results.submission is not None:
        lacks = f"; the leaderboard also requires {', '.join(results.missing)}" if results.missing else ""
        lines.append(f"for the leaderboard: {results.submission}{lacks}")
    return "\n".join(lines)
