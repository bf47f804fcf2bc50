"""Workers of a pool: processes of this machine, each with a GPU of its own where there are any, or actors of Ray.

A process runs this module. It reads a job and loads its model, then computes one shard after another; objects are
pickled, and each is answered by one: the result, or the error.

Of Ray (https://docs.ray.io), Ray Core is used, not Ray Data: ``map_batches`` cuts and names its output files by itself,
and computes all of them again when a job is repeated. Here a shard is a call of an actor, so that files, their order
and repeated commands are the same with and without Ray; from Ray come the placement of the workers, their GPUs, and the
notice of dead ones.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

from bertkit.features.scaling.computing import Computer, Job
from bertkit.features.scaling.inputs import Shard
from bertkit.features.scaling.output import Finished
from bertkit.features.scaling.pool import Worker, WorkerDiedError
from bertkit.runtime.errors import BertkitError
from bertkit.runtime.placement.launch import (
    LAUNCHER,
    describe_signal,
    end_with_launcher,
    environment_of_gpu,
    module_command,
)
from bertkit.runtime.placement.ray_cluster import connected, import_ray


def worker_environment(number: int, gpus: int, threads: int, environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that a worker process has beside those of this process.

    Args:
        number: of the worker, from 0.
        gpus: number of GPUs visible to this process.
        threads: of a worker.
        environment: variables of this process.
    """
    return {
        "OMP_NUM_THREADS": str(threads),
        "RAYON_NUM_THREADS": str(threads),  # of the tokenizer
        "MKL_CBWR": environment.get("MKL_CBWR", "AUTO"),
        "TOKENIZERS_PARALLELISM": environment.get("TOKENIZERS_PARALLELISM", "true"),
        **environment_of_gpu(number, gpus, environment),
    }


class ProcessWorker:
    """A process that computes shards; it ends with this process, however this one ends.

    Raises:
        WorkerDiedError: it has ended before it had loaded the model.
        BertkitError: the model cannot be loaded.
    """

    def __init__(self, job: Job, number: int, gpus: int):
        self._process = subprocess.Popen(
            module_command("bertkit.features.scaling.workers"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **worker_environment(number, gpus, job.threads, os.environ), LAUNCHER: str(os.getpid())},
            start_new_session=True,  # Ctrl-C arrives at this process only, which ends the workers
        )
        try:
            self._ask(job)
        except BaseException:
            self.end()
            raise

    @property
    def pid(self) -> int:
        """Returns the process id."""
        return self._process.pid

    def compute(self, shard: Shard) -> Finished:
        finished: Finished = self._ask(shard)
        return finished

    def end(self) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)  # nothing is lost: results appear only when they are complete
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError, ValueError):  # what was not sent to the process
                pipe.close()  # type: ignore[union-attr]

    def _ask(self, question: Job | Shard) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            pickle.dump(question, self._process.stdin)
            self._process.stdin.flush()
            answer = pickle.load(self._process.stdout)
        except (BrokenPipeError, ValueError, EOFError, pickle.UnpicklingError):
            code = self._process.wait()
            died = f"by {describe_signal(-code)}" if code < 0 else f"with exit code {code}"
            raise WorkerDiedError(died) from None
        if isinstance(answer, BertkitError):
            raise answer
        return answer


def serve(questions: BinaryIO, answers: BinaryIO) -> None:
    """Answers a job, for which it loads the model, and then shards, until the input ends."""
    job: Job = pickle.load(questions)
    computers: list[Computer] = []
    _answer(answers, lambda: computers.append(Computer(job)))
    while True:
        try:
            shard: Shard = pickle.load(questions)
        except EOFError:
            return
        _answer(answers, lambda shard=shard: computers[0].compute(shard))  # type: ignore[misc]


def _answer(answers: BinaryIO, compute: Callable[[], Finished | None]) -> None:
    answer: Finished | BertkitError | None
    try:
        answer = compute()
    except BertkitError as error:
        answer = error
    answers.write(pickle.dumps(answer))


class ShardActor:
    """Actor of Ray with a loaded model."""

    def __init__(self) -> None:
        self._computers: list[Computer] = []

    def load(self, job: Job) -> None:
        """Loads the model of a job; not done by ``__init__``, whose errors Ray reports as the death of the actor."""
        self._computers.append(Computer(job))

    def compute(self, shard: Shard) -> Finished:
        """Computes a shard."""
        return self._computers[0].compute(shard)


class RayWorker:
    """One actor; `Worker` of a pool.

    Raises:
        WorkerDiedError: it has ended before it had loaded the model.
        BertkitError: the model cannot be loaded.
    """

    def __init__(self, job: Job, gpus: int):
        self._ray = import_ray()
        resources = {"num_gpus": 1, "num_cpus": 1} if gpus else {"num_cpus": job.threads}
        # The GPU of an actor is chosen by Ray. An actor is not restarted by Ray: the pool counts deaths with a shard.
        variables = worker_environment(0, 0, job.threads, os.environ)
        remote = self._ray.remote(max_restarts=0, runtime_env={"env_vars": variables}, **resources)
        self._actor = remote(ShardActor).remote()
        try:
            self._result(self._actor.load.remote(job))
        except BaseException:
            self.end()
            raise

    def compute(self, shard: Shard) -> Finished:
        finished: Finished = self._result(self._actor.compute.remote(shard))
        return finished

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


@contextmanager
def ray_workers(job: Job, address: str | None, workers: int | None) -> Iterator[tuple[Callable[[int], Worker], int]]:
    """Connects to Ray; yields a function that starts a worker, and the number of workers.

    Args:
        job: what is computed.
        address: of a cluster; None for that of ``RAY_ADDRESS``, or else one of its own on this machine, which ends with
            the block.
        workers: number of workers; None for one per GPU of the cluster, or one per CPU core if there is no GPU.

    Raises:
        PlacementError: Ray is not installed, or the cluster does not answer.
    """
    cpus = max(workers or 1, os.cpu_count() or 1)
    with connected(address or os.environ.get("RAY_ADDRESS"), cpus) as ray:
        resources = ray.cluster_resources()
        gpus = int(resources.get("GPU", 0))
        yield lambda number: RayWorker(job, gpus), workers or gpus or int(resources.get("CPU", 1))


if __name__ == "__main__":
    end_with_launcher()
    # What libraries print must not be mixed with the answers.
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    serve(sys.stdin.buffer, replies)
