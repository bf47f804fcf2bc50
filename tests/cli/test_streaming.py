"""Many lines through the real command: pipes that wait, pipes that break, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

import bertkit as package


@pytest.fixture
def classifier(fine_tuned) -> Path:
    return fine_tuned("film")


def start(*args: object, **pipes: object) -> subprocess.Popen[str]:
    """``bertkit ARGS…`` in a process of its own, which Ctrl-C reaches also where the tests run in the background."""
    return subprocess.Popen(
        [sys.executable, "-m", "bertkit", *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        **pipes,
    )


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    while not (path.exists() and path.stat().st_size):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="pipes of Windows break in another way")
def test_a_pipe_is_answered_while_it_waits(classifier):
    """The exit code is what a shell shows of a command that a broken pipe ended."""
    with start("predict", classifier, "--input", "-", stdin=subprocess.PIPE) as process:
        for text in ("a good film", "", "the plot"):
            process.stdin.write(f"{text}\n")
            process.stdin.flush()
            label, probability, given = process.stdout.readline().rstrip("\n").split("\t")
            assert label in ("bad", "fair", "good")
            assert 1 / 3 <= float(probability) <= 1
            assert given == text
        process.stdout.close()
        process.stdin.write("nobody reads this\n")
        process.stdin.flush()
        assert process.stderr.read() == ""
        assert process.wait() == 141


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT cannot be sent to another process there")
@pytest.mark.parametrize("command", ["predict", "embed"])
def test_ctrl_c_keeps_whole_rows(classifier, tmp_path, command):
    lines, out = tmp_path / "in.txt", tmp_path / "out.jsonl"
    lines.write_text("".join(f"a good film {number}\n" for number in range(100_000)))
    with start(command, classifier, "--input", lines, "--output", out) as process:
        partial = tmp_path / "out.jsonl.partial"
        wait_for(partial, process)
        process.send_signal(signal.SIGINT)
        printed, said = process.communicate(timeout=60)
    rows = partial.read_text().splitlines()
    assert [json.loads(row)["text"] for row in rows] == [f"a good film {number}" for number in range(len(rows))]
    assert 0 < len(rows) < 100_000
    assert printed == ""
    assert f"{partial}: {len(rows)} complete rows" in said
    assert "Traceback" not in said
    assert process.returncode == 130
    assert not out.exists()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT cannot be sent to another process there")
def test_ctrl_c_leaves_whole_lines_on_stdout(classifier, tmp_path):
    lines = tmp_path / "in.txt"
    lines.write_text("".join(f"a good film {number}\n" for number in range(100_000)))
    with start("predict", classifier, "--input", lines) as process:
        printed = [process.stdout.readline()]
        process.send_signal(signal.SIGINT)
        printed += process.stdout.readlines()
        said = process.stderr.read()
    assert all(line.count("\t") == 2 for line in printed), (printed[-1], said)
    assert [line.split("\t")[2] for line in printed] == [f"a good film {number}\n" for number in range(len(printed))]
    assert "Traceback" not in said
    assert process.returncode == 130


def test_blocks_equal_single_predictions(bertkit, classifier, tmp_path):
    """Some texts of the second block are also given alone."""
    lines, given = tmp_path / "in.txt", [f"a good film {number % 13}" for number in range(1100)]
    lines.write_text("\n".join(given))
    found = json.loads(bertkit("predict", classifier, "--input", lines, "--json").out)["predictions"]
    assert [row["text"] for row in found] == given
    alone = package.load(classifier).predict(given[1090:])
    for one, other in zip(found[1090:], alone, strict=True):
        assert one["probability"] == pytest.approx(other["probability"], abs=1e-6)
    for name in ("out.parquet", "out.npz"):
        outcome = bertkit("embed", classifier, "--input", lines, "--output", tmp_path / name)
        assert outcome.out == f"1100 texts, 32 numbers each: {tmp_path / name}\n"
    arrays = np.load(tmp_path / "out.npz")
    table = pyarrow.parquet.read_table(tmp_path / "out.parquet").to_pydict()
    assert table["text"] == arrays["texts"].tolist() == given
    np.testing.assert_allclose(table["embedding"], arrays["embeddings"], rtol=1e-5, atol=1e-5)
