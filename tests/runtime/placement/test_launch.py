"""The launcher: signals, failures and exit codes of several processes, without training."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.multiprocess

# The launcher with another program than bertkit, and short limits.
LAUNCHER = """\
import sys
from bertkit.runtime.placement import launch
launch._TO_END, launch._AFTER_A_FAILURE = 2.0, 0.5
program, number, *arguments = sys.argv[1:]
popen = launch.subprocess.Popen
launch.subprocess.Popen = lambda words, **settings: popen([words[0], program, *words[4:]], **settings)
sys.exit(launch.launch(arguments, int(number)))
"""

# A process that follows the plan of its rank; it notes that it has started, and that it has saved a checkpoint.
PROCESS = """\
import json, os, pathlib, signal, sys, threading, time
from bertkit.runtime.placement.launch import end_with_launcher
end_with_launcher()
rank, folder = os.environ["RANK"], pathlib.Path(sys.argv[1])
plan = json.loads(sys.argv[2])[int(rank)]
asked = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: asked.set() if plan["saves"] is not None else None)
signal.signal(signal.SIGINT, signal.SIG_IGN if "ignores_interrupt" in plan else lambda *_: sys.exit(130))
(folder / f"started {rank}").write_text(str(os.getpid()))
(folder / "folder").write_text(os.environ["BERTKIT_SCRATCH_FOLDER"])
end = time.monotonic() + plan["seconds"]
while time.monotonic() < end and not asked.is_set():
    time.sleep(0.02)
if asked.is_set():
    time.sleep(plan["saves"])
    (folder / f"saved {rank}").touch()
if plan["signal"]:
    signal.signal(plan["signal"], signal.SIG_DFL) if plan["signal"] != signal.SIGKILL else None
    os.kill(os.getpid(), plan["signal"])
sys.exit(143 if asked.is_set() else plan["code"])
"""

FOREVER: dict[str, Any] = {"seconds": 600.0, "saves": None, "signal": None, "code": 0}


class Launched:
    """A launcher in another process, with its processes started."""

    def __init__(self, folder: Path, plans: list[dict[str, Any]], *before: str, **settings: Any):
        self.folder, self.number = folder, len(plans)
        (folder / "launcher.py").write_text(LAUNCHER)
        (folder / "process.py").write_text(PROCESS)
        command = [*before, sys.executable, folder / "launcher.py", folder / "process.py", len(plans)]
        command += [folder, json.dumps(plans)]
        self.run = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True, **settings)
        deadline = time.monotonic() + 60
        while not all((folder / f"started {rank}").exists() for rank in range(self.number)):
            assert time.monotonic() < deadline
            assert self.run.poll() is None or list(folder.glob("started *")), self.run.communicate()
            time.sleep(0.02)
        time.sleep(0.1)
        self.since = time.monotonic()

    def end(self) -> tuple[int, str, float]:
        """Exit code, messages, and the seconds that it took; checks that nothing is left."""
        _, said = self.run.communicate(timeout=60)
        seconds = time.monotonic() - self.since
        assert not self.alive()
        assert not Path((self.folder / "folder").read_text()).exists()
        return self.run.returncode, said, seconds

    def alive(self) -> list[int]:
        pids = [int((self.folder / f"started {rank}").read_text()) for rank in range(self.number)]
        return [pid for pid in pids if Path(f"/proc/{pid}").exists()]

    def saved(self) -> int:
        return len(list(self.folder.glob("saved *")))


def test_one_that_fails_ends_all(tmp_path):
    plans = [FOREVER, {**FOREVER, "seconds": 0.5, "code": 3}, FOREVER]
    assert Launched(tmp_path, plans).end()[:2] == (3, "")


@pytest.mark.parametrize(("number", "reason"), [(signal.SIGKILL, "out of memory"), (signal.SIGSEGV, "")])
def test_one_that_is_killed_ends_all_and_is_named(tmp_path, number, reason):
    plans = [FOREVER, FOREVER, {**FOREVER, "seconds": 0.5, "signal": number}]
    code, said, _ = Launched(tmp_path, plans).end()
    assert code == 128 + number
    assert said.startswith(f"bertkit: error: process 2 of 3 (counted from 0) was killed by {number.name} ")
    assert reason in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    "signals",
    [
        [signal.SIGTERM, signal.SIGTERM],  # `timeout` and schedulers send a signal twice
        [signal.SIGUSR1],
        [signal.SIGHUP, signal.SIGTERM, signal.SIGTERM],
    ],
)
def test_all_save_a_checkpoint_however_long_it_takes(tmp_path, signals):
    saving = [3.0, 0.1]  # seconds; the first is longer than the limit of other signals
    run = Launched(tmp_path, [{**FOREVER, "saves": seconds} for seconds in saving])
    for number in signals:
        run.run.send_signal(number)
    code, said, _ = run.end()
    assert (code, said, run.saved()) == (143, "", 2)


@pytest.mark.parametrize(("first", "second"), [(signal.SIGTERM, signal.SIGUSR1), (signal.SIGUSR1, signal.SIGINT)])
def test_a_second_signal_ends_all_at_once(tmp_path, first, second):
    run = Launched(tmp_path, [{**FOREVER, "saves": 300.0}] * 2)
    run.run.send_signal(first)
    time.sleep(1.3)
    assert run.alive()
    run.run.send_signal(second)
    code, _, seconds = run.end()
    assert code == (130 if second == signal.SIGINT else 143)
    assert seconds < 10
    assert run.saved() == 0


def test_one_that_is_killed_while_the_others_save(tmp_path):
    run = Launched(tmp_path, [{**FOREVER, "saves": 300.0}, {**FOREVER, "saves": 0.1, "signal": signal.SIGKILL}])
    run.run.send_signal(signal.SIGTERM)
    code, said, seconds = run.end()
    assert code == 128 + signal.SIGKILL
    assert "process 1 of 2" in said
    assert seconds < 10


@pytest.mark.parametrize("first", [{}, {"ignores_interrupt": True}], ids=["one", "both"])
def test_an_interrupt_has_a_time_limit(tmp_path, first):
    """One process of the two, or both, do not end by themselves."""
    run = Launched(tmp_path, [{**FOREVER, **first}, {**FOREVER, "ignores_interrupt": True}])
    run.run.send_signal(signal.SIGINT)
    code, said, seconds = run.end()
    assert code == 130
    assert "bertkit: error" not in said
    assert seconds < 10


def test_ignored_signals_stay_ignored(tmp_path):
    """As under ``nohup``."""
    run = Launched(tmp_path, [{**FOREVER, "seconds": 2.0}], "env", "--ignore-signal=HUP")
    run.run.send_signal(signal.SIGHUP)
    assert run.end()[0] == 0


def test_processes_end_with_their_launcher(tmp_path):
    run = Launched(tmp_path, [FOREVER, FOREVER, FOREVER])
    assert len(run.alive()) == 3
    run.run.kill()
    run.run.wait()
    deadline = time.monotonic() + 10
    while run.alive() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not run.alive()
    assert f"the launcher, process {run.run.pid}, has ended" in run.run.communicate()[1]
    assert not Path((tmp_path / "folder").read_text()).exists()


def test_success_needs_all(tmp_path):
    plans = [{**FOREVER, "seconds": seconds} for seconds in (0.1, 1.0)]
    assert Launched(tmp_path, plans).end()[:2] == (0, "")
    assert Launched(tmp_path, [plans[0], {**plans[1], "code": 143}]).end()[0] == 143
