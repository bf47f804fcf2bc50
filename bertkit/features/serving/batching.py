"""Dynamic batching: one thread computes the requests that have arrived while it was computing others; its counters."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from bertkit.features.serving.requests import InvalidRequest, NotServed, RequestError, ServerFault, Unavailable
from bertkit.features.serving.services import Answer, Job, Service
from bertkit.recipe.files import without_paths
from bertkit.runtime.errors import BertkitError, CheckpointError
from bertkit.runtime.progress import say

_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)  # of batches, in the metrics
_CHARACTERS_PER_TOKEN = 4  # of ordinary text; tokens are known only after encoding, which is done for a whole batch

Waiting = tuple[Job, asyncio.Future[Any]]
"""A job and its answer to be."""


class Metrics:
    """Counters of one server for Prometheus; they hold no texts."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "bertkit_requests", "Requests by route and HTTP status.", ["route", "status"], registry=self._registry
        )
        self.seconds = Histogram(
            "bertkit_request_duration_seconds", "From the head of a request to its answer.", registry=self._registry
        )
        self.waiting = Gauge("bertkit_queue_size", "Requests that wait or are computed.", registry=self._registry)
        self._texts_of_batch = Histogram(
            "bertkit_batch_texts", "Texts of a batch.", buckets=_SIZES, registry=self._registry
        )
        self._requests_of_batch = Histogram(
            "bertkit_batch_requests", "Requests of a batch.", buckets=_SIZES, registry=self._registry
        )
        self._tokens = Counter("bertkit_tokens", "Tokens computed, without padding.", registry=self._registry)
        self._tokens_so_far = 0

    def count_batch(self, texts: int, requests: int, tokens_so_far: int) -> None:
        """Counts a batch; ``tokens_so_far`` are those of all batches, this one included."""
        self._texts_of_batch.observe(texts)
        self._requests_of_batch.observe(requests)
        self._tokens.inc(tokens_so_far - self._tokens_so_far)
        self._tokens_so_far = tokens_so_far

    def text(self) -> bytes:
        """Returns all metrics in Prometheus' text format."""
        return generate_latest(self._registry)


class Batcher:
    """Queue of jobs, and the thread that computes them in the order of their arrival.

    A batch has the first waiting job and the following ones with the same options, up to about ``max_batch_tokens``.
    Nothing waits for a batch to become full: as many jobs as arrived during the last batch are in the next one.

    If the computation of a batch fails, its jobs are computed one by one, so that a job fails for its own faults only.
    """

    def __init__(self, service: Service, max_batch_tokens: int, metrics: Metrics):
        self._service = service
        self._most = max_batch_tokens
        self._metrics = metrics
        self._queue: queue.SimpleQueue[Waiting | None] = queue.SimpleQueue()
        self._held: Waiting | None = None
        self._waiting: set[asyncio.Future[Any]] = set()
        self._refused: str | None = None
        self._thread = threading.Thread(target=self._work, name="bertkit-inference", daemon=True)

    def start(self) -> None:
        """Starts the thread; its answers are given in the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def stop(self) -> None:
        """Computes the waiting jobs and ends the thread."""
        self._queue.put(None)
        self._thread.join()

    @property
    def is_working(self) -> bool:
        """Returns whether jobs are taken and computed."""
        return self._refused is None and self._thread.is_alive()

    def refuse(self, reason: str) -> int:
        """Answers all jobs, waiting and later, with 503; in the event loop; returns the number of waiting ones."""
        self._refused = reason
        waiting = [future for future in self._waiting if not future.done()]
        for future in waiting:
            future.set_exception(Unavailable(reason))
        return len(waiting)

    async def submit(self, job: Job) -> Any:
        """Returns the answer to a job; if the caller is cancelled before it is computed, it is not computed.

        Raises:
            RequestError: the job cannot be computed.
        """
        if self._refused is not None:
            raise Unavailable(self._refused)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        self._metrics.waiting.inc()
        self._queue.put((job, future))
        try:
            return await future
        finally:
            self._waiting.discard(future)
            self._metrics.waiting.dec()

    def _work(self) -> None:
        try:
            while batch := self._next_batch():
                jobs, futures = zip(*batch, strict=True)
                answers = self._compute(jobs)
                self._metrics.count_batch(sum(job.count for job in jobs), len(jobs), self._service.tokens)
                self._in_loop(_deliver, futures, answers)
        except BaseException as error:
            report(error)
            say("bertkit serve: the thread that computes has ended; all requests get 503, restart the server")
            self._in_loop(self.refuse, "the server computes no requests any more; its log has the place")

    def _in_loop(self, function: Callable[..., Any], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the event loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(function, *arguments)

    def _next_batch(self) -> list[Waiting]:
        """Waits for jobs and returns those to compute next; empty at the end."""
        while True:
            first = self._held or self._queue.get()
            self._held = None
            if first is None:
                return []
            job, future = first
            if not future.done():  # else nobody waits for it any more
                break
        batch, tokens = [first], self._estimate(job)
        while tokens < self._most:
            try:
                following = self._queue.get_nowait()
            except queue.Empty:
                break
            if following is None:  # the end, after this batch
                self._queue.put(None)
                break
            other, future = following
            if future.done():
                continue
            tokens += self._estimate(other)
            if tokens > self._most or other.options != job.options:
                self._held = following
                break
            batch.append(following)
        return batch

    def _estimate(self, job: Job) -> int:
        most = self._service.longest * _CHARACTERS_PER_TOKEN  # of a text; the rest is cut
        return job.characters(most) // _CHARACTERS_PER_TOKEN + 2 * job.count

    def _compute(self, jobs: Sequence[Job]) -> list[Answer]:
        try:
            return self._service.run(jobs)
        except BaseException as error:  # the thread must outlive any request
            if len(jobs) > 1:
                return [self._compute([job])[0] for job in jobs]
            if isinstance(error, RequestError):
                return [error]
            if isinstance(error, BertkitError):  # clients are told no folders of this machine
                kind = NotServed if isinstance(error, CheckpointError) else InvalidRequest
                return [kind(without_paths(str(error)))]
            report(error)
            return [ServerFault("the computation failed; the log of the server has the place")]


def report(error: BaseException) -> None:
    """Writes the type and the place of an unexpected exception to stderr, without its message, which may hold texts."""
    trace, place = error.__traceback__, "unknown place"
    while trace is not None:
        place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    say(f"bertkit serve: {type(error).__name__} at {place}")


def _deliver(futures: Sequence[asyncio.Future[Any]], answers: Sequence[Answer]) -> None:
    for future, answer in zip(futures, answers, strict=True):
        if future.done():  # the client is gone
            continue
        if isinstance(answer, RequestError):
            future.set_exception(answer)
        else:
            future.set_result(answer)
