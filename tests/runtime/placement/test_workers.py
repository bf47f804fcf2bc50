"""Workers in Ray, which this file replaces: how many it is asked for, and what ends one."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from bertkit.runtime.errors import PlacementError
from bertkit.runtime.placement import ray_cluster, workers
from bertkit.runtime.placement.pool import WorkerDiedError
from bertkit.runtime.placement.ray_cluster import connected


@pytest.fixture
def ray(monkeypatch):
    """A Ray whose cluster has the cores and GPUs that `connected` asks for or ``added``; ``get`` raises ``failure``."""
    kinds = {name: type(name, (Exception,), {}) for name in ("RayTaskError", "RayActorError", "OutOfMemoryError")}
    call = SimpleNamespace(remote=lambda *given: given)
    actor = SimpleNamespace(remote=lambda: SimpleNamespace(load=call, compute=call))
    ray = SimpleNamespace(exceptions=SimpleNamespace(**kinds), added={}, failure=None, kill=lambda actor: None)

    def get(reference):
        if ray.failure is not None:
            raise ray.failure

    @contextmanager
    def connected(address, cpus):
        ray.cluster_resources = lambda: {"CPU": float(cpus), **ray.added}
        yield ray

    ray.remote, ray.get = lambda **options: lambda cls: actor, get
    monkeypatch.setattr(workers, "connected", connected)
    monkeypatch.setattr(workers, "import_ray", lambda: ray)
    monkeypatch.setattr(workers, "usable_cores", lambda: 8)
    return ray


@pytest.mark.parametrize(
    ("threads", "number", "gpus", "cores", "count"),
    [(1, None, 0, 8, 8), (4, None, 0, 8, 2), (16, None, 0, 16, 1), (4, 3, 0, 12, 3), (4, None, 2, 8, 2)],
)
def test_a_ray_that_is_started_has_cores_for_its_workers(ray, threads, number, gpus, cores, count):
    ray.added = {"GPU": float(gpus)}
    with workers.ray_workers(int, threads, None, number) as (_, found):
        assert (ray.cluster_resources()["CPU"], found) == (cores, count)


def test_an_actor_that_memory_ends_is_a_dead_worker(ray):
    worker = workers.RayWorker(int, 1, 0)
    ray.failure = ray.exceptions.OutOfMemoryError("1 worker(s) were killed due to the node running low on memory.")
    with pytest.raises(WorkerDiedError, match="ended by Ray, since the memory of its machine ran short"):
        worker.compute("a")


@pytest.mark.parametrize(
    ("address", "named"), [(None, "--engine ray"), ("10.0.0.1:6379", "--ray-address 10.0.0.1:6379")]
)
def test_a_ray_that_does_not_answer_is_named_as_it_was_given(monkeypatch, address, named):
    def init(*_, **__):
        raise RuntimeError

    stub = SimpleNamespace(is_initialized=lambda: False, init=init)
    monkeypatch.setattr(ray_cluster, "import_ray", lambda: stub)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")  # else `connected` sets it for the tests that follow
    with pytest.raises(PlacementError, match=f"^{named}: Ray does not answer: RuntimeError"), connected(address, 1):
        pass
