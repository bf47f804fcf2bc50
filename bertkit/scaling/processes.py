"""Workers that are processes of this machine, each with a GPU of its own where there are any.

A process runs this module. It reads a job and loads its model, then computes one shard after another; objects are
pickled, and each is answered by one: the result, or the error.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, BinaryIO

from bertkit.errors import BertkitError
from bertkit.placement.launch import LAUNCHER, describe_signal, end_with_launcher, environment_of_gpu, module_command
from bertkit.scaling.computing import Computer, Job
from bertkit.scaling.inputs import Shard
from bertkit.scaling.output import Finished
from bertkit.scaling.pool import WorkerDiedError


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

    Args:
        job: what is computed.
        number, gpus: as for `worker_environment`.

    Raises:
        WorkerDiedError: it has ended before it had loaded the model.
        BertkitError: the model cannot be loaded.
    """

    def __init__(self, job: Job, number: int, gpus: int):
        self._process = subprocess.Popen(
            module_command("bertkit.scaling.processes"),
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


if __name__ == "__main__":
    end_with_launcher()
    # What libraries print must not be mixed with the answers.
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    serve(sys.stdin.buffer, replies)
