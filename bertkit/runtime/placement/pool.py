"""A pool of workers that take items of work one after another and are replaced when they die.

Each worker has a thread of this process, which hands it one item at a time: an item is given to another worker only
when the first is dead, and results are written once. Workers are those of `bertkit.runtime.placement.workers`.
"""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from bertkit.runtime.errors import PlacementError
from bertkit.runtime.progress import say

Item = TypeVar("Item")
Result = TypeVar("Result")
_Taken = TypeVar("_Taken", contravariant=True)
_Given = TypeVar("_Given", covariant=True)

_DEATHS = 3  # of workers with one item, or before their first, until the run ends
_POLL = 0.5  # seconds between two looks for Ctrl-C


class WorkerDiedError(Exception):
    """Raised by a worker that has ended without an answer; the message has the signal or exit code."""


class Worker(Protocol[_Taken, _Given]):
    """A process that has loaded what it computes with."""

    def compute(self, item: _Taken) -> _Given:
        """Computes an item, and returns its result.

        Raises:
            WorkerDiedError: the process has ended.
            BertkitError: the item cannot be computed.
        """

    def end(self) -> None:
        """Ends the process, also while it computes; has no effect on one that has ended."""


class Pool(Generic[Item, Result]):
    """Computes items by workers.

    Args:
        make: called with the number of a worker, from 0, in a thread of its own; starts it and waits until it has
            loaded.
        items: the items, hashable, in the order in which they are begun.
        finished: returns those of some items whose results are complete, with these.
        name: returns the name of an item, for messages.
        noun: what items are, in the plural, for messages.
    """

    def __init__(
        self,
        make: Callable[[int], Worker[Item, Result]],
        items: Sequence[Item],
        finished: Callable[[Sequence[Item]], Mapping[Item, Result]],
        name: Callable[[Item], str] = str,
        noun: str = "items",
    ):
        self._make, self._items, self._finished, self._name, self._noun = make, items, finished, name, noun
        self._waiting: queue.SimpleQueue[Item | None] = queue.SimpleQueue()
        for item in items:
            self._waiting.put(item)
        self._results: queue.SimpleQueue[tuple[Item, Result] | BaseException] = queue.SimpleQueue()
        self._deaths: Counter[str] = Counter()
        self._workers: list[Worker[Item, Result]] = []
        self._lock = threading.Lock()
        self._is_over = False

    def results(self, count: int) -> Generator[tuple[Item, Result]]:
        """Yields each item with its result when one of ``count`` workers has finished it, in the order in which they
        end; the workers end with the generator.

        Raises:
            BertkitError: a worker reports an error; or workers keep dying with one item, or while they start.
        """
        threads = [threading.Thread(target=self._work, args=(number,), daemon=True) for number in range(count)]
        left = len(self._items)
        try:
            for thread in threads:
                thread.start()
            while left:
                try:
                    result = self._results.get(timeout=_POLL)
                except queue.Empty:
                    continue
                if isinstance(result, BaseException):
                    raise result
                left -= 1
                yield result
        finally:
            with self._lock:
                self._is_over = True
            for worker in self._workers:
                self._waiting.put(None)
                worker.end()

    def _work(self, number: int) -> None:
        """Computes items in one worker after another until the pool ends; errors are results too."""
        try:
            while not self._is_over:
                self._work_in_one(number)
        except BaseException as error:
            self._results.put(error)

    def _work_in_one(self, number: int) -> None:
        start = f"worker {number} while it starts"
        try:
            worker = self._make(number)
        except WorkerDiedError as error:
            self._count_death(start, error)
            return
        self._deaths.pop(start, None)  # only deaths one after another show that no worker can start
        with self._lock:
            self._workers.append(worker)
            if self._is_over:
                worker.end()
                return
        while (item := self._waiting.get()) is not None:
            try:
                self._results.put((item, worker.compute(item)))
            except WorkerDiedError as error:
                written = self._finished([item])  # a worker may die after it has written the results
                if item in written:
                    self._results.put((item, written[item]))
                else:
                    self._waiting.put(item)
                self._count_death(self._name(item), error)
                return

    def _count_death(self, what: str, error: WorkerDiedError) -> None:
        if self._is_over:
            return
        self._deaths[what] += 1
        if self._deaths[what] >= _DEATHS:
            raise PlacementError(
                f"{what}: {_DEATHS} workers have died, the last one {error}; use fewer workers if memory was short. "
                f"The same command continues with the {self._noun} that are not finished"
            )
        say(f"warning: a worker has died ({what}), {error}; another one takes its place")
