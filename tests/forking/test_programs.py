"""A program that is a fork has the streams, variables, folder, signals and end of one that the interpreter starts."""

from __future__ import annotations

import json
import signal
import subprocess

import psutil
import pytest

pytestmark = pytest.mark.slow

TELLS = """
import json, os, sys
print(json.dumps([__name__, sys.argv, os.getcwd(), os.environ["WORD"], sys.stdin.read(), "torch" in sys.modules]))
print("said", file=sys.stderr)
sys.exit(3)
"""


@pytest.mark.parametrize(("more", "is_fork"), [({}, True), ({"OMP_NUM_THREADS": "2"}, False)])
def test_what_a_program_gets_and_gives(forks, tmp_path, more, is_fork):
    """Variables that the libraries have read at import make it a process of its own."""
    environment = forks.environment | {"WORD": "a word"} | more
    command, options = [forks.python, "-c", TELLS, "x y"], {"cwd": tmp_path, "env": environment}
    done = subprocess.run(command, input="given", capture_output=True, text=True, **options)
    assert json.loads(done.stdout) == ["__main__", ["-c", "x y"], str(tmp_path), "a word", "given", is_fork]
    assert (done.stderr, done.returncode) == ("said\n", 3)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_both(forks, number):
    program = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    command = [forks.python, "-c", program]
    with subprocess.Popen(command, env=forks.environment, stdout=subprocess.PIPE, text=True) as process:
        fork = psutil.Process(int(process.stdout.readline()))
        assert fork.pid != process.pid
        process.send_signal(number)
        assert process.wait(20) == -number
    fork.wait(20)
