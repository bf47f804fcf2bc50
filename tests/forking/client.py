"""Program that another process runs: it has the arguments, the streams, the signals and the exit code of this one.

As a script, ``python -SI client.py SOCKET PROGRAM ARGUMENT …``, where PROGRAM is the path of ``python`` or ``bertkit``
in a folder of `tests.forking.programs`. It imports nothing but the standard library and starts in 0.03 s.
"""

import contextlib
import json
import os
import signal
import socket
import sys

OPTIONS = "-P", "-u"  # those with which launchers start their processes
FORWARDED = signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGABRT


def start(server, request, streams=()):
    """Asks the server for a fork.

    Args:
        server: path of its socket.
        request: ``program``, "python" or "bertkit"; ``arguments``; ``environment``; ``folder``, the working directory,
            and whether to delete it once it is entered, ``gone``; ``streams``, for stdin, stdout and stderr True (the
            next of the given ones), a path, or None for a closed one; ``limits``, the value of each limit by the name
            of ``resource.RLIMIT_…``; ``python``, the path that ``sys.executable`` gets (None: the interpreter's).
        streams: file descriptors.

    Returns:
        The process id, 0 if this program must be a process of its own, and the file that its exit code is read from.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(server)
        socket.send_fds(connection, [b"\0"], list(streams))
        connection.sendall(json.dumps(request).encode() + b"\n")
        answers = connection.makefile()
    return int(answers.readline()), answers


def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def forkable(program, arguments):
    """Returns whether the arguments name a program, without options of the interpreter but those of `OPTIONS`."""
    if program == "bertkit":
        return True
    if arguments[:1] in [(option,) for option in OPTIONS]:
        arguments = arguments[1:]
    return bool(arguments) and (arguments[0] in ("-m", "-c", "-") or not arguments[0].startswith("-"))


def main(server, place, *arguments):
    folder, program = os.path.split(place)
    if forkable(program, arguments):
        streams = [number for number in range(3) if is_open(number)]
        request = {
            "program": program,
            "arguments": arguments,
            "environment": dict(os.environ),
            "folder": os.getcwd(),
            "gone": False,
            "streams": [True if number in streams else None for number in range(3)],
            "limits": {},
            "python": os.path.join(folder, "python"),
        }
        process, answers = start(server, request, streams)
        if process:
            with open(os.path.join(folder, str(os.getpid())), "w") as file:
                file.write(f"{process}\n")
            wait(process, answers)
    interpreter = sys.executable
    if program == "bertkit":
        arguments = ("-m", "bertkit", *arguments)
    os.execv(interpreter, [interpreter, *arguments])


def wait(process, answers):
    """Forwards signals until the process ends; ends this one as that one has ended."""

    def forward(number, frame):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)

    for number in FORWARDED:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, forward)
    line = answers.readline()
    code = int(line) if line else -signal.SIGKILL
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
