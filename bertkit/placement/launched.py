"""Processes that bertkit starts: their command line, and their end when their launcher ends, for whatever reason."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time

from bertkit.placement.resolve import is_main_process

# Environment variables that the launcher sets: its process id, and a private folder that it removes at the end.
LAUNCHER, SCRATCH_FOLDER = "BERTKIT_LAUNCHER", "BERTKIT_SCRATCH_FOLDER"

FOR_THE_LAUNCHER = 5.0  # seconds for the launcher to notice that another process was killed
_POLL = 1.0  # seconds between two looks at the parent process

_is_launched = False


def module_command(module: str, *arguments: str) -> list[str]:
    """Returns the command line of a process that runs a module as ``python -m`` does.

    ``-P`` keeps the working folder off its import path: there may be a ``torch.py`` or ``json.py`` of anyone's.

    >>> module_command("bertkit.grids.workers", "grid")[1:]
    ['-P', '-m', 'bertkit.grids.workers', 'grid']
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
    if os.name == "posix":
        threading.Thread(target=_watch, args=(int(launcher),), name="launcher", daemon=True).start()


def _watch(launcher: int) -> None:
    while os.getppid() == launcher:
        time.sleep(_POLL)
    try:
        if is_main_process():
            os.write(2, f"bertkit: error: the launcher, process {launcher}, has ended, so this run ends\n".encode())
    except OSError:  # whoever read stderr may have ended too
        pass
    shutil.rmtree(os.environ.get(SCRATCH_FOLDER, ""), ignore_errors=True)  # in place of the launcher
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)  # with the data workers
    os.kill(os.getpid(), signal.SIGKILL)


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
