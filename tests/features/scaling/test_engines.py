"""Several workers, and workers and drivers that are killed: the same files, and no finished shard computed again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import psutil
import pytest

ROWS, SHARD_ROWS = 1500, 100


@pytest.fixture(scope="module")
def many(tmp_path_factory, write_corpus):
    return write_corpus(tmp_path_factory.mktemp("many") / "corpus", ROWS)


@pytest.fixture(scope="module")
def command(many, fine_tuned, forks):
    def command(out, *more):
        python = sys.executable if "ray" in more else forks.python  # Ray's workers are processes of their own
        given = ["predict", fine_tuned("film"), "--input", many, "--output-dir", out, "--per-line", *more]
        given += ["--shard-rows", SHARD_ROWS]
        return [python, "-m", "bertkit", *map(str, given)]

    return command


@pytest.fixture(scope="module")
def expected(command, contents, forks, tmp_path_factory):
    """The files of one process."""
    out = tmp_path_factory.mktemp("expected") / "out"
    subprocess.run(command(out), env=forks.environment, check=True)
    return results(contents(out))


def results(files):
    return {name: data for name, data in files.items() if name != "shards.json"}


def finished(out):
    """The finished shards, with what changes if one is written again."""
    files = [path for path in out.rglob("*.jsonl") if not path.name.startswith(".")]
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in files}


def workers_of(driver, engine):
    sign = "PoolActor" if engine == "ray" else "bertkit.runtime.placement.workers"
    found = []
    for child in psutil.Process(driver).children(recursive=True):
        try:
            if any(sign in word for word in child.cmdline()):
                found.append(child)
        except psutil.Error:
            pass
    return found


def wait_for_a_shard(out, process, more=1):
    before = len(finished(out)) if out.exists() else 0
    while process.poll() is None and (not out.exists() or len(finished(out)) < before + more):
        time.sleep(0.02)


def options(engine, count):
    if engine == "ray":
        pytest.importorskip("ray", reason="the extra ray is not installed")
        return ["--engine", "ray", "--workers", count]
    return ["--num-processes", count]


@pytest.mark.slow
@pytest.mark.multiprocess
@pytest.mark.parametrize(("engine", "count"), [("local", 1), ("local", 2), ("local", 4), ("ray", 2)])
def test_any_number_of_workers_gives_the_same(command, expected, contents, forks, tmp_path, engine, count):
    given = command(tmp_path / "out", *options(engine, count))
    subprocess.run(given, env=forks.environment, check=True)
    assert results(contents(tmp_path / "out")) == expected


@pytest.mark.slow
@pytest.mark.multiprocess
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_killed_workers_are_replaced(command, expected, contents, forks, tmp_path, engine):
    out, chosen, kills = tmp_path / "out", random.Random(0), 0
    given = command(out, *options(engine, 2))
    with subprocess.Popen(given, env=forks.environment, stderr=subprocess.PIPE, text=True) as process:
        driver = process.pid if engine == "ray" else forks.process_of(process)
        for _ in range(3 if engine == "ray" else 5):  # Ray takes seconds to start a worker
            wait_for_a_shard(out, process)
            time.sleep(chosen.random() * 0.1)
            if process.poll() is None and (found := workers_of(driver, engine)):
                before = finished(out)
                # One that has started: three deaths of a starting worker rightly end the command.
                min(found, key=lambda worker: worker.create_time()).kill()
                kills += 1
                assert before.items() <= finished(out).items()
        errors = process.stderr.read()
    assert process.returncode == 0, errors
    assert kills >= (1 if engine == "ray" else 3)
    assert "another one takes its place" in errors
    assert before.items() <= finished(out).items()
    assert results(contents(out)) == expected


@pytest.mark.slow
@pytest.mark.multiprocess
@pytest.mark.parametrize("engine", ["one", "local", "ray"])
def test_a_killed_driver_loses_and_repeats_nothing(command, expected, contents, forks, tmp_path, engine):
    out, chosen = tmp_path / "out", random.Random(1)
    given = command(out, *([] if engine == "one" else options(engine, 2)))
    kept = {}
    for _ in range(1 if engine == "ray" else 5):  # Ray takes seconds to start
        with subprocess.Popen(given, env=forks.environment, stderr=subprocess.DEVNULL) as process:
            driver = process.pid if engine == "ray" else forks.process_of(process)
            wait_for_a_shard(out, process)
            time.sleep(chosen.random() * 0.2)
            below = workers_of(driver, engine) if process.poll() is None else []
            os.kill(driver, signal.SIGKILL)
        psutil.wait_procs(below, timeout=20)
        assert not [each for each in below if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]
        assert kept.items() <= finished(out).items()
        kept = finished(out)
    subprocess.run(given, env=forks.environment, check=True)
    assert kept.items() <= finished(out).items()
    assert results(contents(out)) == expected
