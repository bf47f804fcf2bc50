"""Printing of results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bertkit.cli.printing import print_next, print_results, print_wrapped
from bertkit.training.runs.record import Run


@pytest.mark.parametrize("collapse", ["all predictions are 'good'", None])
def test_a_collapsed_run_is_named_beside_its_scores(capsys, collapse):
    run = Run(Path("out"), {"eval_accuracy": 0.75}, collapse)
    print_results(run, [("eval_accuracy", "accuracy")], as_json=False)
    score, *rest, place = capsys.readouterr().out.splitlines()
    assert score == "accuracy 0.7500"
    assert place == "results, checkpoint and model card: out"
    assert rest == ([f"collapsed: {collapse}"] if collapse else [])  # not every run has a validation set
    print_results(run, [], as_json=True)
    assert json.loads(capsys.readouterr().out).get("collapse") == collapse


@pytest.mark.parametrize(("size", "is_said"), [(10**8, True), (10**6, False)])
def test_large_checkpoints_are_named_with_how_to_free_them(capsys, tmp_path, size, is_said):
    folder = tmp_path / "my run" / "checkpoint-50"
    folder.mkdir(parents=True)
    with (folder / "optimizer.pt").open("wb") as file:
        file.truncate(size)  # takes no space
    print_results(Run(folder.parent, {}), [], as_json=False)
    printed = capsys.readouterr().out
    assert ("\ndisk: 100.0 MB, 100.0 MB of it in 1 checkpoint " in printed) == is_said
    assert printed.endswith(f":\n  rm -r '{folder.parent}'/checkpoint-*\n") == is_said


@pytest.mark.parametrize("has_both_labels", [True, False])
def test_evaluate_names_a_collapsed_model(bertkit, fine_tuned, tmp_path, has_both_labels):
    checkpoint, text = fine_tuned("film"), "a lovely film"
    [prediction] = json.loads(bertkit("predict", checkpoint, text, "--json").out)["predictions"]
    label = prediction["label"]
    other = "good" if has_both_labels and label == "bad" else "bad" if has_both_labels else label
    (tmp_path / "rows.csv").write_text(f"text,label\n{text},{label}\n{text},{other}\n")
    outcome = bertkit("evaluate", checkpoint, "--validation-file", tmp_path / "rows.csv")
    assert outcome.code == 0, outcome.err
    assert (f"collapsed: all predictions are '{label}'" in outcome.out) == has_both_labels


def test_lines_are_broken_between_words_in_a_terminal(capsys, monkeypatch):
    line = "  No significant difference: accuracy"
    print_wrapped(line)
    assert capsys.readouterr().out == line + "\n"
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    print_wrapped(line)
    assert capsys.readouterr().out == "  No significant\n  difference:\n  accuracy\n"


def test_next_commands_can_be_copied(capsys):
    print_next(("bertkit report {}", "bertkit predict {}/best --input FILE"), Path("my grid"))
    assert (
        capsys.readouterr().out == "next:\n  bertkit report 'my grid'\n  bertkit predict 'my grid'/best --input FILE\n"
    )
    print_next((), Path("my grid"))
    assert not capsys.readouterr().out


def test_the_command_that_joins_parts_can_be_copied(bertkit, checkpoint, tmp_path):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("a good film.\n")
    given = ["--corpus", tmp_path, "--tokenizer", checkpoint, "--output-dir", tmp_path / "my store"]
    outcome = bertkit("corpus", "build", *given, "--part", "1/2")
    assert outcome.out == f"part 1/2 is finished; after all: bertkit corpus join '{tmp_path / 'my store'}'\n"
