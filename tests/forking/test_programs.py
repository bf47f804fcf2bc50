"""A program that is a fork has the streams, variables, folder, signals and end of one that the interpreter starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.slow

TELLS = """
import json, os, sys
print(json.dumps([sys.argv, os.getcwd(), os.environ["WORD"], sys.stdin.read(), "torch" in sys.modules]))
print("said", file=sys.stderr)
sys.exit(3)
"""


@pytest.mark.parametrize(("more", "is_fork"), [({}, True), ({"OMP_NUM_THREADS": "2"}, False)])
def test_what_a_program_gets_and_gives(forks, tmp_path, more, is_fork):
    """Variables that the libraries have read at import make it a process of its own."""
    environment = forks.environment | {"WORD": "a word"} | more
    command, options = [forks.python, "-c", TELLS, "x y"], {"cwd": tmp_path, "env": environment}
    done = subprocess.run(command, input="given", capture_output=True, text=True, **options)
    assert json.loads(done.stdout) == [["-c", "x y"], str(tmp_path), "a word", "given", is_fork]
    assert done.stderr == "said\n"
    assert done.returncode == 3


@pytest.mark.parametrize("words", [["-c", "print(__name__)"], ["script.py"], ["-"], ["-m", "script"]])
def test_the_ways_to_name_a_program(forks, tmp_path, words):
    text = "print(__name__)"
    (tmp_path / "script.py").write_text(text)
    done = subprocess.run(
        [forks.python, *words], input=text, cwd=tmp_path, env=forks.environment, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr, done.returncode) == ("__main__\n", "", 0)


def test_bertkit_and_its_own_processes(forks):
    done = subprocess.run(
        [forks.folder / "bertkit", "--version"], env=forks.environment, capture_output=True, text=True
    )
    assert done.stdout.startswith("bertkit ")
    program = "import subprocess, sys; print(subprocess.check_output([sys.executable, '-c', 'print(1)']))"
    done = subprocess.run([forks.python, "-c", program], env=forks.environment, capture_output=True, text=True)
    assert done.stdout == "b'1\\n'\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_a_signal_ends_both(forks, number):
    program = "import os, signal, time; signal.signal(2, 0); print(os.getpid(), flush=True); time.sleep(60)"
    with subprocess.Popen(
        [forks.python, "-c", program], env=forks.environment, stdout=subprocess.PIPE, text=True
    ) as process:
        fork = int(process.stdout.readline())
        assert fork != process.pid
        process.send_signal(number)
        assert process.wait(20) == -number
    until = time.monotonic() + 20
    while os.path.exists(f"/proc/{fork}"):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_without_stdin(forks):
    command = f'"{forks.python}" -c "import sys; print(sys.stdin)" <&-'
    done = subprocess.run(["sh", "-c", command], env=forks.environment, capture_output=True, text=True)
    assert done.stdout == "None\n"
    assert sys.stdin is not None
