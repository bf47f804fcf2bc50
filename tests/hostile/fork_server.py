"""Runs bertkit commands in forks of a process that has imported everything: a case costs 0.1 s instead of 5 s.

As a script it reads one JSON request a line, forks, and answers with the process id, then with the exit code. The
child enters the streams, folder and environment of the request.
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
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping
from typing import Any

MEMORY = 6 << 30  # bytes; an alias bomb must not take the machine with it
MODES = os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT


def enter(request: Mapping[str, Any]) -> None:
    """Makes this process a session of its own with the streams, the folder and the limits of ``request``.

    ``streams`` are three paths for stdin, stdout and stderr, None for a closed one; ``gone`` deletes the working
    directory after it is entered; ``limits`` maps names of ``resource.RLIMIT_…`` to values.
    """
    os.setsid()
    for number, (place, mode) in enumerate(zip(request["streams"], MODES, strict=True)):
        if place is None:
            os.close(number)
        else:
            opened = os.open(place, mode, 0o644)
            os.dup2(opened, number)
            os.close(opened)
    os.chdir(request["folder"])
    if request["gone"]:
        os.rmdir(request["folder"])
    for name, value in {"RLIMIT_DATA": MEMORY, "RLIMIT_CORE": 0, **request["limits"]}.items():
        resource.setrlimit(getattr(resource, name), (value, value))


def _stream(number: int) -> Any:
    """A stream as the interpreter opens it at its start: None where the file descriptor is closed."""
    try:
        os.fstat(number)
    except OSError:
        return None
    errors = "backslashreplace" if number == 2 else "strict"
    mode = "w" if number else "r"
    return open(number, mode, 1 if number == 2 else -1, "utf-8", errors, closefd=False)


def _import_everything() -> None:
    from bertkit.cli import app

    app._set_environment()  # before torch is imported, as the command does
    import bertkit

    for module in pkgutil.walk_packages(bertkit.__path__, "bertkit."):
        with contextlib.suppress(ImportError):  # extras that are not installed
            importlib.import_module(module.name)
    for name in json.loads(os.environ.pop("HOSTILE_PRELOAD", "[]")):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def _exit_code() -> int:
    """Runs the command and returns its exit code, as the interpreter would, without freeing all memory first."""
    from bertkit.cli.app import main

    code: Any = 0
    try:
        main()
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


def serve() -> dict[str, Any] | None:
    """Answers requests until stdin ends; in a child, returns its request at once."""
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    for line in requests:
        child = os.fork()
        if not child:
            requests.close()
            answers.close()
            return json.loads(line)
        print(child, file=answers, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=answers, flush=True)
    return None


if __name__ == "__main__":
    _import_everything()
    gc.freeze()  # a collection in a child would copy every page
    if request := serve():
        enter(request)
        sys.stdin, sys.stdout, sys.stderr = map(_stream, range(3))
        sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
        os.environ.clear()
        os.environ.update(request["environment"])
        tempfile.tempdir = None
        if sys.stderr is not None:
            faulthandler.enable()  # a process that hangs is ended with SIGABRT and says where it was
        sys.argv = ["bertkit", *request["arguments"]]
        os._exit(_exit_code())
