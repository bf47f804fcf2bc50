"""The runs of a grid: that of one cell and its record, and workers, each of which takes cells that no other has taken.

With several GPUs there is one worker process per GPU, ``python -m bertkit.features.grids.workers FOLDER``.
"""

from __future__ import annotations

import gc
import math
import os
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from bertkit.features.grids.definition import RUNS, Cell, Definition, Record, Setting, read
from bertkit.features.grids.search import Search
from bertkit.features.grids.values import label
from bertkit.inference.predictor import load_task
from bertkit.runtime.errors import BertkitError, described
from bertkit.runtime.files import read_json, read_record, write_json
from bertkit.runtime.locks import FolderInUseError, RunLock
from bertkit.runtime.placement.launch import (
    LAUNCHER,
    describe_signal,
    end_with_launcher,
    environment_of_gpu,
    module_command,
)
from bertkit.runtime.placement.processes import INTERRUPTED, STOP_SIGNALS, handled
from bertkit.runtime.progress import counted, duration, is_score, say
from bertkit.tasks.base import Task
from bertkit.tasks.encoding import sharing_encodings
from bertkit.tasks.splits import is_scored
from bertkit.training.runs.directory import run_scope
from bertkit.training.runs.finetune import prepare_finetuning, train_and_score
from bertkit.training.runs.listeners import run_group
from bertkit.training.runs.listing import RECORDS
from bertkit.training.runs.record import is_finished, recorded

ENCODED = "encoded"
"""Folder of the tokenized data of a grid."""
_POLL = 1.0  # seconds between two looks at other workers and their cells
_FOR_THE_LOCK = 60.0  # seconds; workers hold the lock of a grid for less than one, until they complete the best run


# ---- one cell --------------------------------------------------------------------------------------------------------


def record_of(folder: Path, cell: Cell) -> Record | None:
    """Returns the record of a cell in the grid of ``folder``; None if its run has not ended."""
    return read_record(folder / RECORDS / f"{cell.name}.json") or None


def write_record(folder: Path, cell: Cell, record: Record) -> None:
    """Writes the record of a cell in the grid of ``folder``."""
    write_json(folder / RECORDS / f"{cell.name}.json", record)


def forget_failures(folder: Path) -> None:
    """Removes the records of failed cells, so that they are run again."""
    for path in (folder / RECORDS).glob("*.json"):
        if "error" in read_record(path):
            path.unlink(missing_ok=True)


def run_cell(definition: Definition, cell: Cell, folder: Path) -> Record | None:
    """Runs a cell, or continues its run; writes and returns the record, with scores or the error.

    Returns None if another worker is running the cell.

    The lock of the run directory keeps other workers away. It ends with its process, so the cell of a killed worker can
    be taken at once.
    """
    place = folder / RUNS / cell.name
    try:
        with run_scope(place):
            if (known := record_of(folder, cell)) is not None:
                return known  # another worker has finished the cell before this one had the lock
            record: dict[str, Any]
            try:
                record = _complete_run(definition, cell, folder)
            except Exception as error:  # any fault of one cell, such as memory that runs out, must not end the others
                record = {"error": described(error)}
                if not isinstance(error, BertkitError):
                    record["traceback"] = "".join(traceback.format_exception(error))
            gc.collect()  # a trainer and its model refer to each other
            (folder / RECORDS).mkdir(exist_ok=True)
            write_record(folder, cell, record)
            return record
    except FolderInUseError:
        return None


def _complete_run(definition: Definition, cell: Cell, folder: Path) -> dict[str, Any]:
    """Runs a cell, or what is left of its run, and returns its record with the scores."""
    place, recipe = folder / RUNS / cell.name, definition.recipe_of(cell)
    if not is_finished(place):
        with run_group(folder):
            resume = (place / "recipe.yaml").is_file()
            train_and_score(prepare_finetuning(recipe, place, resume=resume, with_tests=False))
    metrics, (task, _) = metrics_of(place), load_task(str(place), {})
    collapsed = bool(recorded(place).get("collapse"))
    return {"score": main_score(task, metrics), "metrics": metrics, "collapsed": collapsed}


def metrics_of(place: Path) -> dict[str, float]:
    """Returns the scores of a finished run on its validation sets, ``eval_…``, and of its rivals, ``baseline_…``."""
    return {key: value for key, value in read_json(place / "eval_results.json").items() if is_score(key)}


def main_score(task: Task, metrics: Mapping[str, float]) -> float:
    """Returns the main metric of a task, averaged over the validation sets."""
    suffixes = [split.removeprefix("validation") for split in task.splits if is_scored(split)]
    known = [metrics[key] for suffix in suffixes if (key := f"eval_{task.main_metric}{suffix}") in metrics]
    return statistics.mean(known)


# ---- all cells -------------------------------------------------------------------------------------------------------


class AllCells:
    """Source of a plain grid: its cells are known from the start."""

    def __init__(self, definition: Definition, folder: Path):
        self.folder = folder
        self._left = [cell for setting in definition.settings() for cell in definition.cells(setting)]

    def cells(self) -> list[Cell]:
        """Returns the cells that have no record yet; none if the grid is complete."""
        # A record stays while workers run, so each is read once.
        self._left = [cell for cell in self._left if record_of(self.folder, cell) is None]
        return self._left

    def more(self) -> bool:
        """Adds cells while all known ones are taken; returns whether there are any."""
        return False


class SampledCells:
    """Source of a search: the cells of the running trials; a new trial begins when all of these are taken.

    Failed runs without a record are tried again. What they give then counts in the results, and not for the sampling,
    for which their trials have ended.
    """

    def __init__(self, definition: Definition, folder: Path):
        self.definition, self.folder, self.search = definition, folder, Search(definition, folder)

    def cells(self) -> list[Cell]:
        records: dict[str, Record | None] = {}

        def first_read(cell: Cell) -> Record | None:  # a run that ends meanwhile would leave no cell of a running trial
            if cell.name not in records:
                records[cell.name] = record_of(self.folder, cell)
            return records[cell.name]

        with grid_lock(self.folder, math.inf):  # another worker may be completing the best run
            settings: list[Setting] = self.search.advance(first_read)
            if not settings and (setting := self.search.ask()) is not None:
                settings = [setting]
            settings = [*self.search.failed(), *settings]
        every = (cell for setting in settings for cell in self.definition.cells(setting))
        return [cell for cell in every if first_read(cell) is None]

    def more(self) -> bool:
        with grid_lock(self.folder, math.inf):
            return self.search.ask() is not None


def source_of(definition: Definition, folder: Path) -> AllCells | SampledCells:
    """Returns the source of the cells of a grid."""
    return SampledCells(definition, folder) if definition.search else AllCells(definition, folder)


@contextmanager
def grid_lock(folder: Path, patience: float = _FOR_THE_LOCK) -> Iterator[None]:
    """Context in which one worker at a time reads and changes the files that all workers share; waits for others.

    Raises:
        FolderInUseError: another process has held the lock for ``patience``, in seconds.
    """
    deadline = time.monotonic() + patience
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(RunLock(folder / RUNS))
                break
            except FolderInUseError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
        yield


def work(definition: Definition, folder: Path) -> None:
    """Runs the cells of a grid that are not taken, until every cell has a record, but those of pruned settings.

    While all remaining cells are taken by other workers, it waits: a cell whose worker is killed is free again.
    """
    source, started, done = source_of(definition, folder), time.monotonic(), 0
    said_to_wait = False
    while cells := source.cells():
        for cell in cells:
            record = run_cell(definition, cell, folder)
            if record is not None:
                done += 1
                _report(definition, folder, cell, record, (time.monotonic() - started) / done)
                break
        else:
            if not source.more():
                if not said_to_wait:
                    say(f"waiting for {counted(len(cells), 'run')} of other workers")
                    said_to_wait = True
                time.sleep(_POLL)


def _report(definition: Definition, folder: Path, cell: Cell, record: Mapping[str, object], seconds: float) -> None:
    """Prints one line about a finished cell: its result and what is left."""
    ended = sum(1 for _ in (folder / RECORDS).glob("*.json"))
    left = max(definition.number_of_cells - ended, 0)
    at_most = "at most " if definition.search and left else ""
    where = "" if cell.fold is None else f" fold {cell.fold}"
    collapsed = ", collapsed (the same prediction for all examples)" if record.get("collapsed") else ""
    result = f"failed: {record['error']}" if "error" in record else f"score {record['score']:.4f}{collapsed}"
    rest = f"{at_most}{left} left, {duration(seconds)} each" if left else "none left"
    values = label(cell.setting.values) or "recipe"
    say(f"{ended}/{definition.number_of_cells} {values} seed {cell.seed}{where}: {result}; {rest}")


# ---- several GPUs ---------------------------------------------------------------------------------------------------


def work_on_gpus(folder: Path, gpus: int) -> None:
    """Starts a worker process per GPU and waits for all; returns also if one of them was killed.

    The workers end with this process, however it ends. Ctrl-C, SIGTERM, SIGUSR1 and SIGHUP reach this process alone: it
    sends SIGTERM to the workers, which save a checkpoint, and ends when they have. A second signal ends it at once.

    Raises:
        SystemExit: SIGTERM, SIGUSR1 or SIGHUP came.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        say(f"{folder}: interrupted; repeat the command to continue")
        raise SystemExit(INTERRUPTED)

    environment = {**os.environ, LAUNCHER: str(os.getpid())}
    working: dict[int, subprocess.Popen[bytes]] = {}
    try:
        with handled(STOP_SIGNALS, stop):
            for number in range(gpus):
                working[number] = subprocess.Popen(
                    module_command("bertkit.features.grids.workers", str(folder)),
                    env={**environment, **environment_of_gpu(number, gpus, os.environ)},
                    start_new_session=True,
                )
            while working:
                for number, process in list(working.items()):
                    if (code := process.poll()) is not None:
                        del working[number]
                        if code:
                            how = f"was killed by {describe_signal(-code)}" if code < 0 else f"ended with code {code}"
                            then = "; the others take its cells" if working else ""
                            say(f"warning: the worker of GPU {number} {how}{then}")
                if working:
                    time.sleep(_POLL)
    finally:
        for process in working.values():
            process.terminate()
        for process in working.values():
            process.wait()


if __name__ == "__main__":
    end_with_launcher()
    grid = Path(sys.argv[1])
    try:
        with sharing_encodings(grid / ENCODED):
            work(read(grid), grid)
    except BertkitError as refused:
        say(f"error: {refused}")
        sys.exit(2)
