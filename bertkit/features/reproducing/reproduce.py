"""`bertkit.reproduce`: a table of the BERT paper as grids of fine-tunings, with the paper's scores beside ours."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bertkit.features.grids.definition import RUNS
from bertkit.features.grids.grid import PreparedGrid, all_values, prepare
from bertkit.features.grids.results import GridResults
from bertkit.features.grids.values import Values, spaces_of
from bertkit.features.grids.workers import grid_lock
from bertkit.features.reproducing.paper import SOURCE, PaperRun, PaperTable, paper_run, paper_table, table_names
from bertkit.features.reproducing.scores import (
    Candidate,
    ReproducedRow,
    Reproduction,
    average_of,
    candidate_of,
    reproduction_table,
    row_of,
)
from bertkit.runtime.errors import BertkitError, DataError, OutputError, RecipeError, did_you_mean, listed, noted
from bertkit.runtime.files import write_json, write_whole
from bertkit.runtime.formats import WIDEST, Format
from bertkit.runtime.options import several
from bertkit.runtime.progress import say
from bertkit.tasks.registry import load_recipe
from bertkit.training.runs.directory import check_contents

GRIDS = "grids"
_FORMS: dict[str, Format] = {"txt": "text", "tex": "latex", "md": "markdown"}
_UNSAFE = re.compile(r"[^\w.+-]+")


def reproduce(
    table: str,
    *,
    model: str | Sequence[str],
    output_dir: str | Path,
    data_dir: str | Path | None = None,
    tasks: Sequence[str] | None = None,
    grid: Values = (),
    seeds: int = 3,
    overrides: Mapping[str, Any] | None = None,
) -> Reproduction:
    """Fine-tunes checkpoints on the tasks of a table of the BERT paper, and sets the scores beside the paper's.

    A checkpoint is compared with the paper's model of its size. Checkpoints of other sizes, and runs on a part of the
    data, have scores but no difference. Repeating the call continues: finished runs stay, and tables in the same folder
    share them.

    Args:
        table: ``table-1`` (GLUE), ``table-2`` (SQuAD 1.1), ``table-3`` (SQuAD 2.0), ``table-4`` (SWAG), ``table-5``
            (pre-training tasks), ``table-6`` (sizes) or ``table-7`` (named entities).
        model: checkpoints to fine-tune, folders or Hub ids. Tables 5 and 6 have a row for each.
        output_dir: folder of the runs and the results; new or empty, or that of earlier calls.
        data_dir: folder with GLUE's folders, or with ``glue/``, ``squad/``, ``swag/`` and ``conll2003/``. Without it
            the data are loaded from the Hub.
        tasks: names of the tasks, such as ``rte``; all of the table by default.
        grid: recipe key → values to try for each task, as in `bertkit.finetune_grid`; the scores are those of the best
            setting on dev. The paper does so on GLUE: ``train.learning_rate=5e-5,4e-5,3e-5,2e-5``.
        seeds: fine-tunings of each checkpoint on each task with each setting.
        overrides: recipe values by dotted key, the same for every task.

    Returns:
        The scores, which are also in ``TABLE.json``, ``.txt``, ``.tex`` and ``.md`` of ``output_dir``.

    Raises:
        BertkitError: an argument, a checkpoint or data are invalid, no task has data, or the folder holds other files;
            then nothing has been trained.

    Examples:
        ```python
        results = bertkit.reproduce("table-1", model=["my-bert"], tasks=["sst2"], data_dir="GLUE", output_dir="out")
        results.rows[0].paper, results.rows[0].mean  # of each model of the paper; ours
        ```
    """
    folder = Path(output_dir)
    paper, candidates, chosen = _check(table, several(model), tasks, seeds, folder)
    place = None if data_dir is None else Path(data_dir)
    prepared, missing = _prepare(chosen, candidates, folder, place, grid, seeds, overrides)
    grids: dict[tuple[str, str], GridResults] = {}
    for number, ((name, task), grid_of_task) in enumerate(prepared.items(), start=1):
        say(f"{number}/{len(prepared)} {name}: {task}")
        grids[name, task] = grid_of_task.run(worker=False)
    rows = [
        row_of(candidate, row, grids.get((candidate.name, row.run)), missing.get((candidate.name, row.run), ""))
        for candidate in candidates
        for row in paper.rows
        if row.run in chosen
    ]
    failed = {
        f"{name}/{task}/{run}": error for (name, task), each in grids.items() for run, error in each.failed.items()
    }
    if paper.average:
        rows += [mean for candidate in candidates if (mean := average_of(candidate, paper, rows)) is not None]
    results = Reproduction(
        folder,
        paper.name,
        paper.title,
        paper.page,
        paper.section,
        SOURCE,
        tuple(paper.systems),
        tuple(rows),
        failed,
        _collect_notes(paper, candidates, rows, seeds),
    )
    with grid_lock(folder):
        write_json(folder / f"{table}.json", asdict(results), default=str)
        for ending, form in _FORMS.items():
            write_whole(folder / f"{table}.{ending}", reproduction_table(results, WIDEST, form) + "\n")
    return results


# ---- checks ---------------------------------------------------------------------------------------------------------


def _check(
    table: str, models: Sequence[str], tasks: Sequence[str] | None, seeds: int, folder: Path
) -> tuple[PaperTable, list[Candidate], list[str]]:
    """Checks the arguments; returns the table, the checkpoints and the names of the tasks."""
    known = table_names()
    if table not in known:
        raise RecipeError(f"unknown table {table!r}; expected one of {', '.join(known)}{did_you_mean(table, known)}")
    paper, faults, candidates = paper_table(table), [], []
    chosen = paper.tasks if tasks is None else several(tasks)
    faults += [
        f"--tasks: {table} has no task {task!r}; expected {', '.join(paper.tasks)}{did_you_mean(task, paper.tasks)}"
        for task in chosen
        if task not in paper.tasks
    ]
    if not chosen or len(set(chosen)) < len(chosen):
        faults.append(f"--tasks: expected one or more of {', '.join(paper.tasks)}, each once")
    if seeds < 1:
        faults.append(f"--seeds: {seeds} is not at least 1")
    for path in models:
        with noted(faults, BertkitError):
            candidates.append(candidate_of(path, paper))
    names = Counter(_UNSAFE.sub("_", candidate.name) for candidate in candidates)
    faults += [f"--model: two checkpoints have the folder {GRIDS}/{name}" for name in names if names[name] > 1]
    if not models:
        faults.append("--model: give a checkpoint, a folder or a Hub id")
    with noted(faults, OutputError):
        # RUNS is left where the process that writes the results is killed.
        check_contents(folder, (GRIDS, RUNS, *(f"{name}.{form}" for name in known for form in ("json", *_FORMS))))
    if faults:
        raise RecipeError(listed(faults))
    return paper, candidates, chosen


def _prepare(
    tasks: Sequence[str],
    candidates: Sequence[Candidate],
    folder: Path,
    data_dir: Path | None,
    grid: Values,
    seeds: int,
    overrides: Mapping[str, Any] | None,
) -> tuple[dict[tuple[str, str], PreparedGrid], dict[tuple[str, str], str]]:
    """Checks all grids; returns them by name of checkpoint and task, and why others cannot be run.

    Raises:
        BertkitError: one message with all faults; or nothing can be run.
    """
    if data_dir is not None and not data_dir.is_dir():
        raise DataError(f"--data-dir {data_dir}: no such folder")
    prepared, missing, faults = {}, {}, []
    in_grid = spaces_of("--grid", grid, [])  # `prepare` tells its faults
    for candidate in candidates:
        for task in tasks:
            run, place = paper_run(task), folder / GRIDS / _UNSAFE.sub("_", candidate.name) / task
            try:
                values = {key: value for key, value in run.values.items() if key not in in_grid}
                layers = values.get("model.feature_layers")
                if layers == "all":
                    values["model.feature_layers"] = list(range(1, candidate.size.layers + 1))
                elif layers is not None and max(map(abs, layers)) > candidate.size.layers:
                    raise MissingError(f"{candidate.name} has only {candidate.size.layers} layers")
                values |= {**data_values(run, data_dir), **(overrides or {})}
                of_run = all_values(values, candidate.path, None)
                prepared[candidate.name, task] = prepare(run.recipe, place, grid, (), None, seeds, None, of_run)
            except MissingError as reason:
                missing[candidate.name, task] = str(reason)
            except BertkitError as error:
                own = {**in_grid, **(overrides or {})}
                ours = ", ".join(f"{key}={value}" for key, value in run.values.items() if key not in own)
                faults.append(f"{task}: {error}" + (f"\n(from the paper: {ours}; --set changes it)" if ours else ""))
    if faults:
        raise RecipeError(listed(list(dict.fromkeys(faults))))
    if not prepared:
        reasons = [f"{task}: {reason}" for (_, task), reason in missing.items()]
        raise DataError(f"nothing to reproduce:\n{listed(list(dict.fromkeys(reasons)))}")
    return prepared, missing


def _collect_notes(
    paper: PaperTable, candidates: Sequence[Candidate], rows: Sequence[ReproducedRow], seeds: int
) -> tuple[str, ...]:
    notes = [candidate.note for candidate in candidates if candidate.note]
    notes += [f"{candidate.name} is compared with {candidate.system}" for candidate in candidates if candidate.system]
    known = {candidate.system for candidate in candidates}
    if len(paper.systems) > 2 and (without := [system for system in paper.systems if system not in known]):
        notes.append(f"no checkpoint for {', '.join(without)}: give it with --model")
    if any(row.set != row.our_set for row in paper.rows):
        notes.append(
            "the paper's scores are of the test sets, by the leaderboard, and ours of the development sets, so that a "
            "difference is also one of the sets"
        )
    if any(row.setting for row in rows):
        notes.append("each score is of the setting that is best on dev; those on dev are too high for other data")
    if seeds == 1:
        notes.append("one run of each: no intervals; give --seeds")
    return (*notes, *paper.notes)


class MissingError(Exception):
    """A row cannot be reproduced, with the reason; the other ones can."""


def data_values(run: PaperRun, data_dir: Path | None) -> dict[str, Any]:
    """Returns the recipe values, by dotted key, of the data of a run.

    Args:
        run: the run.
        data_dir: folder with the data: that of GLUE, or one with ``glue/``, ``squad/``, ``swag/`` and ``conll2003/``.
            None takes the data from the Hub.

    Raises:
        MissingError: the training or the validation set does not exist, of GLUE the training set; the message names
            the files.
    """
    if data_dir is None:
        return dict(run.hub or {})
    if run.files is None:
        task = load_recipe(run.recipe).task
        for folder in (data_dir / "glue", data_dir):
            if (folder / task.folder / task.files["train"]).is_file():
                return {"data.data_dir": str(folder)}
        raise MissingError(f"no {task.folder}/{task.files['train']} in {data_dir / 'glue'} or {data_dir}")
    found: dict[str, Any] = {}
    for key, names in run.files.items():
        places = ((folder, name) for folder in (data_dir / run.folder, data_dir) for name in names)
        paths = (path for folder, name in places for path in sorted(folder.glob(name)) if path.is_file())
        if (first := next(paths, None)) is not None:
            found[f"data.{key}"] = str(first)
        elif key != "test_file":
            raise MissingError(f"no {' or '.join(names)} in {data_dir / run.folder} or {data_dir}")
    return found
