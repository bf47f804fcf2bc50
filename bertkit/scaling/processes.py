"""Workers that are processes of this machine, each with a GPU of its own where there are any."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from bertkit.json_text import dumps
from bertkit.placement.launch import describe_signal
from bertkit.placement.launched import LAUNCHER, module_command
from bertkit.placement.resolve import environment_of_gpu
from bertkit.scaling.computing import Job
from bertkit.scaling.inputs import Shard
from bertkit.scaling.pool import WorkerDiedError, result_of


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
    """A process that runs `bertkit.scaling.worker`; it ends with this process, however this one ends.

    Messages are lines of JSON: the job first, then one shard after another; each is answered by one line.

    Args:
        job: what is computed.
        number, gpus: as for `worker_environment`.

    Raises:
        WorkerDiedError: it has ended before it had loaded the model.
        BertkitError: the model cannot be loaded.
    """

    def __init__(self, job: Job, number: int, gpus: int):
        self._process = subprocess.Popen(
            module_command("bertkit.scaling.worker"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **worker_environment(number, gpus, job.threads, os.environ), LAUNCHER: str(os.getpid())},
            start_new_session=True,  # Ctrl-C arrives at this process only, which ends the workers
        )
        try:
            result_of(self._ask(asdict(job)))
        except BaseException:
            self.end()
            raise

    @property
    def pid(self) -> int:
        """Returns the process id."""
        return self._process.pid

    def compute(self, shard: Shard) -> dict[str, Any]:
        return self._ask(asdict(shard))

    def end(self) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)  # nothing is lost: results appear only when they are complete
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError, ValueError):  # what was not sent to the process
                pipe.close()  # type: ignore[union-attr]

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(dumps(message).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except (BrokenPipeError, ValueError):
            line = b""
        if not line.endswith(b"\n"):
            code = self._process.wait()
            raise WorkerDiedError(f"by {describe_signal(-code)}" if code < 0 else f"with exit code {code}")
        reply: dict[str, Any] = json.loads(line)
        return reply
