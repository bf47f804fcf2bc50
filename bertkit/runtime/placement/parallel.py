"""Processes of this machine that compute one function of many items, for work that needs no model on a GPU."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from itertools import islice
from multiprocessing import active_children, get_context
from typing import Any, TypeVar

from bertkit.runtime.errors import PlacementError
from bertkit.runtime.placement.processes import environment_variables
from bertkit.runtime.reading.text import iterating

THREADS = "TOKENIZERS_PARALLELISM"
"""Variable by which the tokenizers library uses one thread, or several."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class ProcessKilledError(PlacementError):
    """A process of a pool was killed.

    Attributes:
        items: those that were given to the processes, and whose results were not yielded.
    """

    def __init__(self, message: str, items: list[Any]):
        super().__init__(message)
        self.items = items


def one_thread() -> AbstractContextManager[None]:
    """Context in which the tokenizers library uses one thread; it does not warn then about a fork after it had more."""
    return environment_variables({THREADS: "false"})


def compute_in_processes(
    call: Callable[[Item], Result], items: Iterable[Item], number: int, *, killed: str, in_order: bool = False
) -> Generator[tuple[Item, Result]]:
    """Yields items with their results, which ``number`` processes compute with one thread each.

    Processes are forked on Linux, so a function that cannot be pickled, such as a lambda, also works there; on other
    systems it has to be a function of a module. They ignore Ctrl-C and end with this process, however this one ends.

    Close the iterator to end the processes at once if it is not exhausted, with any that were started in the meantime.

    Args:
        call: the function.
        items: read as they are needed: as many ahead as there are processes, or twice as many with ``in_order``.
        number: number of processes.
        killed: message of the error if a process is killed.
        in_order: yield the results in the order of the items, and not in that in which they are done.

    Raises:
        ProcessKilledError: a process was killed.
        Exception: any exception of ``items`` or of the function.
    """
    running: dict[Future[Result], Item] = {}
    others = set(active_children())
    context = get_context("fork" if sys.platform == "linux" else "spawn")
    pool = ProcessPoolExecutor(number, context, _start, (call, os.getpid()))
    try:
        # The processes start at the first item and inherit it: more threads than cores would slow them down.
        with one_thread(), iterating(items) as remaining:
            while True:
                for item in islice(remaining, (2 if in_order else 1) * number - len(running)):
                    running[pool.submit(_compute, item)] = item
                if not running:
                    return
                done = [next(iter(running))] if in_order else wait(running, return_when=FIRST_COMPLETED).done
                for future in done:
                    result = future.result()
                    yield running.pop(future), result
    except BrokenProcessPool as error:
        if error.__cause__ is not None:  # a result could not be unpickled; no process died
            raise
        raise ProcessKilledError(killed, list(running.values())) from error
    finally:
        for process in set(active_children()) - others if running else ():
            process.kill()  # the pool would wait for what they compute
        pool.shutdown(cancel_futures=True)


_call: Callable[[Any], Any]
"""Function of a process of a pool, given at its start: a forked process does not need to pickle it."""


def _start(call: Callable[[Any], Any], parent: int) -> None:
    """Prepares a process of a pool: Ctrl-C reaches all processes, of which the parent ends the others."""
    global _call
    _call = call
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def end_with_parent() -> None:
        # If the parent is killed, the queue that a process waits for is never closed.
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def _compute(item: Any) -> Any:
    return _call(item)
