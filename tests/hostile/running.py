"""Starts bertkit commands under hostile conditions, in forks or in processes of their own, and kills them on time."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.forking import client, server
from tests.forking.programs import Forks

ROOT = Path(__file__).parents[2]
MEMORY = 6 << 30  # bytes; an alias bomb must not take the machine with it
ORPHANS = 3.0  # seconds that processes of a command may outlive it


@dataclass(frozen=True)
class Stop:
    """When to send which signal: after ``seconds``, or as soon as a file matches ``pattern`` in ``folder``."""

    signal: signal.Signals
    seconds: float = 0.0
    folder: Path | None = None
    pattern: str = ""

    def is_due(self, since: float) -> bool:
        if self.folder is None:
            return time.monotonic() - since >= self.seconds
        return next(self.folder.glob(self.pattern), None) is not None


@dataclass(frozen=True)
class Outcome:
    """Outcome of a command: exit code (negative for the signal that ended it), streams, and time in seconds."""

    command: str
    code: int
    out: str
    err: str
    seconds: float
    late: bool = False
    orphans: bool = False
    stopped: bool = False

    @property
    def message(self) -> str:
        """stderr from the error message on; all of it where there is none."""
        start = self.err.find("bertkit: error: ")
        return self.err[max(start, 0) :]


@dataclass
class Runner:
    """Runs commands; ``home`` becomes their HF_HOME."""

    home: Path
    _forks: Forks | None = field(default=None, repr=False)

    def environment(self, **changes: str | None) -> dict[str, str]:
        """The environment of a command: the one of the tests without what they set for themselves; None unsets."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHON", "HF_"))}
        own = {"HF_HOME": str(self.home), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        own |= {"MKL_CBWR": "AUTO", "TOKENIZERS_PARALLELISM": "false", "TRANSFORMERS_VERBOSITY": "error"}
        return {name: value for name, value in {**kept, **own, **changes}.items() if value is not None}

    def run(
        self,
        *arguments: object,
        folder: Path,
        limit: float,
        own_process: bool = False,
        streams: Sequence[str | Path | None] = (),
        environment: Mapping[str, str | None] | None = None,
        gone: bool = False,
        limits: Mapping[str, int] | None = None,
        stop: Stop | None = None,
    ) -> Outcome:
        """Runs ``bertkit ARGUMENTS`` in ``folder/work`` and waits until it and all that it started are gone.

        Args:
            arguments: of the command line.
            folder: gets the streams, ``work`` and the folder for temporary files, ``tmp``.
            limit: seconds after which the command is killed, and late.
            own_process: start another interpreter instead of a fork.
            streams: see `server.enter`; by default stdin says "y" to every question, and stdout and stderr are
                files.
            environment: variables to set, or to unset (None).
            gone: delete the working directory once the command is in it.
            limits: see `server.enter`.
            stop: a signal to send, to the process alone.
        """
        work, temporary = folder / "work", folder / "tmp"
        for each in (work, temporary):
            each.mkdir(parents=True, exist_ok=True)
        places = [folder / "in", folder / "out", folder / "err"]
        for place, content in zip(places, ("y\n" * 20, "", ""), strict=True):
            place.write_text(content)
        if streams:
            places = [usual if place == "" else place for usual, place in zip(places, streams, strict=True)]
        request = {
            "arguments": [str(argument) for argument in arguments],
            "environment": self.environment(**{"TMPDIR": str(temporary), **(environment or {})}),
            "streams": [None if place is None else str(place) for place in places],
            "folder": str(work / "gone" if gone else work),
            "gone": gone,
            "limits": {"RLIMIT_DATA": MEMORY, "RLIMIT_CORE": 0, **(limits or {})},
            "program": "bertkit",
            "python": None,
        }
        if gone:
            (work / "gone").mkdir()
        process = _Fresh(request) if own_process else _Forked(self._socket(), request)
        began = time.monotonic()
        stopped = late = False
        while not process.has_ended(0.002 if stop and not stopped else 0.05):
            if stop and not stopped and stop.is_due(began):
                stopped = True
                _send(process.pid, stop.signal)
            if time.monotonic() - began > limit:
                late = True
                _send(process.pid, signal.SIGABRT)  # it says where it hangs
                time.sleep(1)
                _send(-process.pid, signal.SIGKILL)
        seconds = time.monotonic() - began
        orphans = _outlived(process.pid)
        read = {name: (folder / name).read_bytes().decode(errors="replace") for name in ("out", "err")}
        command = " ".join(map(str, arguments))
        return Outcome(command, process.code, **read, seconds=seconds, late=late, orphans=orphans, stopped=stopped)

    def _socket(self) -> str:
        if self._forks is None:
            self.home.mkdir(parents=True, exist_ok=True)
            self._forks = Forks(self.environment())
        return self._forks.socket

    def close(self) -> None:
        """Ends the process that forks."""
        if self._forks is not None:
            self._forks.close()


class _Forked:
    def __init__(self, socket: str, request: Mapping[str, Any]):
        self.pid, self._answers = client.start(socket, request)
        assert self.pid, f"not what the server was started with: {request['environment']}"
        self.code = 0
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._answers, selectors.EVENT_READ)

    def has_ended(self, seconds: float) -> bool:
        if not self._selector.select(seconds):
            return False
        self._selector.close()
        with self._answers:
            self.code = int(self._answers.readline())
        return True


class _Fresh:
    def __init__(self, request: Mapping[str, Any]):
        arguments = [word.encode(errors="surrogateescape") for word in request["arguments"]]
        command = [sys.executable, "-m", "bertkit", *arguments]
        self._process = subprocess.Popen(
            command, env=request["environment"], preexec_fn=lambda: server.enter(request), close_fds=True
        )
        self.pid, self.code = self._process.pid, 0

    def has_ended(self, seconds: float) -> bool:
        try:
            self.code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True


def _send(pid: int, number: int) -> bool:
    """Sends a signal to a process, or with a negative id to its group; returns whether there was one."""
    try:
        os.killpg(-pid, number) if pid < 0 else os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def _outlived(pid: int) -> bool:
    """Returns whether processes of the group outlive their leader, and ends them."""
    until = time.monotonic() + ORPHANS
    while _send(-pid, 0):
        if time.monotonic() > until:
            _send(-pid, signal.SIGKILL)
            return True
        time.sleep(0.05)
    return False
