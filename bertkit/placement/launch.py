"""Starts the processes of a run on this machine, all with the same command line."""

from __future__ import annotations

import logging
import os
import sys
import uuid
from collections.abc import Sequence


def launch(arguments: Sequence[str], num_processes: int) -> int:
    """Runs ``bertkit`` in several processes that train together, as ``torchrun --nproc-per-node`` does.

    If one process fails, the others are terminated; a signal to this process terminates all.

    Args:
        arguments: command line arguments, without the program.
        num_processes: number of processes, at least 1.

    Returns:
        The exit code: 0, or that of the process that failed first; 128 + N if signal N ended that process or this
        one.
    """
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    logging.disable(logging.CRITICAL)  # the worker processes report their own errors
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, usable // num_processes)))
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=num_processes,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",  # a free port
        local_addr="localhost",
        max_restarts=0,
    )
    try:
        elastic_launch(config, sys.executable)("-m", "bertkit", *arguments)
    except ChildFailedError as failed:
        _, first = failed.get_first_failure()
        return first.exitcode if first.exitcode >= 0 else 128 - first.exitcode
    except SignalException as ended:
        return 128 + ended.sigval
    return 0
