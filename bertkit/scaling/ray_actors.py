"""Workers that are actors of Ray (https://docs.ray.io), on this machine or on a cluster.

Ray Core is used, not Ray Data: ``map_batches`` cuts and names its output files by itself, and computes all of them
again when a job is repeated. Here a shard is a call of an actor, so that files, their order and repeated commands are
the same with and without Ray; from Ray come the placement of the workers, their GPUs, and the notice of dead ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from bertkit.errors import BertkitError
from bertkit.placement.ray_cluster import connected, import_ray
from bertkit.scaling.computing import Computer, Job
from bertkit.scaling.inputs import Shard
from bertkit.scaling.output import Finished
from bertkit.scaling.pool import Worker, WorkerDiedError
from bertkit.scaling.processes import worker_environment


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
        address: of a cluster; None for that of ``RAY_ADDRESS``, or else an own Ray on this machine, which ends with the
            block.
        workers: number of workers; None for one per GPU of the cluster, or one per CPU core if there is no GPU.

    Raises:
        PlacementError: Ray is not installed, or the cluster does not answer.
    """
    cpus = max(workers or 1, os.cpu_count() or 1)
    with connected(address or os.environ.get("RAY_ADDRESS"), cpus) as ray:
        found = ray.cluster_resources()
        gpus = int(found.get("GPU", 0))
        yield lambda number: RayWorker(job, gpus), workers or gpus or int(found.get("CPU", 1))
