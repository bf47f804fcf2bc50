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
    bertkit(*given).refuses("a.csv, line 4: 1 field where the header has 2")
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
        (["predict", "--part", "", "a text"], "--part: is for --output-dir"),
        (["predict", "--input", "."], "is a folder; give --per-file"),
        (["predict", "--per-file", ""], "--per-file: is for files; give them with --input"),
    ],
)
def test_options_that_do_not_go_together(bertkit, fine_tuned, arguments, message):
    command, *more = arguments
    bertkit(command, fine_tuned("film"), *more).refuses(message)


@pytest.mark.parametrize("name", ["o::p", "simplecache::q", "a*"])
def test_output_folders_have_the_name_that_was_given(bertkit, fine_tuned, checkpoint, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    source = tmp_path / "i::n"
    source.mkdir()
    (source / "a.csv").write_text("text,label\n" + "a good film,good\na bad plot,bad\n" * 8)
    (source / "b.txt").write_text("A good film. A bad plot.\n" * 8)
    film, table, text = fine_tuned("film"), source / "a.csv", source / "b.txt"
    one_step = ["--max-steps", 1, "--max-seq-length", 16, "--placement", "cpu"]
    commands = {
        "--output-dir": [
            ["predict", film, "--input", source, "--on-error", "skip", "--per-line"],
            ["embed", checkpoint, "--input", source, "--on-error", "skip", "--per-line"],
            ["tokenizer", "train", "--corpus", text, "--vocab-size", 40],
            ["corpus", "build", "--corpus", text, "--tokenizer", checkpoint],
            ["finetune", "classification", "--train-file", table, "--model", checkpoint, *one_step],
        ],
        None: [["export", film]],
    }
    for option, each in commands.items():
        for number, command in enumerate(each):
            place = tmp_path / f"{option}{number}"
            place.mkdir()
            monkeypatch.chdir(place)
            outcome = bertkit(*command, *filter(None, [option]), name)
            assert outcome.code == 0, (command, outcome.err)
            assert name in outcome.out
            assert [path.name for path in place.iterdir()] == [name], command
