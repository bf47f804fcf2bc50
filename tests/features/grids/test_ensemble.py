"""Ensembles of a grid: one checkpoint that averages the logits of the runs of the best setting."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import bertkit
from bertkit.inference.evaluation import outcome_of
from bertkit.runtime.errors import BertkitError, CheckpointError, DataError


@pytest.mark.slow
def test_an_ensemble_averages_the_logits(grid, table, tmp_path):
    results = grid(seeds=2)
    runs = [results.output_dir / "runs" / name for name in results.runs]
    made = bertkit.ensemble(results.output_dir, output_dir=tmp_path / "ensemble")
    assert list(made.members) == list(results.runs)
    readme = (made.output_dir / "README.md").read_text()
    assert all(f"`members/{number:02}`: run `{run}`" in readme for number, run in enumerate(made.members, start=1))
    mean = np.mean([outcome_of(run).outputs for run in runs], axis=0)
    np.testing.assert_allclose(outcome_of(made.output_dir).outputs, mean, rtol=1e-6, atol=1e-7)
    assert bertkit.evaluate(made.output_dir, train_file=str(table)).metrics["eval_accuracy"] == made.score
    assert bertkit.compare(made.output_dir, runs[0]).examples == len(mean)
    texts = ["a lovely film", "an awful story"]
    logits = [
        [np.log([row["probabilities"][label] for label in ("bad", "good")]) for row in bertkit.load(run).predict(texts)]
        for run in runs
    ]
    expected = np.exp(np.mean(logits, axis=0))
    expected /= expected.sum(axis=-1, keepdims=True)
    probabilities = bertkit.load(made.output_dir).predict(texts)
    assert [row["probabilities"]["good"] for row in probabilities] == pytest.approx(expected[:, 1].tolist(), rel=1e-5)


@pytest.mark.slow
def test_members_that_have_seen_all_rows_give_no_score(grid, tmp_path):
    """Models of folds have scored their rows."""
    results = grid(seeds=1, overrides={"data.folds": 2})
    made = bertkit.ensemble(results.output_dir, output_dir=tmp_path / "ensemble")
    assert (made.score, made.scores) == (None, (results.best_setting.mean,))
    assert bertkit.load(made.output_dir).predict(["a lovely film"])


def test_what_is_no_grid_and_a_folder_in_use_are_refused(grid, tmp_path):
    with pytest.raises(BertkitError, match=r"contains no grid \(grid\.json\)"):
        bertkit.ensemble(tmp_path, output_dir=tmp_path / "ensemble")
    results = grid(seeds=1)
    with pytest.raises(BertkitError, match="already contains"):
        bertkit.ensemble(results.output_dir, output_dir=results.output_dir)


def test_a_damaged_ensemble_is_named(fine_tuned, tmp_path):
    folder = shutil.copytree(fine_tuned("film"), tmp_path / "ensemble")
    (folder / "ensemble.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"ensemble\.json is damaged"):
        bertkit.load(folder)


def test_an_ensemble_of_an_incomplete_grid_says_so(grid, table, tmp_path, capsys):
    results = grid(seeds=2)
    next((results.output_dir / "records").glob("*seed=43.json")).unlink()
    ensemble = bertkit.ensemble(results.output_dir, output_dir=tmp_path / "ensemble")
    note = ensemble.notes[0]
    assert "this grid is not complete, with 1 run left" in note
    assert f"note: {note}" in capsys.readouterr().err
    assert "this grid is not complete" in (tmp_path / "ensemble" / "README.md").read_text()
    assert len(ensemble.members) == 1
    rows = table.read_text()
    for change, message in (
        (lambda: table.write_text(rows.replace("bad", "good", 1)), r"seed=42: the data of validation .* have changed"),
        (lambda: table.rename(tmp_path / "moved.csv"), "cannot be read"),
    ):
        change()
        with pytest.raises(DataError, match=message):
            bertkit.ensemble(results.output_dir, output_dir=tmp_path / "another")
        assert not (tmp_path / "another").exists()


@pytest.mark.parametrize("folds", [{}, {"data.folds": 2, "data.fold": 0}], ids=["both", "a-fold-alone"])
def test_an_ensemble_is_scored_on_all_validation_sets_as_its_members(checkpoint, quick, tmp_path, folds):
    """All texts to score are alike, so that one class is predicted, whose share differs between the sets; those of a
    fold differ."""
    (tmp_path / "MNLI").mkdir()
    for file, counts in (("train", (2, 2, 2)), ("dev_matched", (3, 2, 1)), ("dev_mismatched", (1, 3, 2))):
        labels = np.repeat(["entailment", "neutral", "contradiction"], counts)
        film = "a film" if file != "train" else "film {}"
        rows = [f"{row}\t{film.format(row)}\tthe plot is lovely\t{label}\n" for row, label in enumerate(labels)]
        (tmp_path / "MNLI" / f"{file}.tsv").write_text("index\tsentence1\tsentence2\tgold_label\n" + "".join(rows))
    given = {"model": str(checkpoint), "data_dir": tmp_path, "overrides": {**quick, **folds}}
    results = bertkit.finetune_grid("finetune/glue/mnli", output_dir=tmp_path / "out", **given)
    made = bertkit.ensemble(results.output_dir, output_dir=tmp_path / "ensemble")
    assert made.score == made.scores[0]
