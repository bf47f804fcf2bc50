"""The lock of a run directory: one holder at a time, however holders end, and nothing left behind."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import random
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bertkit.runtime.errors import OutputError
from bertkit.runtime.locks import LOCK_FILE, RunLock
from bertkit.training.runs.directory import check_output_dir, contents

# Takes the lock again and again, until it is killed. A second lock, which nobody else may hold meanwhile, is the check.
HOLDER = """\
import fcntl, os, random, sys, time
from pathlib import Path
from bertkit.runtime.errors import OutputError
from bertkit.runtime.locks import RunLock
folder, journal, seed = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
rng = random.Random(seed)
check = os.open(folder.parent / "check", os.O_RDWR | os.O_CREAT)  # the lower number: closed first when killed
end = time.monotonic() + 3
while time.monotonic() < end:
    try:
        with RunLock(folder):
            fcntl.flock(check, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if rng.random() < 0.3:
                reading, writing = os.pipe()
                if os.fork() == 0:  # a data worker, which outlives its run
                    os.close(check)
                    os.write(writing, b"closed")
                    time.sleep(rng.uniform(0, 0.3))
                    os._exit(0)
                os.read(reading, 6)  # else this process may be killed before, and the other one hold the check
                os.close(reading)
                os.close(writing)
            time.sleep(rng.uniform(0, 0.01))
            with journal.open("a") as lines:
                lines.write(f"{os.getpid()}\\n")
            if rng.random() < 0.02:
                os.kill(os.getpid(), 9)
            fcntl.flock(check, fcntl.LOCK_UN)
    except OutputError as error:
        assert "another run is writing here" in str(error), error
    except BlockingIOError:
        sys.exit("two processes hold the lock")
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_one_holder_at_a_time(tmp_path, seed):
    """Processes that take it, give it back, fork and are killed, at random moments."""
    rng = random.Random(seed)
    folder, journal = tmp_path / "a" / "run", tmp_path / "journal"
    folder.parent.mkdir()
    commands = [[sys.executable, "-c", HOLDER, str(folder), str(journal), str(rng.random())[2:9]] for _ in range(4)]
    runs = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    for run in runs:
        _, said = run.communicate(timeout=60)
        assert run.returncode in (0, -signal.SIGKILL), said
    holders = journal.read_text().splitlines()
    assert len(holders) > 20
    assert len(set(holders)) > 1
    with RunLock(folder):  # the file of a killed one does not matter
        pass
    assert contents(folder) == []


def test_a_second_holder_is_told_of_the_first(tmp_path):
    folder = tmp_path / "run"
    with RunLock(folder):
        assert json.loads((folder / LOCK_FILE).read_text()) == {"host": socket.gethostname(), "pid": os.getpid()}
        wanted = rf"run: another run is writing here \(host {socket.gethostname()}, process {os.getpid()}\); wait for"
        for _ in range(2):
            with pytest.raises(OutputError, match=wanted), RunLock(folder):
                pass
        assert (folder / LOCK_FILE).exists()


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'"x"', b'{"host": 1}', b"\xff", b"null"])
def test_a_lock_file_of_any_content_is_read(tmp_path, content):
    with RunLock(tmp_path):
        (tmp_path / LOCK_FILE).write_bytes(content)
        with pytest.raises(OutputError, match="another run is writing here; wait for it"), RunLock(tmp_path):
            pass
    (tmp_path / LOCK_FILE).write_bytes(content)  # as a killed run may leave it
    with RunLock(tmp_path):
        assert json.loads((tmp_path / LOCK_FILE).read_text())["pid"] == os.getpid()


def test_nothing_is_left_unless_it_was_written(tmp_path):
    with pytest.raises(ValueError, match="wrong input"), RunLock(tmp_path / "a" / "b"):
        raise ValueError("wrong input")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "mine").mkdir()
    with RunLock(tmp_path / "mine" / "run"):
        (tmp_path / "mine" / "run" / "recipe.yaml").touch()
    with RunLock(tmp_path / "mine"):
        pass
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["mine", "recipe.yaml", "run"]


def test_the_lock_is_no_content(tmp_path):
    with RunLock(tmp_path):
        assert contents(tmp_path) == []
        check_output_dir(tmp_path, resume=False)
        with pytest.raises(OutputError, match="contains no run"):
            check_output_dir(tmp_path, resume=True)


def test_the_lock_dies_with_its_process(tmp_path):
    """A forked process, such as a data worker, does not keep it."""
    program = (
        "import os, sys, time, pathlib\nfrom bertkit.runtime.locks import RunLock\n"
        "lock = RunLock(pathlib.Path(sys.argv[1])).__enter__()\nchild = os.fork()\n"
        # Told by the child: before it runs, it still has the descriptor that the lock belongs to.
        "if child == 0: print(os.getpid(), flush=True)\ntime.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program, tmp_path], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        child = int(run.stdout.readline())
        try:
            with pytest.raises(OutputError, match=f"process {run.pid}"), RunLock(tmp_path):
                pass
            run.kill()
            run.wait()
            os.kill(child, 0)  # it still lives
            with RunLock(tmp_path):
                pass
        finally:
            os.kill(child, signal.SIGKILL)


def test_the_lock_of_a_removed_folder(tmp_path):
    folder = tmp_path / "run"
    first = RunLock(folder).__enter__()
    (folder / LOCK_FILE).unlink()
    with RunLock(folder):
        first.__exit__()
        assert (folder / LOCK_FILE).exists()


@pytest.mark.parametrize("number", sorted({errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK, errno.EIO, errno.ENOSPC}))
def test_file_systems_without_locks(tmp_path, monkeypatch, capsys, number):
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    before = set(os.listdir("/proc/self/fd"))
    if number in (errno.EIO, errno.ENOSPC):
        with pytest.raises(OutputError, match=rf"cannot be written( to)?: {os.strerror(number)}"), RunLock(tmp_path):
            pass
    else:
        with RunLock(tmp_path):
            assert "this file system has no locks" in capsys.readouterr().err
        assert list(tmp_path.iterdir()) == []
    assert set(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(("place", "function"), [(os, "open"), (Path, "write_text")])
def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch, place, function):
    def full(*args: object, **kwargs: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(place, function, full)
    with pytest.raises(OutputError, match="run: cannot be written: No space left"), RunLock(tmp_path / "a" / "run"):
        pass
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []
