"""Start of the processes of a run, or of workers, on this machine, and their end when the other side ends."""

from __future__ import annotations

import math
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from pathlib import Path
from types import FrameType

from bertkit.runtime.placement.processes import INTERRUPTED, REPEATED, handled, is_main_process, usable_cores

# Environment variables that the launcher sets: its process id, and a private folder that it removes at the end.
LAUNCHER, SCRATCH_FOLDER = "BERTKIT_LAUNCHER", "BERTKIT_SCRATCH_FOLDER"

# Signal to the launcher → signal to the processes. They save a checkpoint on SIGTERM.
_FORWARDED = {"SIGTERM": "SIGTERM", "SIGUSR1": "SIGTERM", "SIGHUP": "SIGTERM", "SIGINT": "SIGINT"}
_POLL = 0.1  # seconds between two looks at the processes
_TO_END = 30.0  # seconds for the processes to end after Ctrl-C
_AFTER_A_FAILURE = 3.0  # seconds for the others if one of them fails instead; less than `FOR_THE_LAUNCHER`
_POLL_OF_PARENT = 1.0  # seconds between two looks of a process at its launcher

FOR_THE_LAUNCHER = 5.0  # seconds for the launcher to notice that another process was killed

_is_launched = False


def launch(arguments: Sequence[str], num_processes: int) -> int:
    """Runs ``bertkit`` in several processes that train together, as ``torchrun --nproc-per-node`` does.

    If one process fails, the others are killed; if a signal killed it, a message on stderr says so. SIGTERM, SIGUSR1
    and SIGHUP to this process are forwarded as SIGTERM: the processes save a checkpoint and end by themselves, without
    a time limit. SIGINT is forwarded too, and what has not ended after 30 seconds is killed. After any of them, a
    process that fails leaves the others 3 seconds, as one that ends on SIGINT does. A second signal kills all
    processes. If this process is killed, the others end too (`end_with_launcher`).

    Args:
        arguments: command line arguments, without the program.
        num_processes: number of processes, at least 1.

    Returns:
        The exit code: 0 if all processes succeeded; 128 + N if signal N killed one of them; the exit code of one that
        failed otherwise; 143 if they ended on SIGTERM, SIGUSR1 or SIGHUP, 130 on SIGINT.
    """
    signals = _Signals()
    processes: list[subprocess.Popen[bytes]] = []
    with signals.recording(), tempfile.TemporaryDirectory(prefix="bertkit-", ignore_cleanup_errors=True) as scratch:
        from torch.distributed import TCPStore  # type: ignore[attr-defined]

        store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)  # at a free port
        environment = {
            "OMP_NUM_THREADS": str(max(1, usable_cores() // num_processes)),
            "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
            **os.environ,
            "MASTER_ADDR": "localhost",
            "MASTER_PORT": str(store.port),
            "TORCHELASTIC_USE_AGENT_STORE": "True",  # the store is in this process
            "WORLD_SIZE": str(num_processes),
            "LOCAL_WORLD_SIZE": str(num_processes),
            "GROUP_RANK": "0",
            LAUNCHER: str(os.getpid()),
            SCRATCH_FOLDER: scratch,
        }
        try:
            for rank in map(str, range(num_processes)):
                process = subprocess.Popen(
                    module_command("bertkit", *arguments),
                    env={**environment, "RANK": rank, "LOCAL_RANK": rank},
                    start_new_session=True,  # Ctrl-C arrives here only; a process is killed with its data workers
                )
                processes.append(process)
            return _wait(processes, signals, arguments)
        finally:
            for process in processes:
                if process.poll() is None:
                    if hasattr(os, "killpg"):
                        os.killpg(process.pid, signal.SIGKILL)  # with its children
                    else:
                        process.kill()
                    process.wait()


class _Signals:
    """Records the signals of `_FORWARDED` to this process, except those that the parent ignores (``nohup``).

    Attributes:
        received: the first signal, and those that came later than `REPEATED` seconds after it.
    """

    def __init__(self) -> None:
        self.received: list[signal.Signals] = []
        self._first = math.inf

    def recording(self) -> AbstractContextManager[None]:
        """Returns a context in which signals are recorded."""
        return handled([getattr(signal, name) for name in _FORWARDED if hasattr(signal, name)], self._record)

    def _record(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        self._first = min(self._first, now)
        if not self.received or now - self._first > REPEATED:
            self.received.append(signal.Signals(number))

    @property
    def forwarded(self) -> signal.Signals | None:
        """Returns the signal to send to the processes; None if none was received."""
        return signal.Signals[_FORWARDED[self.received[0].name]] if self.received else None


def _wait(processes: Sequence[subprocess.Popen[bytes]], signals: _Signals, arguments: Sequence[str]) -> int:
    """Waits for the end of the run; forwards the first signal; returns the exit code, and may leave processes."""
    sent: signal.Signals | None = None
    deadline = math.inf
    while True:
        codes = [process.poll() for process in processes]
        ended = [code for code in codes if code is not None]
        forwarded = signals.forwarded
        if forwarded is not None and sent is None:
            sent = forwarded
            deadline = math.inf if sent == signal.SIGTERM else time.monotonic() + _TO_END
            for process in processes:
                process.send_signal(sent)
        failures = [code for code in ended if code not in (0, INTERRUPTED)]
        if failures and sent is not None:
            deadline = min(deadline, time.monotonic() + _AFTER_A_FAILURE)
        over = len(ended) == len(codes) or len(signals.received) > 1 or time.monotonic() > deadline
        if over or (failures and sent is None):
            break
        time.sleep(_POLL)
    for rank, code in enumerate(codes):
        if code is not None and code < 0 and -code != sent:
            return _report_killed(rank, -code, arguments, len(codes))
    if len(signals.received) > 1:
        return 128 + signal.Signals[_FORWARDED[signals.received[-1].name]]
    if sent is not None:
        own = [code for code in failures if code > 0 and code != 128 + sent] if sent == signal.SIGTERM else []
        return own[0] if own else (128 + sent if any(code != 0 for code in codes) else 0)
    return failures[0] if failures else max(ended)


def _report_killed(rank: int, number: int, arguments: Sequence[str], num_processes: int) -> int:
    """Prints that a signal killed a process, and the command that continues the run; returns the exit code."""
    words = ["bertkit", *arguments]
    folders = [word.removeprefix("--output-dir=") for word in words if word.startswith("--output-dir=")]
    folders += [following for word, following in pairwise(words) if word == "--output-dir"]
    if "--resume" not in words and any((Path(folder) / "recipe.yaml").is_file() for folder in folders):
        words.append("--resume")
    print(
        f"bertkit: error: process {rank} of {num_processes} (counted from 0) was killed by {describe_signal(number)}; "
        f"the others were ended. To continue: {shlex.join(words)}",
        file=sys.stderr,
    )
    return 128 + number


_REASONS = {
    "SIGKILL": "probably because the machine ran out of memory",
    "SIGBUS": "probably because shared memory (/dev/shm) or the disk is full",
    "SIGTERM": "by another program",
}


def describe_signal(number: int) -> str:
    """Describes a signal that ended a process, with the probable reason.

    >>> describe_signal(9)
    'SIGKILL (signal 9), probably because the machine ran out of memory'
    >>> describe_signal(11)
    'SIGSEGV (signal 11)'
    """
    try:
        name = signal.Signals(number).name
    except ValueError:  # real-time signals have no names
        return f"signal {number}"
    reason = _REASONS.get(name)
    return f"{name} (signal {number}){f', {reason}' if reason else ''}"


def module_command(module: str, *arguments: str) -> list[str]:
    """Returns the command line of a process that runs a module as ``python -m`` does.

    ``-P`` keeps the working folder off its import path: there may be a ``torch.py`` or ``json.py`` of anyone's.

    >>> module_command("bertkit.features.grids.workers", "grid")[1:]
    ['-P', '-m', 'bertkit.features.grids.workers', 'grid']
    """
    return [sys.executable, "-P", "-m", module, *arguments]


def end_with_launcher() -> None:
    """Ends this process soon after its launcher has ended; has no effect without a launcher.

    A thread compares the parent process with the launcher every second. (Windows keeps the number of a parent that has
    ended, so the comparison is not made there.)
    """
    global _is_launched
    # Removed, since a command that this process starts has another parent.
    launcher = os.environ.pop(LAUNCHER, None)
    if launcher is None:
        return
    _is_launched = True

    def watch() -> None:
        while os.getppid() == int(launcher):
            time.sleep(_POLL_OF_PARENT)
        try:
            if is_main_process():
                os.write(2, f"bertkit: error: the launcher, process {launcher}, has ended, so this run ends\n".encode())
        except OSError:  # whoever read stderr may have ended too
            pass
        shutil.rmtree(os.environ.get(SCRATCH_FOLDER, ""), ignore_errors=True)  # in place of the launcher
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)  # with the data workers
        os.kill(os.getpid(), signal.SIGKILL)

    if os.name == "posix":
        threading.Thread(target=watch, name="launcher", daemon=True).start()


def wait_for_launcher() -> None:
    """Waits for the launcher to kill this process before it reports an unexpected error; no effect without a launcher.

    The launcher does so if another process was killed. The error is then only its consequence, such as a connection
    that was closed. The other processes wait longer than the main process, so that an error of all is reported once.
    """
    if _is_launched:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)  # an interruption has no second traceback
        sys.stderr.flush()
        time.sleep(FOR_THE_LAUNCHER if is_main_process() else 2 * FOR_THE_LAUNCHER)


def environment_of_gpu(number: int, gpus: int, environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variable by which a worker process sees one of the GPUs that this process sees.

    Args:
        number: of the worker, from 0.
        gpus: number of GPUs; the variable is left out if it is 0.
        environment: variables of this process.

    >>> environment_of_gpu(1, 2, {}), environment_of_gpu(3, 2, {"CUDA_VISIBLE_DEVICES": "4,5"})
    ({'CUDA_VISIBLE_DEVICES': '1'}, {'CUDA_VISIBLE_DEVICES': '5'})
    """
    visible = environment.get("CUDA_VISIBLE_DEVICES", "")
    names = visible.split(",") if visible else list(map(str, range(gpus)))
    return {"CUDA_VISIBLE_DEVICES": names[number % len(names)].strip()} if gpus else {}
