"""Results of a grid: statistics of each setting, the best one, its best run, and out-of-fold predictions."""

from __future__ import annotations

import dataclasses
import math
import shutil
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from bertkit.features.grids.definition import RUNS, Cell, Definition, Record, Setting, read
from bertkit.features.grids.search import Search
from bertkit.features.grids.workers import record_of
from bertkit.inference.evaluation import outcome_of
from bertkit.inference.networks import mean_outputs
from bertkit.inference.outcome import OUT_OF_FOLD_FILE, out_of_fold_rows
from bertkit.inference.predictor import load_task
from bertkit.metrics import score_limits
from bertkit.metrics.intervals import mean_interval
from bertkit.metrics.statistics import expected_best
from bertkit.runtime.files import new_folder, remove_unfinished, write_json, write_json_lines, write_whole
from bertkit.runtime.formats import to_csv
from bertkit.runtime.pages.summary import Summarized, Summary
from bertkit.runtime.progress import counted
from bertkit.tasks.base import PerExampleTask, Task, per_example
from bertkit.tasks.folds import fold_of_each
from bertkit.tasks.registry import task_of_recipe
from bertkit.training.runs.directory import contents
from bertkit.training.runs.listing import GRID_RESULTS, RECORDS
from bertkit.training.runs.record import is_finished

COLLAPSED = "a run that predicts the same for all examples"
RESULTS, TABLE, BEST = GRID_RESULTS, "grid_results.csv", "best"
NO_TEST_SET = "no score of a test set was used"


@dataclass(frozen=True)
class SettingResult:
    """Scores of the runs of one setting.

    Attributes:
        name: name of the setting, the start of the names of its run directories.
        values: recipe values by dotted key.
        n: number of finished runs.
        mean, sd, median, min, max: statistics of their main metric; ``sd`` is that of a sample, None for one run.
        low, high: ends of the 95 % interval of the mean over runs (Student's t, within the range of the score); None
            for one run, or equal scores.
        collapsed: names of the runs that predict the same for all examples.
        failed: names of the runs that failed.
        pruned: whether the search left out the other runs.
    """

    name: str
    values: Mapping[str, Any]
    n: int
    mean: float | None
    sd: float | None
    median: float | None
    min: float | None
    max: float | None
    low: float | None
    high: float | None
    collapsed: tuple[str, ...]
    failed: tuple[str, ...]
    pruned: bool = False


@dataclass(frozen=True)
class GridResults(Summarized):
    """Results of `bertkit.finetune_grid`, also written to ``grid_results.json``.

    Attributes:
        output_dir: output folder of the grid.
        task: name of the task.
        metric: metric of all scores, averaged over the validation sets if there are several.
        settings: results of the settings, in the order of the grid.
        runs: name of a run directory → its record: ``score`` and ``metrics``, or ``error``.
        best: name of the setting with the highest mean among those with the most finished runs; None without any.
        best_run: name of its run with the highest score, of which ``best/`` is a copy.
        note: how the best setting was chosen, and what that means for its score.
        expected_best: expected mean of the best of 1 to k settings, (k,), drawn from those with the most finished runs
            (`bertkit.metrics.statistics.expected_best`).
        unfinished: number of runs that have not ended.
        test: ``n``, ``mean``, ``sd``, ``low`` and ``high`` of the runs of the best setting on the test set, as in
            `SettingResult`; None without a labelled one.
        out_of_fold: number and scores of the out-of-fold predictions of the best setting; None without folds, unless
            all of its runs have finished, and for a task that is no `bertkit.tasks.base.PerExampleTask`.
    """

    output_dir: Path
    task: str
    metric: str
    settings: tuple[SettingResult, ...]
    runs: Mapping[str, Record]
    best: str | None
    best_run: str | None
    note: str
    expected_best: tuple[float, ...] = ()
    unfinished: int = 0
    test: Mapping[str, float | None] | None = None
    out_of_fold: Mapping[str, float] | None = None

    def summary(self) -> Summary:
        """Returns what is printed, and shown in notebooks."""
        scores = [(each.name, "–" if each.mean is None else each.mean) for each in self.settings]
        best = "no run has finished" if self.best is None else f"best: {self.best}; {self.note}"
        return Summary(f"Grid {self.output_dir}: {self.metric}", scores, [best])

    @property
    def best_setting(self) -> SettingResult | None:
        """Returns the row of the best setting."""
        return next((row for row in self.settings if row.name == self.best), None)

    @property
    def tried(self) -> int:
        """Number of settings with a finished run, also of those with fewer than the best one has."""
        return sum(row.n > 0 for row in self.settings)

    @property
    def failed(self) -> dict[str, str]:
        """Returns the errors of the failed runs by name."""
        return {name: str(record["error"]) for name, record in self.runs.items() if "error" in record}


def settings_of(definition: Definition, folder: Path) -> list[Setting]:
    """Returns the settings of a grid, or those that a search has tried so far."""
    return Search(definition, folder).settings() if definition.search else definition.settings()


def collect(definition: Definition, task: Task, folder: Path) -> GridResults:
    """Reads the records of all cells and computes the statistics; writes nothing."""
    pruned = Search(definition, folder).pruned() if definition.search else set()
    rows: list[SettingResult] = []
    runs: dict[str, Record] = {}
    names: set[str] = set()  # of the scores of all runs
    score_range = (-math.inf, math.inf)
    settings = settings_of(definition, folder)
    unfinished = max((definition.trials or 0) - len(settings), 0) * definition.runs_per_setting
    for setting in settings:
        records = {cell.name: record_of(folder, cell) for cell in definition.cells(setting)}
        ended = {name: record for name, record in records.items() if record is not None}
        # Tracebacks name places of this machine, and stay in the records.
        runs |= {name: {key: record[key] for key in record if key != "traceback"} for name, record in ended.items()}
        names |= {key.removeprefix("eval_") for record in ended.values() for key in record.get("metrics", ())}
        score_range = score_limits(task.main_metric, names)
        rows.append(_summarize_setting(setting, ended, setting.number in pruned, score_range))
        unfinished += 0 if setting.number in pruned else len(records) - len(ended)
    # A mean over fewer runs is not comparable: those that are missing diverged, or were pruned.
    most = max((row.n for row in rows), default=0)
    means = {row.name: row.mean for row in rows if row.n == most and row.mean is not None}
    best = max(means, key=lambda name: means[name], default=None)
    of_best = scored_runs(runs, best)
    note, tried = "no other setting to choose from", sum(row.n > 0 for row in rows)
    if tried > 1:
        chosen = f"the best of {tried} settings by the mean score on the validation set"
        note = f"{chosen}, so this score is too high for other data"
    tests = [record["test_score"] for record in of_best.values() if "test_score" in record]
    return GridResults(
        output_dir=folder,
        task=task.name,
        metric=task.main_metric,
        settings=tuple(rows),
        runs=runs,
        best=best,
        best_run=max(of_best, key=lambda name: of_best[name]["score"], default=None),
        note=f"{note}; {NO_TEST_SET}",
        expected_best=tuple(expected_best(list(means.values()))) if means else (),
        unfinished=unfinished,
        test={"n": len(tests), **summarize_scores(tests, score_range)} if tests else None,
    )


def scored_runs(runs: Mapping[str, Record], setting: str | None) -> dict[str, Record]:
    """Returns the records with a score of the runs of a setting, by the name of the run; none without a setting."""
    return {name: record for name, record in runs.items() if name.startswith(f"{setting}-seed=") and "score" in record}


def read_results(folder: Path) -> tuple[Definition, GridResults]:
    """Reads the definition of a grid and collects its results, with the metric of the problem that the runs have found.

    Raises:
        OutputError: there is no grid.
        RecipeError: it is a search, and Optuna is missing.
    """
    definition, task = read(folder), None
    for setting in settings_of(definition, folder):
        for cell in definition.cells(setting):
            if task is None and is_finished(folder / RUNS / cell.name):
                task, _ = load_task(str(folder / RUNS / cell.name), {})
    return definition, collect(definition, task or task_of_recipe(definition.recipe), folder)


def limits(results: GridResults) -> list[str]:
    """Returns what a reader of a score of the best setting has to know: how it was chosen, and which runs count."""
    notes, folder = [], results.output_dir
    if results.unfinished:
        notes.append(
            f"{folder}: this grid is not complete, with {counted(results.unfinished, 'run')} left, so another setting "
            "may become the best one; repeat its command"
        )
    if results.tried > 1:
        notes.append(f"{folder}: {results.best} is {results.note}")
    if (row := results.best_setting) and row.collapsed:
        notes.append(
            f"{folder}: collapsed, with the same prediction for all examples: {len(row.collapsed)} of "
            f"{counted(row.n, 'run')}"
        )
    return notes


def _summarize_setting(
    setting: Setting, records: Mapping[str, Record], pruned: bool, score_range: tuple[float, float]
) -> SettingResult:
    scores = [record["score"] for record in records.values() if "score" in record]
    return SettingResult(
        name=setting.name,
        values=dict(setting.values),
        n=len(scores),
        **summarize_scores(scores, score_range),
        median=statistics.median(scores) if scores else None,
        min=min(scores, default=None),
        max=max(scores, default=None),
        collapsed=tuple(name for name, record in records.items() if record.get("collapsed")),
        failed=tuple(name for name, record in records.items() if "error" in record),
        pruned=pruned,
    )


def summarize_scores(scores: Sequence[float], score_range: tuple[float, float]) -> dict[str, float | None]:
    """Returns the mean, standard deviation and 95 % interval of scores of runs, within the range of the score."""
    interval = mean_interval(scores)
    low, high = (
        (None, None) if interval is None else (max(interval[0], score_range[0]), min(interval[1], score_range[1]))
    )
    mean = statistics.mean(scores) if scores else None
    return {"mean": mean, "sd": statistics.stdev(scores) if len(scores) > 1 else None, "low": low, "high": high}


def best_cells(definition: Definition, results: GridResults) -> list[Cell]:
    """Returns the finished cells of the best setting."""
    [setting] = [each for each in settings_of(definition, results.output_dir) if each.name == results.best]
    return [cell for cell in definition.cells(setting) if "score" in results.runs.get(cell.name, {})]


def write(definition: Definition, results: GridResults) -> GridResults:
    """Writes all files of the results, and returns these with out-of-fold scores; called by one worker at a time."""
    folder = results.output_dir
    for place in (folder, folder / RECORDS):
        remove_unfinished(place)
    if results.best is not None and definition.folds is not None:
        cells = best_cells(definition, results)
        has_references = isinstance(task_of_recipe(definition.recipe), PerExampleTask)
        if has_references and len(cells) == definition.runs_per_setting:
            results = dataclasses.replace(results, out_of_fold=_write_out_of_fold(cells, folder))
    if results.best_run is not None:  # copied without its intermediate checkpoints, unless it is there already
        run, place = folder / RUNS / results.best_run, folder / BEST
        names = [name for name in contents(run) if not name.startswith("checkpoint-")]
        is_there = place.is_dir() and {*names} <= {*contents(place)}  # a user may have put more there
        if not is_there or (place / "run.json").read_bytes() != (run / "run.json").read_bytes():
            with new_folder(place) as draft:
                for name in names:
                    copy = shutil.copytree if (run / name).is_dir() else shutil.copyfile
                    copy(run / name, draft / name)
                if place.is_dir():
                    shutil.rmtree(place)  # only now, so that a failed copy leaves the old one
    write_whole(folder / TABLE, to_csv(setting_rows(results)))
    plain = {**dataclasses.asdict(results), "output_dir": str(folder)}
    write_json(folder / RESULTS, plain)
    return results


def _write_out_of_fold(cells: Sequence[Cell], folder: Path) -> dict[str, float]:
    """Writes predictions by the models that were not trained on the examples; returns their number and scores.

    With several seeds the outputs of their models are averaged.
    """
    rows: dict[int, dict[str, Any]] = {}
    sides: list[tuple[Sequence[Any], Sequence[Any]]] = []
    for fold in sorted({cell.fold for cell in cells if cell.fold is not None}):
        outcomes = [outcome_of(folder / RUNS / cell.name) for cell in cells if cell.fold == fold]
        mean = dataclasses.replace(outcomes[0], outputs=mean_outputs([each.outputs for each in outcomes]))
        sides.append(mean.predictions_and_references())
        _, splits = mean.task.load(["train"])
        indices = np.flatnonzero(fold_of_each(mean.task, splits["train"].examples)[0] == fold).tolist()
        of_fold = out_of_fold_rows(mean, indices, [fold] * len(indices))
        rows |= {row["index"]: row for row in of_fold}
    write_json_lines(folder / OUT_OF_FOLD_FILE, [rows[index] for index in sorted(rows)])
    predictions: Any
    references: Any
    predictions, references = (
        np.concatenate(parts) if isinstance(parts[0], np.ndarray) else [each for part in parts for each in part]
        for parts in zip(*sides, strict=True)
    )
    scores = per_example(mean.task).compute_metrics(predictions, references)
    # Of NumPy too, as in the results of a run.
    return {"examples": len(rows), **{key: float(value) for key, value in scores.items() if isinstance(value, Real)}}


def setting_rows(results: GridResults) -> list[dict[str, Any]]:
    """Returns a row for each setting, with a column for each recipe value and all digits."""
    keys = list(dict.fromkeys(key for row in results.settings for key in row.values))
    rows = []
    for setting in results.settings:
        row = {field.name: getattr(setting, field.name) for field in dataclasses.fields(SettingResult)}
        row |= {name: len(row[name]) for name in ("collapsed", "failed")}
        values = row.pop("values")
        rows.append({"name": row.pop("name"), **{key: values.get(key) for key in keys}, **row})
    return rows
