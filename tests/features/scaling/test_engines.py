"""Several workers, and workers and drivers that are killed: the same files, and no finished shard computed again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.multiprocess]
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


def kill_a_worker(driver, engine, out):
    """Kills one that has started, for three deaths of a starting worker rightly end the command; returns whether."""
    found = workers_of(driver, engine)
    before = finished(out)
    if found:
        min(found, key=lambda worker: worker.create_time()).kill()
    assert before.items() <= finished(out).items()
    return bool(found)


def kill_the_driver(driver, engine):
    """Its workers end with it."""
    below = workers_of(driver, engine)
    os.kill(driver, signal.SIGKILL)
    psutil.wait_procs(below, timeout=20)
    assert not [each for each in below if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]


def test_many_workers_give_the_same(command, expected, contents, forks, tmp_path):
    subprocess.run(command(tmp_path / "out", "--num-processes", 4), env=forks.environment, check=True)
    assert results(contents(tmp_path / "out")) == expected


def test_killed_workers_are_replaced(command, expected, contents, forks, tmp_path, rng):
    out, kills = tmp_path / "out", 0
    given = command(out, "--num-processes", 2)
    with subprocess.Popen(given, env=forks.environment, stderr=subprocess.PIPE, text=True) as process:
        driver = forks.process_of(process)
        for _ in range(5):
            wait_for_a_shard(out, process)
            time.sleep(rng.random() * 0.1)
            kills += process.poll() is None and kill_a_worker(driver, "local", out)
        errors = process.stderr.read()
    assert process.returncode == 0, errors
    assert kills >= 3
    assert "another one takes its place" in errors
    assert results(contents(out)) == expected


def test_a_killed_driver_loses_and_repeats_nothing(command, expected, contents, forks, tmp_path, rng):
    out = tmp_path / "out"
    given = command(out, "--num-processes", 2)
    kept = {}
    for _ in range(3):
        with subprocess.Popen(given, env=forks.environment, stderr=subprocess.DEVNULL) as process:
            driver = forks.process_of(process)
            wait_for_a_shard(out, process)
            time.sleep(rng.random() * 0.2)
            if process.poll() is None:
                kill_the_driver(driver, "local")
        assert kept.items() <= finished(out).items()
        kept = finished(out)
    subprocess.run(given, env=forks.environment, check=True)
    assert kept.items() <= finished(out).items()
    assert results(contents(out)) == expected


def test_ray_survives_the_death_of_its_driver_and_of_a_worker(command, expected, contents, forks, tmp_path):
    """Ray takes seconds to start: one run loses its driver, and the one that computes the rest loses a worker."""
    pytest.importorskip("ray", reason="the extra ray is not installed")
    out = tmp_path / "out"
    given = command(out, "--engine", "ray", "--workers", 2)
    with subprocess.Popen(given, env=forks.environment, stderr=subprocess.PIPE, text=True) as process:
        wait_for_a_shard(out, process)
        assert process.poll() is None, process.stderr.read()
        kill_the_driver(process.pid, "ray")
    kept = finished(out)
    assert kept
    with subprocess.Popen(given, env=forks.environment, stderr=subprocess.PIPE, text=True) as process:
        wait_for_a_shard(out, process)
        assert process.poll() is None, process.stderr.read()
        assert kill_a_worker(process.pid, "ray", out)
        errors = process.stderr.read()
    assert process.returncode == 0, errors
    assert "another one takes its place" in errors
    assert kept.items() <= finished(out).items()
    assert results(contents(out)) == expected
