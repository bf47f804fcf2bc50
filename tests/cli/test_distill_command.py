"""``bertkit distill`` as users type it."""

from __future__ import annotations

import json

import pytest

FAST = "--max-steps 2 --max-seq-length 16 --global-train-batch-size 8 --set placement.device=cpu".split()


@pytest.fixture
def teacher(fine_tuned, tmp_path, monkeypatch):
    """A checkpoint, and a table of rows with and one without labels."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HOME", str(tmp_path / "home"))
    rows = [("a good film", "good"), ("a bad film", "bad"), ("the story is fair", "fair")] * 3
    (tmp_path / "dev.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    (tmp_path / "texts.csv").write_text("text\n" + "".join(f"{text}\n" for text, _ in rows))
    return fine_tuned("film")


@pytest.mark.slow
def test_a_student_of_teacher_layers_is_a_run(bertkit, teacher, tmp_path):
    files = ["--train-file", tmp_path / "texts.csv", "--validation-file", tmp_path / "dev.csv"]
    words = ["distill", "--teacher", teacher, "--student-layers", "1", *files, *FAST]
    bertkit(*words, "--output-dir", tmp_path / "out").refuses(
        "give --alpha 1, or rows with labels", without=tmp_path / "out"
    )
    checked = bertkit("check", *words, "--alpha", 1, "--output-dir", tmp_path / "out", "--json")
    assert not [each for each in json.loads(checked.out)["findings"] if each["level"] == "error"], checked.out
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "home" / "bertkit" / "teachers").exists()
    done = bertkit(*words, "--alpha", 1, "--temperature", 4, "--output-dir", tmp_path / "out", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["output_dir"] == str(tmp_path / "out")
    assert "of the teacher" in done.err  # the memory of it
    predicted = bertkit("predict", tmp_path / "out", "a good film")
    assert predicted.code == 0, predicted.err


def test_a_teacher_is_required(bertkit, tmp_path):
    bertkit("distill", "--student", "bert-mini", "--output-dir", tmp_path / "out").refuses("--teacher")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["text.txt"], "text.txt: expected an option; text to pre-train on needs --corpus"),
        (["--corpus", "text.txt", "--task", "sst2"], "--corpus is for pre-training and --task for fine-tuning"),
        ("--corpus text.txt --objective minilm --hidden 1".split(), "hidden: has no effect with the objective"),
        (["--task", "rte,wnli"], "--task rte,wnli: names several"),
        (["--task", "all"], "--task all: names several"),
    ],
)
def test_options_that_do_not_go_together(bertkit, checkpoint, tmp_path, words, message):
    given = ["--teacher", checkpoint, "--student-layers", "0", "--output-dir", tmp_path / "out"]
    bertkit("distill", *given, *words).refuses(message, without=tmp_path / "out")
