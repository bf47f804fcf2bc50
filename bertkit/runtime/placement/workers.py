"""Workers of a pool: processes of this machine, each with a GPU of its own where there are any, or actors of Ray.

A process runs this module. It reads a function, which loads what the worker computes with and returns the function of
an item, and then computes one item after another; objects are pickled, and each is answered by one: the result, or
the `BertkitError`. Any other error ends the process, with its traceback on stderr.

Of Ray (https://docs.ray.io), Ray Core is used, not Ray Data: ``map_batches`` cuts and names its output files by itself,
and computes all of them again when a job is repeated. Here an item is a call of an actor, so that files, their order
and repeated commands are the same with and without Ray; from Ray come the placement of the workers, their GPUs, and the
notice of dead ones.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

from bertkit.runtime.errors import BertkitError
from bertkit.runtime.placement.launch import (
    LAUNCHER,
    describe_signal,
    end_with_launcher,
    environment_of_gpu,
    module_command,
)
from bertkit.runtime.placement.pool import Worker, WorkerDiedError
from bertkit.runtime.placement.processes import usable_cores
from bertkit.runtime.placement.ray_cluster import connected, import_ray

Load = Callable[[], Callable[[Any], Any]]
"""Function that can be pickled, loads what a worker computes with, and returns the function of an item."""


def _environment(threads: int) -> dict[str, str]:
    """Returns the variables that a worker with so many threads has beside those of this process."""
    return {
        "OMP_NUM_THREADS": str(threads),
        "RAYON_NUM_THREADS": str(threads),  # of tokenizers
        "MKL_CBWR": os.environ.get("MKL_CBWR", "AUTO"),
        "TOKENIZERS_PARALLELISM": os.environ.get("TOKENIZERS_PARALLELISM", "true"),
    }


class ProcessWorker:
    """A process that computes items; it ends with this process, however this one ends.

    Args:
        load: what it loads.
        threads: of the process.
        number: of the worker, from 0.
        gpus: number of GPUs visible to this process, of which it sees one.

    Raises:
        WorkerDiedError: it has ended before it had loaded.
        BertkitError: it cannot load.
    """

    def __init__(self, load: Load, threads: int, number: int, gpus: int = 0):
        own = {**_environment(threads), **environment_of_gpu(number, gpus, os.environ), LAUNCHER: str(os.getpid())}
        self._process = subprocess.Popen(
            module_command("bertkit.runtime.placement.workers"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **own},
            start_new_session=True,  # Ctrl-C arrives at this process only, which ends the workers
        )
        try:
            self.compute(load)
        except BaseException:
            self.end()
            raise

    def compute(self, item: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            pickle.dump(item, self._process.stdin)
            self._process.stdin.flush()
            answer = pickle.load(self._process.stdout)
        except (BrokenPipeError, ValueError, EOFError, pickle.UnpicklingError):
            code = self._process.wait()
            died = f"by {describe_signal(-code)}" if code < 0 else f"with exit code {code}"
            raise WorkerDiedError(died) from None
        if isinstance(answer, BertkitError):
            raise answer
        return answer

    def end(self) -> None:
        self._process.kill()  # nothing is lost: results appear only when they are complete
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError, ValueError):  # what was not sent to the process
                pipe.close()  # type: ignore[union-attr]


def answer_all(questions: BinaryIO, answers: BinaryIO) -> None:
    """Loads by the first object of a stream, computes the others until it ends, and writes an answer to each.

    Errors that are no `BertkitError` are raised.
    """
    compute: Callable[[Any], Any] | None = None
    while True:
        try:
            given = pickle.load(questions)
        except EOFError:
            return
        answer: Any = None
        try:
            if compute is None:
                compute = given()
            else:
                answer = compute(given)
        except BertkitError as error:
            answer = error
        answers.write(pickle.dumps(answer))


class PoolActor:
    """Actor of Ray that computes items."""

    def load(self, load: Load) -> None:
        """Loads; not done by ``__init__``, whose errors Ray reports as the death of the actor."""
        self._compute = load()

    def compute(self, item: Any) -> Any:
        """Computes an item."""
        return self._compute(item)


class RayWorker:
    """One actor; `Worker` of a pool.

    Args:
        load, threads: as of `ProcessWorker`.
        gpus: number of GPUs of the cluster; the actor has one if there are any.

    Raises:
        WorkerDiedError: it has ended before it had loaded.
        BertkitError: it cannot load.
    """

    def __init__(self, load: Load, threads: int, gpus: int):
        self._ray = import_ray()
        resources = {"num_gpus": 1, "num_cpus": 1} if gpus else {"num_cpus": threads}
        # The GPU of an actor is chosen by Ray. An actor is not restarted by Ray: the pool counts deaths with an item.
        variables = {"env_vars": _environment(threads)}
        self._actor = self._ray.remote(max_restarts=0, runtime_env=variables, **resources)(PoolActor).remote()
        try:
            self._result(self._actor.load.remote(load))
        except BaseException:
            self.end()
            raise

    def compute(self, item: Any) -> Any:
        return self._result(self._actor.compute.remote(item))

    def end(self) -> None:
        with suppress(Exception):  # the connection to Ray may be closed
            self._ray.kill(self._actor)

    def _result(self, reference: Any) -> Any:
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause if isinstance(error.cause, BertkitError) else error from None
        except self._ray.exceptions.RayActorError as error:
            reason = next((line.strip() for line in str(error).splitlines() if "SIGKILL" in line), "")
            raise WorkerDiedError(reason or "its process has ended") from error
        except self._ray.exceptions.OutOfMemoryError as error:  # is no RayActorError
            raise WorkerDiedError("ended by Ray, since the memory of its machine ran short") from error


@contextmanager
def ray_workers(
    load: Load, threads: int, address: str | None, workers: int | None
) -> Iterator[tuple[Callable[[int], Worker[Any, Any]], int]]:
    """Connects to Ray; yields a function that starts a worker, and the number of workers.

    Args:
        load, threads: as of `RayWorker`.
        address: of a cluster; None for that of ``RAY_ADDRESS``, or else one of its own on this machine, which ends with
            the block.
        workers: number of workers; None for one per GPU of the cluster, or if there is no GPU, as many as have cores.

    Raises:
        PlacementError: Ray is not installed, or the cluster does not answer.
    """
    cpus = max((workers or 1) * threads, usable_cores())  # Ray never starts a worker that needs more than there are
    with connected(address or os.environ.get("RAY_ADDRESS"), cpus) as ray:
        resources = ray.cluster_resources()
        gpus = int(resources.get("GPU", 0))
        count = workers or gpus or max(1, int(resources.get("CPU", 1)) // threads)
        yield lambda number: RayWorker(load, threads, gpus), count


if __name__ == "__main__":
    end_with_launcher()
    # What libraries print must not be mixed with the answers.
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    answer_all(sys.stdin.buffer, replies)
