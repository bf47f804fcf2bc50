"""Connection to Ray (https://docs.ray.io), of this machine or of a cluster; needs the extra ``ray``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

from bertkit.runtime.errors import PlacementError, described, importing


def import_ray() -> Any:
    """Returns the module ``ray``.

    Raises:
        PlacementError: it is not installed; the message has the command.
    """
    with importing("--engine ray", "ray", PlacementError):
        import ray
    return ray


@contextmanager
def connected(address: str | None, cpus: int) -> Iterator[Any]:
    """Connects to Ray and yields the module ``ray``; a Ray that the caller has connected to is used and left as it is.

    Args:
        address: of a running cluster; None starts Ray on this machine, which ends with the block.
        cpus: number of cores of a Ray that is started, which may exceed that of the machine.

    Raises:
        PlacementError: Ray is not installed, or does not answer.
    """
    ray = import_ray()
    if ray.is_initialized():
        yield ray
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    local = {} if address else {"num_cpus": cpus, "include_dashboard": False}
    # Without a folder of their own, workers would import modules from the working folder of this process.
    with TemporaryDirectory(prefix="bertkit-", ignore_cleanup_errors=True) as empty:
        own = {"working_dir": empty}
        try:
            ray.init(address or "local", logging_level="ERROR", log_to_driver=False, runtime_env=own, **local)
        except Exception as error:  # ConnectionError, ValueError, RuntimeError, …
            where = f"--ray-address {address}" if address else "--engine ray"
            raise PlacementError(f"{where}: Ray does not answer: {described(error)}") from error
        try:
            yield ray
        finally:
            ray.shutdown()
