"""Workers of a grid: each takes cells that no other has taken.

With several GPUs there is one worker process per GPU, ``python -m bertkit.grids.workers FOLDER``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from bertkit.grids.cells import RECORDS, record_of, run_cell
from bertkit.grids.definition import RUNS, Cell, Definition, Setting, read
from bertkit.grids.search import Search
from bertkit.grids.values import label
from bertkit.locks import FolderInUseError, RunLock
from bertkit.placement.launch import LAUNCHER, end_with_launcher, environment_of_gpu, module_command
from bertkit.progress import duration, say
from bertkit.tasks.encoding import sharing_encodings

ENCODED = "encoded"
"""Folder of the tokenized data of a grid."""
_POLL = 1.0  # seconds between two looks at the cells of other workers
_FOR_THE_LOCK = 60.0  # seconds; workers hold the lock of a grid for less than one


class Source(Protocol):
    """The cells of a grid as they become known."""

    def cells(self) -> list[Cell]:
        """Returns the cells that have no record yet; none if the grid is complete."""

    def more(self) -> bool:
        """Adds cells while all known ones are taken; returns whether there are any."""


class AllCells:
    """Source of a plain grid: its cells are known from the start."""

    def __init__(self, definition: Definition, folder: Path):
        self.folder = folder
        self._left = [cell for setting in definition.settings() for cell in definition.cells(setting)]

    def cells(self) -> list[Cell]:
        # A record stays while workers run, so each is read once.
        self._left = [cell for cell in self._left if record_of(self.folder, cell) is None]
        return self._left

    def more(self) -> bool:
        return False


class SampledCells:
    """Source of a search: the cells of the running trials; a new trial begins when all of these are taken."""

    def __init__(self, definition: Definition, folder: Path):
        self.definition, self.folder, self.search = definition, folder, Search(definition, folder)

    def cells(self) -> list[Cell]:
        with grid_lock(self.folder):
            settings: list[Setting] = self.search.advance(lambda cell: record_of(self.folder, cell))
            if not settings and (setting := self.search.ask()) is not None:
                settings = [setting]
        every = (cell for setting in settings for cell in self.definition.cells(setting))
        return [cell for cell in every if record_of(self.folder, cell) is None]

    def more(self) -> bool:
        with grid_lock(self.folder):
            return self.search.ask() is not None


def source_of(definition: Definition, folder: Path) -> Source:
    """Returns the source of the cells of a grid."""
    return SampledCells(definition, folder) if definition.search else AllCells(definition, folder)


@contextmanager
def grid_lock(folder: Path) -> Iterator[None]:
    """Context in which one worker at a time reads and changes the files that all workers share; waits for others.

    Raises:
        FolderInUseError: another process has held the lock for a minute.
    """
    lock = RunLock(folder / RUNS)
    deadline = time.monotonic() + _FOR_THE_LOCK
    while True:
        try:
            lock.__enter__()
            break
        except FolderInUseError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
    try:
        yield
    finally:
        lock.__exit__()


def work(definition: Definition, folder: Path) -> None:
    """Runs the cells of a grid that are not taken, until every cell has a record.

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
                    say(f"waiting for {len(cells)} runs of other workers")
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


def take_part(folder: Path) -> None:
    """Runs cells of the grid in ``folder`` until it is complete; tokenized data are shared with other workers."""
    with sharing_encodings(folder / ENCODED):
        work(read(folder), folder)


def work_on_gpus(folder: Path, gpus: int) -> None:
    """Starts a worker process per GPU and waits for all; returns also if one of them was killed.

    The workers end with this process, however it ends.
    """
    environment = {**os.environ, LAUNCHER: str(os.getpid())}
    processes = [
        subprocess.Popen(
            module_command("bertkit.grids.workers", str(folder)),
            env={**environment, **environment_of_gpu(number, gpus, os.environ)},
        )
        for number in range(gpus)
    ]
    try:
        for number, process in enumerate(processes):
            code = process.wait()
            if code:
                say(f"warning: the worker of GPU {number} ended with code {code}; the others take its cells")
    finally:
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait()


if __name__ == "__main__":
    end_with_launcher()
    take_part(Path(sys.argv[1]))
