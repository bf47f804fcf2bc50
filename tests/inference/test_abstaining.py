"""``max_error``: rows of folds decide what is answered, and promises that they do not support are refused."""

from __future__ import annotations

import itertools
import json
import random
import shutil
from types import SimpleNamespace

import numpy
import pytest

import bertkit
from bertkit.inference.abstaining import NEVER, promise, read_scored_rows
from bertkit.inference.options import UNSURE, PredictOptions
from bertkit.runtime.errors import BertkitError, CheckpointError, DataError, RecipeError
from bertkit.runtime.files import write_json_lines

WORDS = "a good bad film story the plot is lovely or awful".split()
TEXTS = [" ".join(random.Random(number).choices(WORDS, k=6)) for number in range(30)]
CLASSES = ["bad", "fair", "good"]


def write(folder, rows):
    """Writes rows of folds: (class, probability, whether it is right, how often, further keys)."""
    lines = [
        {"gold": label if is_right else "other", "label": label, "probability": probability, **dict(further)}
        for label, probability, is_right, number, *further in rows
        for _ in range(number)
    ]
    (folder / "out_of_fold.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


@pytest.fixture
def run(fine_tuned, tmp_path):
    """A run with predictions for `TEXTS`, and rows of folds of which only those above a gap in the middle are right."""
    folder = tmp_path / "run"
    shutil.copytree(fine_tuned("film"), folder)
    plain = bertkit.load(folder, device="cpu").predict(TEXTS)
    ranked = sorted(row["probability"] for row in plain)
    one, other = max(itertools.pairwise(ranked[10:20]), key=lambda pair: pair[1] - pair[0])  # apart from rounding
    write(folder, [(plain[0]["label"], other, True, 100), (plain[0]["label"], one, False, 60)])
    marked = [
        {**row, "best_label": row["label"], "label": UNSURE if row["probability"] <= one else row["label"]}
        for row in plain
    ]
    return SimpleNamespace(folder=folder, marked=marked, middle=(one + other) / 2)


def labels(rows):
    return [(row["label"], row["best_label"]) for row in rows]


def test_predictions_of_texts_and_files_are_marked_alike(run, tmp_path, capsys):
    expected = labels(run.marked)
    assert {label == UNSURE for label, _ in expected} == {True, False}
    assert labels(bertkit.load(run.folder, device="cpu").predict(TEXTS, max_error=0.05)) == expected
    assert "max error" not in capsys.readouterr().err
    given = tmp_path / "in.jsonl"
    given.write_text("".join(f"{json.dumps({'text': text})}\n" for text in TEXTS))
    written = tmp_path / "out.jsonl"
    list(bertkit.predict(run.folder, input_file=given, output_file=written, max_error=0.05))
    said = capsys.readouterr().err
    assert "100 of the 160 rows that models of folds scored, 62.5 %, 0 of them wrong" in said
    assert "at most 5 % of answers are wrong" in said
    assert labels(map(json.loads, written.read_text().splitlines())) == expected


def test_a_loaded_model_reads_the_rows_once_for_each_promise(run):
    loaded = bertkit.load(run.folder, device="cpu")
    expected = labels(loaded.predict(TEXTS, max_error=0.05))
    (run.folder / "out_of_fold.jsonl").unlink()
    assert labels(loaded.predict(TEXTS, max_error=0.05)) == expected
    for other in ({"max_error": 0.06}, {"max_error": 0.05, "by_class": True}):
        with pytest.raises(CheckpointError, match=r"has no out_of_fold\.jsonl"):
            loaded.predict(TEXTS, **other)


def test_each_class_has_a_threshold_of_its_own(run, capsys):
    first, second, third = CLASSES
    rows = [(first, 0.9, True, 60), (first, 0.6, True, 20), (first, 0.5, False, 20), (second, 0.9, False, 30)]
    write(run.folder, [*rows, (third, 0.9, True, 20)])
    kept = promise(str(run.folder), CLASSES, 0.05, by_class=True)
    assert kept.unsure_below == {first: pytest.approx(0.55), second: NEVER, third: NEVER}
    assert kept.answered == pytest.approx(80 / 150)
    assert "'fair', 'good' (2 of 3 classes)" in kept.lines[1]
    options = PredictOptions(unsure_below=kept.unsure_below)
    marked = options.mark_unsure([{"label": label, "probability": 0.99} for label in CLASSES])
    assert [row["label"] for row in marked] == [first, UNSURE, UNSURE]
    list(bertkit.predict(run.folder, TEXTS[:2], max_error=0.05, by_class=True))
    assert "always unsure: 'fair', 'good'" in capsys.readouterr().err


def test_rows_of_one_unit_count_once(run):
    write(run.folder, [("good", 0.9, True, 1, ("unit", number // 2)) for number in range(100)])
    with pytest.raises(RecipeError, match="needs 72 answered rows"):
        promise(str(run.folder), CLASSES, 0.05)
    write(run.folder, [("good", 0.9, True, 1, ("unit", number)) for number in range(100)])
    assert promise(str(run.folder), CLASSES, 0.05).answered == 1


def test_what_the_rows_do_not_support_is_refused_with_what_they_do(run, tmp_path):
    out = tmp_path / "out.csv"
    with pytest.raises(RecipeError, match=r"160 rows .* support 0\.037, answering 100 of them.* 183 answered rows"):
        list(bertkit.predict(run.folder, TEXTS, output_file=out, max_error=0.02))
    assert not out.exists()
    assert promise(str(run.folder), CLASSES, 0.04).unsure_below == pytest.approx(run.middle)
    write(run.folder, [("good", 0.9, True, 30), ("bad", 0.9, True, 40), ("bad", 0.8, False, 4)])
    with pytest.raises(RecipeError, match=r"they support 0\.089 of 'bad', answering 40 of them"):
        promise(str(run.folder), CLASSES, 0.05, by_class=True)
    write(run.folder, [("good", 0.9, False, 30)])
    with pytest.raises(RecipeError, match="support none"):
        promise(str(run.folder), CLASSES, 0.05)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_error": 0.0}, "--max-error: expected more than 0, less than 1, got 0"),
        ({"max_error": 5}, "--max-error: expected more than 0, less than 1, got 5"),
        ({"max_error": "0.1"}, "--max-error: expected more than 0, less than 1, got '0.1'"),
        ({"unsure_below": numpy.float32(2)}, "--unsure-below: expected more than 0, at most 1, got "),
        ({"max_error": 0.1, "unsure_below": 0.5}, "remove --unsure-below"),
        ({"by_class": True}, "--by-class: is for --max-error"),
    ],
)
def test_wrong_options_are_refused(run, options, message):
    with pytest.raises(RecipeError, match=message):
        list(bertkit.predict(run.folder, TEXTS, **options))
    with pytest.raises(RecipeError, match=message):
        bertkit.load(run.folder).predict(TEXTS, **options)


@pytest.mark.parametrize("kind", ["topics", "pairs", "entities", "answers", "similar", "choices"])
def test_tasks_that_predict_no_single_class_are_refused(fine_tuned, kind):
    with pytest.raises(BertkitError, match=r"--max-error: .* does not predict one class per input"):
        list(bertkit.predict(fine_tuned(kind), ["a\tb"], max_error=0.1))


def test_a_threshold_of_ones_own_is_refused(fine_tuned):
    with pytest.raises(RecipeError, match="remove --threshold"):
        list(bertkit.predict(fine_tuned("threshold"), ["a"], max_error=0.1, threshold=0.4))


def test_runs_and_checkpoints_without_rows_of_folds_are_refused(fine_tuned, tmp_path):
    with pytest.raises(CheckpointError, match=r"has no out_of_fold\.jsonl: not the directory of a run.*--folds 5"):
        list(bertkit.predict(fine_tuned("film"), ["a"], max_error=0.1))
    folder = tmp_path / "run"
    shutil.copytree(fine_tuned("film"), folder)
    (folder / "recipe.yaml").write_text("task: {kind: classification}\n")
    with pytest.raises(CheckpointError, match="its rows were not scored by folds"):
        bertkit.load(folder).predict("a", max_error=0.1)
    for damaged in ("", "{}\n", "no json\n", '{"label": "bad", "gold": "bad", "probability": "x"}\n'):
        (folder / "out_of_fold.jsonl").write_text(damaged)
        with pytest.raises(DataError, match=r"out_of_fold\.jsonl: damaged"):
            bertkit.load(folder).predict("a", max_error=0.1)


def test_a_class_may_have_a_line_separator_in_its_name(tmp_path):
    name = "so\u2028so"  # JSON leaves it as it is
    write_json_lines(tmp_path / "out_of_fold.jsonl", [{"gold": name, "label": name, "probability": 0.9}])
    assert read_scored_rows(str(tmp_path)).labels.tolist() == [name]


def test_the_command_ends_with_exit_code_2(run, monkeypatch, capsys):
    from bertkit.cli.app import main

    monkeypatch.setattr("sys.argv", ["bertkit", "predict", str(run.folder), TEXTS[0], "--max-error", "0.001"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("bertkit: error: --max-error 0.001: ") == 1
