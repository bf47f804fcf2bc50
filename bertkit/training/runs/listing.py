"""Listing of the runs and grids below a folder, from their small files; no model and no data are loaded."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from bertkit.inference.networks import is_ensemble
from bertkit.recipe.files import read_recipe_file
from bertkit.runtime.errors import DataError, described
from bertkit.runtime.files import read_record
from bertkit.runtime.locks import is_locked
from bertkit.runtime.progress import say

State = Literal["finished", "running", "interrupted", "failed"]

GRID_FILE, GRID_RESULTS, RECORDS = "grid.json", "grid_results.json", "records"
"""Files and folder of a grid, see `bertkit.features.grids`."""

_RECIPE, _RECORD = "recipe.yaml", "run.json"


@dataclass(frozen=True)
class ListedRun:
    """Row of `runs`.

    Attributes:
        folder: the run directory, or the output folder of the grid.
        state: ``running`` if a process holds the lock of the folder, ``interrupted`` if none does and the run is not
            complete; ``failed`` for a run of a grid that ended with an error.
        task: name of the task; None if the recipe cannot be read, like the next value.
        checkpoint: name of the checkpoint that the run started from, without its folder; None for new weights.
        metric, score: main metric of the rows that are scored, of a pre-training the first loss; of a grid the mean of
            its best setting. None before the end, or without such rows.
        collapsed: number of the runs of the score that predict the same for all these rows; of a run 0 or 1.
        date: last change, in UTC and ISO 8601.
        cells: of a grid the number of its ended runs; None for a run.
        rows: number of examples that a run was trained on; None before the end, and of a grid.
    """

    folder: Path
    state: State
    task: str | None
    checkpoint: str | None
    metric: str | None
    score: float | None
    date: str
    cells: int | None = None
    collapsed: int = 0
    rows: int | None = None


def runs(folder: str | Path) -> list[ListedRun]:
    """Lists the run directories and grids in a folder and below it, sorted by folder.

    A grid is one row; its runs are listed if ``folder`` is the grid itself. Ensembles are not listed, as their runs
    are those of grids. Hidden folders, checkpoints of a run and links to folders are not searched. A folder below that
    cannot be read is a warning, and so are files of these names that another program wrote.

    Raises:
        DataError: the folder does not exist or cannot be read.

    Examples:
        ```python
        for run in bertkit.runs("."):
            print(run.folder, run.state, run.score)
        ```
    """
    root = Path(folder)
    if not root.is_dir():
        raise DataError(f"{folder}: no such folder; give a folder with run directories")
    try:
        os.listdir(root)
    except OSError as error:
        raise DataError(f"{folder}: cannot be read: {error.strerror}") from error
    return list(_below(root))


def _below(root: Path) -> Iterator[ListedRun]:
    unread = "cannot be read, so runs in it are not listed"
    for place, folders, files in os.walk(
        root, onerror=lambda error: say(f"warning: {error.filename}: {unread}: {error.strerror}")
    ):
        folder = Path(place)
        folders[:] = sorted(name for name in folders if not re.fullmatch(r"\..*|checkpoint-\d+", name))
        is_grid = GRID_FILE in files
        if not is_grid and is_ensemble(place):
            folders[:] = []  # its members are copies of runs
        elif is_grid or {_RECIPE, _RECORD} <= {*files}:  # a recipe alone may be a user's, beside folders of runs
            try:
                listed = _grid(folder) if is_grid else _run(folder)
            except Exception as error:  # files of another program, or of a run that is being removed
                say(f"warning: {folder}: not listed, since its files are not those of a run: {described(error, 200)}")
                continue
            # Of a grid, best/ is a copy of one of the runs, and encoded/ has their data.
            folders[:] = [name for name in folders if is_grid and name == "runs" and folder == root]
            yield listed


def _run(folder: Path) -> ListedRun:
    record, results = read_record(folder / _RECORD), read_record(folder / "all_results.json")
    recipe: Mapping[str, Any] = {}
    with suppress(Exception):  # a damaged recipe is no reason to list no runs
        recipe = read_recipe_file(folder / _RECIPE)[0]
    # The main metric, or the first score of the model card.
    main = [f"eval_{record.get('main_metric')}", *((record.get("card") or {}).get("main_metrics") or ())]
    known = (
        (key.removeprefix("eval_"), float(results[key])) for key in main if isinstance(results.get(key), int | float)
    )
    metric, score = next(known, (None, None))
    rows = results.get("train_samples")
    if rows is not None:  # inputs of the model, of which a long text has several
        rows = ((record.get("data") or {}).get("train") or {}).get("examples", rows)
    place = folder.absolute()  # the name of "." is empty
    of_grid = place.parent.parent / RECORDS / f"{place.name}.json"
    state: State = "finished" if record.get("finished") is True else "interrupted"
    if is_locked(folder):
        state = "running"
    elif state != "finished" and "error" in read_record(of_grid):
        state = "failed"
    collapsed = int(bool(record.get("collapse")))
    facts: dict[str, Any] = {"collapsed": collapsed, "rows": None if rows is None else int(rows)}
    return ListedRun(folder, state, *_of_recipe(recipe), metric, score, _date(folder), **facts)


def _grid(folder: Path) -> ListedRun:
    results, definition = read_record(folder / GRID_RESULTS), read_record(folder / GRID_FILE)
    records = folder / RECORDS
    ended = len(list(records.glob("*.json"))) if records.is_dir() else 0
    rows = [row for row in results.get("settings", ()) if row["name"] == results.get("best")]
    score, collapsed = (rows[0]["mean"], len(rows[0].get("collapsed", ()))) if rows else (None, 0)
    state: State = "finished" if results and ended == len(results.get("runs", ())) else "interrupted"
    if is_locked(folder):
        state = "running"
    of_recipe = _of_recipe(definition.get("recipe", {}))
    return ListedRun(folder, state, *of_recipe, results.get("metric"), score, _date(folder), ended, collapsed)


def _of_recipe(recipe: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Returns the name of the task and the checkpoint."""
    task, model = recipe.get("task") or {}, recipe.get("model") or {}
    source = model.get("name_or_path")
    if source is not None and Path(source).is_absolute():
        source = Path(source).name
    return task.get("name") or task.get("kind"), source


def _date(folder: Path) -> str:
    files = [path for path in folder.iterdir() if path.is_file()]
    newest = max((path.stat().st_mtime for path in files), default=folder.stat().st_mtime)
    return datetime.fromtimestamp(newest, UTC).isoformat(timespec="seconds")
