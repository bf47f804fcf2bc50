"""Starts the server that forks, and makes programs that are its clients."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import client, server

# What bertkit imports only when it is used.
IMPORTED = ["transformers.trainer", "datasets", "pyarrow.parquet", "sklearn.metrics", "scipy.stats", "torch._dynamo"]


class Forks:
    """Starts programs as forks of one process, which ends with this one.

    Attributes:
        folder: has the programs ``python`` and ``bertkit``; each is a fork if the variables that libraries read at
            import are those of the server, and a process of its own otherwise.
        environment: variables of the server.
        socket: path at which it listens.
    """

    def __init__(self, environment: Mapping[str, str]):
        # The path of a socket may have at most about 100 characters.
        self._temporary = tempfile.TemporaryDirectory(prefix="forks-", ignore_cleanup_errors=True)
        self.folder, self.environment = Path(self._temporary.name), dict(environment)
        self.socket = str(self.folder / "socket")
        for name in ("python", "bertkit"):
            program = self.folder / name
            command = [sys.executable, "-SI", client.__file__, self.socket, str(program)]
            program.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
            program.chmod(0o755)
        self._server = subprocess.Popen(
            [sys.executable, server.__file__, self.socket, *IMPORTED],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self.environment,
            start_new_session=True,  # Ctrl-C ends it only with the tests
        )
        assert self._server.stdout is not None
        if not self._server.stdout.readline():
            raise RuntimeError(f"the server ended with exit code {self._server.wait()}")

    @property
    def python(self) -> str:
        """Returns the path of the program that takes the interpreter's place."""
        return str(self.folder / "python")

    def process_of(self, program: subprocess.Popen[Any]) -> int:
        """Returns the id of the process that is the fork of a running program; waits until it has started."""
        file, until = self.folder / str(program.pid), time.monotonic() + 30
        while not (file.exists() and file.read_text().endswith("\n")):
            assert program.poll() is None
            assert time.monotonic() < until
            time.sleep(0.01)
        return int(file.read_text())

    def close(self) -> None:
        """Ends the server and the programs that still run."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()
        self._server.stdout.close()
        self._server.wait(120)  # it frees the memory of all imports, also on a busy machine
        self._temporary.cleanup()
