"""The scope of a run, from its first check to its last file: lock of the directory, signals, killed data workers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from bertkit.errors import TrainingError
from bertkit.locks import RunLock
from bertkit.placement.processes import is_main_process
from bertkit.progress import keeping_warnings
from bertkit.run.directory import check_place
from bertkit.run.tracking import records_closed
from bertkit.training.recovery import interruptions_reported

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@contextmanager
def killed_workers_reported() -> Iterator[None]:
    """Raises a TrainingError in place of torch's RuntimeError if a data worker of the block was killed."""
    try:
        yield
    except RuntimeError as error:
        if not str(error).startswith("DataLoader worker"):
            raise
        process = f"process {os.environ['RANK']}: " if int(os.environ.get("WORLD_SIZE", "1")) > 1 else ""
        raise TrainingError(
            f"{process}{' '.join(str(error).split())} The same command with --resume continues from the last "
            "checkpoint; --set placement.dataloader_num_workers=0 needs no workers"
        ) from error


@contextmanager
def run_scope(folder: Path) -> Iterator[None]:
    """Context in which a run writes to a folder.

    The main process holds its `RunLock`. A killed data worker raises a TrainingError. A signal that ends the run prints
    how to continue. The records of the run in trackers are closed at the end.

    Raises:
        FolderInUseError: another process holds the lock.
        OutputError: the folder cannot be created or written to.
    """
    check_place(folder)
    lock = RunLock(folder) if is_main_process() else nullcontext()
    with lock, keeping_warnings(), killed_workers_reported(), interruptions_reported(folder), records_closed():
        yield


def writes_run(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Decorates a function that writes a run to its keyword argument ``output_dir``, in the `run_scope` of it."""

    @wraps(function)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        if "output_dir" not in kwargs:
            return function(*args, **kwargs)  # raises the usual TypeError
        with run_scope(Path(cast(Any, kwargs["output_dir"]))):
            return function(*args, **kwargs)

    return run
