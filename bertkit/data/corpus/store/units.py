"""Units of a corpus that is built: text whose parts one worker writes, and the workers that do so."""

from __future__ import annotations

import socket
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bertkit.runtime.errors import PlacementError
from bertkit.runtime.placement.parallel import ProcessKilledError, compute_in_processes, one_thread
from bertkit.runtime.placement.processes import Workers, usable_cores
from bertkit.runtime.placement.ray_cluster import connected
from bertkit.runtime.progress import say
from bertkit.runtime.reading.text import iterating

if TYPE_CHECKING:
    from bertkit.data.corpus.documents import DocumentForm
    from bertkit.data.corpus.settings import DocumentFilter
    from bertkit.data.corpus.sources import Source
    from bertkit.data.corpus.store.encoding import SentenceEncoder


_KILLED_ALONE = (
    "its process was killed again, though no other ran beside it, most often because memory ran out: use a machine "
    "with more memory"
)


class Unit(NamedTuple):
    """Consecutive text of a corpus, whose parts one worker writes.

    Attributes:
        number: place in the corpus, from 0.
        sources: files, and ranges of them.
        key: 16 hexadecimal digits of the text and of how it becomes parts.
        size: bytes of text.
    """

    number: int
    sources: list[Source]
    key: str
    size: int

    def record(self, work: Path, kind: str) -> Path:
        """Returns the path of a record, which exists when ``kind`` is complete: ``unit`` or ``digests``."""
        return work / f"{kind}-{self.number:06}-{self.key}.json"


@dataclass(frozen=True)
class Job:
    """Settings and folder that the workers of a build share.

    Attributes:
        work: folder of the parts.
        form: rules that split text into documents.
        encode: paragraphs → tokens.
        chosen: documents to keep.
        left_out: unit → numbers of its documents that repeat an earlier one.
    """

    work: Path
    form: DocumentForm
    encode: SentenceEncoder
    chosen: DocumentFilter
    left_out: dict[int, frozenset[int]] = field(default_factory=dict)


# ---- workers: processes of this machine, or tasks of Ray ---------------------------------------------------------


WorkOn = Callable[[Job, Unit, int, Callable[[int], None]], None]


def run_units(
    work_on: WorkOn, job: Job, units: Sequence[Unit], workers: Workers, report: Callable[[int], None]
) -> Iterator[Unit]:
    """Runs ``work_on(job, unit, num_workers, report)`` for each unit, and yields a unit when it is done.

    With fewer units than workers, one after the other is done in this process, with all workers for its sentences.

    Args:
        work_on: a function of a module.
        job, units: its arguments.
        workers: processes or tasks.
        report: called with the bytes of a unit that are done, for units that this process works on.

    Raises:
        PlacementError: a worker died, twice at one unit if each unit has one worker (the message names the unit); or
            Ray is missing, does not answer, or cannot run a unit.
        Exception: any exception of ``work_on``.
    """
    number = workers.number or usable_cores()
    if workers.engine == "ray":
        yield from _run_in_ray(work_on, job, units, number, workers.ray_address)
    elif number == 1 or len(units) < number:
        with one_thread():
            for unit in units:
                work_on(job, unit, number, report)
                yield unit
    else:
        yield from _run_in_processes(work_on, job, units, number)


def _run_in_processes(work_on: WorkOn, job: Job, units: Sequence[Unit], number: int) -> Iterator[Unit]:
    """Runs units in processes; those during which a process dies are repeated, one at a time."""
    compute = partial(_work_alone, (work_on, job))
    suspects: list[Unit] = []
    done: set[int] = set()
    while rest := [unit for unit in units if unit.number not in done and unit not in suspects]:
        try:
            with iterating(compute_in_processes(compute, rest, number, killed="a process died")) as computed:
                for unit, _ in computed:
                    done.add(unit.number)
                    yield unit
        except ProcessKilledError as error:
            suspects += error.items
            say(f"warning: {error} at {name_units(error.items)}; repeated")
    for unit in suspects:
        try:
            with iterating(compute_in_processes(compute, [unit], 1, killed=_KILLED_ALONE)) as computed:
                for _ in computed:
                    yield unit
        except ProcessKilledError as error:
            raise PlacementError(f"{name_units([unit])}: {error}") from error


def _run_in_ray(work_on: WorkOn, job: Job, units: Sequence[Unit], number: int, address: str | None) -> Iterator[Unit]:
    """Runs units as tasks of Ray, which repeats a task once whose worker dies."""
    with connected(address, number) as ray:
        module = getattr(job.encode.splitter, "__module__", None)
        if module is not None and module.partition(".")[0] != "bertkit" and module in sys.modules:
            # The code of a user's splitter is sent: its file cannot be imported by name in a worker.
            ray.cloudpickle.register_pickle_by_value(sys.modules[module])
        task = ray.remote(num_cpus=1, max_retries=1)(_work_alone)
        shared = ray.put((work_on, job))
        waiting = deque(units)
        running: dict[Any, Unit] = {}
        while waiting or running:
            while waiting and len(running) < number:
                unit = waiting.popleft()
                running[task.remote(shared, unit)] = unit
            [finished], _ = ray.wait(list(running), num_returns=1)
            unit = running.pop(finished)
            try:
                ray.get(finished)
            except ray.exceptions.RayError as error:
                cause = getattr(error, "cause", None) or error
                if not isinstance(cause, ray.exceptions.RayError):  # of the function
                    raise cause from error
                fault = f"Ray could not run it: {str(cause).strip().splitlines()[0]}"
                if isinstance(cause, ray.exceptions.WorkerCrashedError | ray.exceptions.OutOfMemoryError):
                    fault = "its workers in Ray died twice, most often because memory ran out: use fewer --workers"
                raise PlacementError(
                    f"{name_units([unit])}: {fault}; the finished units are kept ({type(cause).__name__})"
                ) from error
            yield unit


def _work_alone(shared: tuple[WorkOn, Job], unit: Unit) -> None:
    """Works on a unit in a process or a task of its own; ``shared`` are the function and its job."""
    work_on, job = shared
    if not job.work.is_dir():
        raise PlacementError(
            f"{job.work}: not there on {socket.gethostname()}; the texts and the output need the same paths on all "
            "machines of the cluster, as on a shared file system"
        )
    work_on(job, unit, 1, lambda size: None)


def name_units(units: Sequence[Unit]) -> str:
    """Returns the numbers of units with their sources, for messages."""
    names = [f"unit {unit.number} ({unit.sources[0].name}{' …' if len(unit.sources) > 1 else ''})" for unit in units]
    return ", ".join(names)
