"""Data workers (``placement.dataloader_num_workers``) that are killed, reported by one message."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bertkit.errors import TrainingError
from bertkit.placement.launch import describe_signal

# Messages of the handler of torch.utils.data for the end of a child process, which raises in any line of the program.
_OF_HANDLER = re.compile(r"DataLoader worker \(pid (\d+)\) (?:is killed by signal: (.+?)\. |exited unexpectedly)")
_TO_END = 1.0  # seconds for a worker to end whose connection is closed already


@contextmanager
def killed_workers_reported() -> Iterator[None]:
    """Raises a TrainingError in place of torch's exceptions if a data worker of the block was killed.

    Raises:
        TrainingError: a worker was killed; the message has the signal and says how to continue.
    """
    try:
        yield
    except (RuntimeError, OSError, EOFError) as error:
        # torch's handler would raise the same error again at the end of any other child process.
        has_handler = hasattr(signal, "SIGCHLD") and threading.current_thread() is threading.main_thread()
        handler = signal.signal(signal.SIGCHLD, signal.SIG_DFL) if has_handler else None
        ended = _ended_worker(error)
        if ended is None:
            if has_handler:
                signal.signal(signal.SIGCHLD, handler)
            raise
        pid, number = ended
        how = "has ended unexpectedly" if number is None else f"was killed by {describe_signal(number)}"
        process = f"process {os.environ['RANK']}: " if int(os.environ.get("WORLD_SIZE", "1")) > 1 else ""
        raise TrainingError(
            f"{process}a data worker (process id {pid}) {how}. The same command with --resume continues from the "
            "last checkpoint; --set placement.dataloader_num_workers=0 needs no workers"
        ) from error


def _ended_worker(error: BaseException) -> tuple[int, int | None] | None:
    """Returns the process id of the worker whose end caused an error, and the signal that killed it if there was one.

    Returns None if no worker has ended.
    """
    cause: BaseException | None = error
    while cause is not None:
        found = _OF_HANDLER.search(str(cause))
        if found:
            names = {signal.strsignal(number): int(number) for number in signal.Signals}
            return int(found[1]), names.get(found[2])
        cause = cause.__cause__ or cause.__context__
    # Without the handler, the end of a worker shows as a closed connection, while the iterator waits for a batch.
    deadline = time.monotonic() + _TO_END
    for worker in _workers(error):
        worker.join(max(0.0, deadline - time.monotonic()))
        if worker.exitcode:
            return worker.pid, -worker.exitcode if worker.exitcode < 0 else None
    return None


def _workers(error: BaseException) -> list[Any]:
    """Returns the worker processes of the iterator over batches that raised an error; none for other errors."""
    from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

    step = error.__traceback__
    while step is not None:
        iterator = step.tb_frame.f_locals.get("self")
        if isinstance(iterator, _MultiProcessingDataLoaderIter):
            return list(iterator._workers)
        step = step.tb_next
    return []
