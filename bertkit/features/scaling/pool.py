"""Workers that take shards one after another and are replaced when they die.

Each worker has a thread of this process, which hands it one shard at a time: a shard is given to another worker only
when the first is dead, and results are written once.
"""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import NamedTuple, Protocol

from bertkit.features.scaling.inputs import Shard
from bertkit.features.scaling.output import Finished
from bertkit.runtime.errors import PlacementError
from bertkit.runtime.progress import say

_DEATHS = 3  # of workers with one shard, or before their first, until the run ends
_POLL = 0.5  # seconds between two looks for Ctrl-C

FindFinished = Callable[[Sequence[Shard]], Mapping[Shard, Finished]]


class WorkerDiedError(Exception):
    """Raised by a worker that has ended without an answer; the message has the signal or exit code."""


class Worker(Protocol):
    """A process that has loaded the model."""

    def compute(self, shard: Shard) -> Finished:
        """Computes a shard, and returns the record of its results.

        Raises:
            WorkerDiedError: the process has ended.
            BertkitError: the shard cannot be computed.
        """

    def end(self) -> None:
        """Ends the process, also while it computes; has no effect on one that has ended."""


class Done(NamedTuple):
    """A shard that a worker has finished, with the record of its results."""

    shard: Shard
    finished: Finished


def compute_shards(
    make: Callable[[int], Worker], count: int, shards: Sequence[Shard], finished: FindFinished
) -> Generator[Done]:
    """Yields each shard when a worker has finished it, in the order in which they end.

    Args:
        make: called with the number of a worker, from 0, in a thread of its own; starts it and waits until it has
            loaded the model.
        count: number of workers.
        shards: the shards, in the order in which they are begun.
        finished: returns those of some shards whose results are complete, with their records.

    Raises:
        BertkitError: a worker reports an error; or workers keep dying with one shard, or while they start.
    """
    pool = _Pool(make, shards, finished)
    threads = [threading.Thread(target=pool.work, args=(number,), daemon=True) for number in range(count)]
    try:
        for thread in threads:
            thread.start()
        for _ in shards:
            yield pool.next_result()
    finally:
        pool.end()


class _Pool:
    def __init__(self, make: Callable[[int], Worker], shards: Sequence[Shard], finished: FindFinished):
        self._make, self._finished = make, finished
        self._waiting: queue.SimpleQueue[Shard | None] = queue.SimpleQueue()
        for shard in shards:
            self._waiting.put(shard)
        self._results: queue.SimpleQueue[Done | BaseException] = queue.SimpleQueue()
        self._deaths: Counter[str] = Counter()
        self._workers: list[Worker] = []
        self._lock = threading.Lock()
        self._is_over = False

    def next_result(self) -> Done:
        while True:
            try:
                result = self._results.get(timeout=_POLL)
            except queue.Empty:
                continue
            if isinstance(result, BaseException):
                raise result
            return result

    def end(self) -> None:
        with self._lock:
            self._is_over = True
        for worker in self._workers:
            self._waiting.put(None)
            worker.end()

    def work(self, number: int) -> None:
        """Computes shards in one worker after another until the pool ends; errors are results too."""
        try:
            while not self._is_over:
                self._with_one_worker(number)
        except BaseException as error:
            self._results.put(error)

    def _with_one_worker(self, number: int) -> None:
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
        while (shard := self._waiting.get()) is not None:
            try:
                finished = worker.compute(shard)
            except WorkerDiedError as error:
                written = self._finished([shard])  # a worker may die after it has written the results
                if shard in written:
                    self._results.put(Done(shard, written[shard]))
                else:
                    self._waiting.put(shard)
                self._count_death(shard.name, error)
                return
            self._results.put(Done(shard, finished))

    def _count_death(self, what: str, error: WorkerDiedError) -> None:
        if self._is_over:
            return
        self._deaths[what] += 1
        if self._deaths[what] >= _DEATHS:
            raise PlacementError(
                f"{what}: {_DEATHS} workers have died, the last one {error}; use fewer workers if memory was short. "
                "The same command continues with the shards that are not finished"
            )
        say(f"warning: a worker has died ({what}), {error}; another one takes its place")
