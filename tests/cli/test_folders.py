"""`predict` and `embed` with --output-dir: one line on what was written, and options that do not go together."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def texts(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_text("id,text\n1,a good film\n2,a bad plot\n3\n")
    return folder


def test_predict_writes_a_folder(bertkit, fine_tuned, texts, tmp_path):
    given = ["predict", fine_tuned("film"), "--input", texts, "--output-dir", tmp_path / "out"]
    stopped = bertkit(*given)
    assert stopped.code == 2
    assert "a.csv, line 4: 1 field where the header has 2" in stopped.err
    found = bertkit(*given, "--on-error", "skip")
    assert (found.code, found.out) == (0, f"2 rows, 1 rejected in 1 shard: {tmp_path / 'out'}\n")
    again = json.loads(bertkit(*given, "--on-error", "skip", "--json").out)
    assert (again["computed"], again["rows"], again["rejected"]) == (0, 2, 1)


def test_embed_writes_a_folder(bertkit, checkpoint, texts, tmp_path):
    given = ["--input", texts, "--output-dir", tmp_path / "out", "--on-error", "skip", "--shard-rows", 2]
    assert bertkit("embed", checkpoint, *given).code == 0
    assert (tmp_path / "out" / "a.csv.000000.parquet").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict", "--engine", "ray", "a text"], "--engine: is for --output-dir"),
        (["predict", "--output-dir", "out", "a text"], "TEXT: is not for --output-dir"),
        (["predict", "--output-dir", "out"], "with --input"),
        (["predict", "--output-dir", "out", "--input", "-"], "with --input"),
        (["embed", "a text"], "give --output FILE, or --output-dir DIR"),
        (["embed", "--output", "a.npz", "--workers", "2", "a text"], "--workers: is for --output-dir"),
        (["predict", "--input", "."], "is a folder; give --output-dir"),
    ],
)
def test_options_that_do_not_go_together(bertkit, fine_tuned, arguments, message):
    command, *more = arguments
    found = bertkit(command, fine_tuned("film"), *more)
    assert found.code == 2
    assert message in found.err
