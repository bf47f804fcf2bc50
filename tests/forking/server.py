"""Process that imports everything and then forks: a program starts in 0.1 s instead of 4 s.

As a script, ``python server.py SOCKET [MODULE …]``, it imports bertkit with all its modules and the given ones, listens
at SOCKET, prints a line, and ends when its standard input ends. Each connection starts a program (`client.start`). The
answers are its process id, or 0 for a program that must be a process of its own, and then its exit code, a line each.
A program whose client has ended is killed.

A fork has the hash seed of this process, so what differs between two interpreters because of it does not differ here.
It does not wait until files are on the disk: ``os.fsync`` does nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import gc
import importlib
import json
import os
import pkgutil
import resource
import runpy
import selectors
import signal
import socket
import sys
import tempfile
import threading
import traceback
import types
from collections.abc import Mapping, Sequence
from typing import Any

MODES = os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT

# Variables that libraries may have read when they were imported, and those of them that belong to a single run.
READ_AT_IMPORT = ("ATEN_", "CUDA", "DATASETS_", "HF_", "KMP_", "LD_", "MALLOC_", "MKL_", "OMP_", "ONEDNN_", "PYTHON")
READ_AT_IMPORT += ("PYTORCH_", "TORCH_", "TRANSFORMERS_", "XDG_")
OF_A_RUN = ("TORCH_NCCL_",)

_SET_BY_THE_COMMAND: dict[str, str] = {}


def enter(request: Mapping[str, Any], passed: Sequence[int] = ()) -> None:
    """Makes this process a session of its own with the streams, the folder and the limits of ``request``.

    Args:
        request: see `client.start`.
        passed: file descriptors, for the streams that are not given by a path.
    """
    os.setsid()
    descriptors = iter(passed)
    for number, (place, mode) in enumerate(zip(request["streams"], MODES, strict=True)):
        if place is None:
            os.close(number)
        else:
            opened = next(descriptors) if place is True else os.open(place, mode, 0o644)
            os.dup2(opened, number)
            os.close(opened)
    os.chdir(request["folder"])
    if request["gone"]:
        os.rmdir(request["folder"])
    for name, value in request["limits"].items():
        resource.setrlimit(getattr(resource, name), (value, value))


def _import_everything(modules: Sequence[str]) -> None:
    from bertkit.cli import app

    before = dict(os.environ)
    app._set_environment()  # before torch is imported, as the command does
    _SET_BY_THE_COMMAND.update(dict(os.environ.items() - before.items()))
    import bertkit

    found = [module.name for module in pkgutil.walk_packages(bertkit.__path__, "bertkit.")]
    for name in (*found, *modules):
        with contextlib.suppress(ImportError):  # extras that are not installed
            importlib.import_module(name)


def _read_at_import(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that libraries may have read, also those that the command sets itself."""
    return {
        name: value
        for name, value in {**_SET_BY_THE_COMMAND, **environment}.items()
        if name.startswith(READ_AT_IMPORT) and not name.startswith(OF_A_RUN)
    }


class Server:
    """Forks a program for each connection to ``listener``.

    Args:
        environment: the variables with which this process was started.
    """

    def __init__(self, listener: socket.socket, environment: Mapping[str, str]):
        self._listener, self._expected = listener, _read_at_import(environment)
        self._running: dict[int, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        ended, self._wakes = socket.socketpair()
        self._wakes.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(self._wakes.fileno())
        for each in (listener, ended, sys.stdin):
            self._selector.register(each, selectors.EVENT_READ)
        self._ended = ended

    def serve(self) -> tuple[dict[str, Any], list[int]] | None:
        """Returns None when stdin ends; in a fork, the request and the streams that came with it."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is sys.stdin:
                    for process in self._running:
                        _kill(process)
                    return None
                if key.fileobj is self._ended:
                    self._ended.recv(4096)
                    self._reap()
                elif key.fileobj is not self._listener:
                    if key.data in self._running:  # else both have ended, and the fork was reaped in this round
                        _kill(key.data)  # the client has ended
                        self._selector.unregister(key.fileobj)
                elif (found := self._accept()) is not None:
                    return found

    def _accept(self) -> tuple[dict[str, Any], list[int]] | None:
        connection, _ = self._listener.accept()
        _, passed, _, _ = socket.recv_fds(connection, 1, 3)
        with connection.makefile() as lines:
            line = lines.readline()
        if not line.endswith("\n"):  # the client has ended
            connection.close()
            request = None
        else:
            request = json.loads(line)
            if _read_at_import(request["environment"]) != self._expected:
                connection.sendall(b"0\n")
                connection.close()
                request = None
        if request is not None:
            process = os.fork()
            if not process:
                self._leave(connection)
                return request, passed
            self._running[process] = connection
            connection.sendall(f"{process}\n".encode())
            self._selector.register(connection, selectors.EVENT_READ, process)
        for each in passed:
            os.close(each)
        return None

    def _leave(self, connection: socket.socket) -> None:
        """Closes in a fork what belongs to the server."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        for each in (self._listener, self._ended, self._wakes, connection, *self._running.values()):
            each.close()

    def _reap(self) -> None:
        for process, connection in list(self._running.items()):
            found, status = os.waitpid(process, os.WNOHANG)
            if found:
                del self._running[process]
                with contextlib.suppress(KeyError):
                    self._selector.unregister(connection)
                with contextlib.suppress(OSError):  # the client has ended
                    connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
                connection.close()


def _kill(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):  # the session that it leads
        os.killpg(process, signal.SIGKILL)


def _stream(number: int) -> Any:
    """A stream as the interpreter opens it at its start: None where the file descriptor is closed."""
    try:
        os.fstat(number)
    except OSError:
        return None
    errors = "backslashreplace" if number == 2 else "strict"
    mode = "w" if number else "r"
    line_by_line = number == 2 or (number == 1 and os.isatty(number))
    return open(number, mode, 1 if line_by_line else -1, "utf-8", errors, closefd=False)


def _become(request: Mapping[str, Any]) -> None:
    """Sets what differs between this process and the one that is asked for."""
    sys.stdin, sys.stdout, sys.stderr = map(_stream, range(3))
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    os.environ.clear()
    os.environ.update(request["environment"])
    if "BERTKIT_LAUNCHER" in os.environ:  # the launcher started the client; if it ends, so do the client and this
        os.environ["BERTKIT_LAUNCHER"] = str(os.getppid())
    sys.executable = request["python"] or sys.executable
    tempfile.tempdir = None
    import numpy as np

    np.random.seed()
    if sys.stderr is not None:
        faulthandler.enable()  # a process that hangs is ended with SIGABRT and says where it was


def _run(program: str, arguments: list[str]) -> None:
    if program == "bertkit":
        from bertkit.cli.app import main

        sys.argv = ["bertkit", *arguments]
        main()
        return
    option = arguments.pop(0) if arguments[0] in ("-P", "-u") else ""
    if option != "-P" and arguments[0] in ("-m", "-c", "-"):
        sys.path.insert(0, os.getcwd())
    if arguments[0] == "-m":
        sys.argv = list(arguments[1:])
        for name in (arguments[1], f"{arguments[1]}.__main__"):
            if not hasattr(sys.modules.get(name), "__path__"):  # a module runs again, as the main one; packages stay
                sys.modules.pop(name, None)
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif arguments[0] in ("-c", "-"):
        rest = arguments[1:]
        text, name = (rest.pop(0), "<string>") if arguments[0] == "-c" else (sys.stdin.read(), "<stdin>")
        sys.argv = [arguments[0], *rest]
        main_module = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(text, name, "exec"), main_module.__dict__)
    else:
        sys.argv = list(arguments)
        runpy.run_path(arguments[0], run_name="__main__")


def _exit_code(request: Mapping[str, Any]) -> int:
    """Runs the program and returns its exit code, as the interpreter would, without freeing all memory first."""
    code: Any = 0
    try:
        _run(request["program"], request["arguments"])
    except SystemExit as stop:
        code = stop.code
    except BaseException:
        traceback.print_exc()
        code = 1
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined] - waits for threads
    atexit._run_exitfuncs()
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except OSError:
        traceback.print_exc()
        return 120
    return code or 0


def _main(place: str, *modules: str) -> None:
    environment = dict(os.environ)
    del sys.path[0]  # the folder of this script
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(place)
    listener.listen(64)
    _import_everything(modules)
    os.fsync = lambda descriptor: None
    gc.collect()
    gc.freeze()  # a collection in a fork would copy every page
    print("ready", flush=True)
    found = Server(listener, environment).serve()
    if found is not None:
        request, passed = found
        enter(request, passed)
        _become(request)
        os._exit(_exit_code(request))


if __name__ == "__main__":
    _main(*sys.argv[1:])
