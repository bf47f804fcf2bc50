"""Grids of several GLUE tasks, with a table of mean scores and the zip file for the leaderboard from the best runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from bertkit.errors import BertkitError, OutputError, RecipeError, listed
from bertkit.files import remove_unfinished, write_json
from bertkit.grids.definition import GRID_FILE, Definition
from bertkit.grids.grid import Prepared, given, prepare, run
from bertkit.grids.results import BEST, GridResults
from bertkit.grids.table import aligned, notes
from bertkit.grids.values import Given, label
from bertkit.grids.workers import grid_lock
from bertkit.run.directory import contents
from bertkit.run.glue_suite import FAMILY, RESULTS, SUBMISSION, glue_tasks, submission_files, write_submission
from bertkit.tasks.registry import load_recipe


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


def finetune_glue_grid(
    tasks: Sequence[str],
    *,
    output_dir: str | Path,
    grid: Given = (),
    search: Given = (),
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
    """
    if not tasks or len(set(tasks)) < len(tasks):
        raise RecipeError(f"tasks: expected one or more of {', '.join(glue_tasks())}, each once; got {list(tasks)}")
    folder = Path(output_dir)
    others = [name for name in contents(folder) if name not in (*glue_tasks(), RESULTS, SUBMISSION, GRID_FILE, "runs")]
    if others:
        raise OutputError(
            f"--output-dir {folder}: contains {', '.join(others[:3])}, which is not a task; give another folder"
        )
    values = given(overrides, model, data_dir)
    prepared: dict[str, tuple[Definition, Prepared]] = {}
    faults: list[str] = []
    for name in tasks:
        try:
            prepared[name] = prepare(FAMILY + name, folder / name, grid, search, trials, seeds, folds, values)
        except BertkitError as error:
            faults.append(f"{name}: {error}")
    if faults:
        raise RecipeError(listed(faults))
    found = {name: run(*each, folder / name, worker) for name, each in prepared.items()}
    return _conclude(found, folder)


def _conclude(found: dict[str, GridResults], folder: Path) -> GlueGridResults:
    best = {name: each for name, each in found.items() if each.best is not None}
    means = [
        100 * row.mean
        for each in best.values()
        for row in each.settings
        if row.name == each.best and row.mean is not None
    ]
    files, missing = submission_files(
        {name: (load_recipe(folder / name / BEST / "recipe.yaml"), folder / name / BEST) for name in best}
    )
    average = mean(means) if len(means) == len(found) else None
    results = GlueGridResults(folder, found, average, folder / SUBMISSION if files else None, missing)
    with grid_lock(folder):
        remove_unfinished(folder)
        write_submission(files, folder)
        write_json(folder / RESULTS, asdict(results), default=str)
    return results


def glue_grid_table(results: GlueGridResults) -> str:
    """Formats the best setting of each task as a table for a terminal."""
    rows = []
    for name, each in results.tasks.items():
        row = next((row for row in each.settings if row.name == each.best), None)
        if row is None or row.mean is None:
            rows.append((name, "-", "0", each.metric, "", "every run failed"))
            continue
        spread = "" if row.sd is None else f" ± {100 * row.sd:.1f}"
        rows.append((name, f"{100 * row.mean:.1f}{spread}", str(row.n), each.metric, label(row.values), notes(row)))
    if results.average is not None:
        rows.append(("average", f"{results.average:.1f}", "", "", "", ""))
    names = ("task", "mean ± sd", "n", "metric", "best setting", "notes")
    columns = {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    lines = aligned({name: column for name, column in columns.items() if any(column)})
    if (most := max(len(each.expected_best) for each in results.tasks.values())) > 1:
        lines.append(
            f"{most} settings: the best one of each task is chosen on its validation set, so these scores are too high"
        )
    if results.submission is not None:
        lacks = f"; the leaderboard also requires {', '.join(results.missing)}" if results.missing else ""
        lines.append(f"for the leaderboard, from the best runs: {results.submission}{lacks}")
    lines += [f"failed: {name}: {error}" for name, error in results.failed.items()]
    if results.failed:
        lines.append(f"{len(results.failed)} runs failed; repeat the command to try them again")
    return "\n".join(lines)
