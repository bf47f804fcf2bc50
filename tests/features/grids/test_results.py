"""Results of a grid from its records: the best setting, its score on other data, and what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean, stdev

import pytest

import bertkit
from bertkit.features.grids.definition import define
from bertkit.features.grids.grid import finetune_grid
from bertkit.features.grids.results import collect, limits
from bertkit.features.grids.table import grid_table
from bertkit.recipe.fields import TRAIN_DEFAULTS
from bertkit.tasks.registry import TASKS, task_of_recipe

from .conftest import write_record


@pytest.fixture
def collected(tmp_path):
    """Collects a grid of learning rates with two seeds from the scores of its runs; None has not ended."""

    def collect_scores(*scores, collapsed=(), recipe="finetune/glue/rte", **keys):
        rates = ",".join(f"{number + 1}e-5" for number in range(len(scores) // 2))
        definition = define(recipe, {}, [f"train.learning_rate={rates}"], (), None, 2, None)
        cells = [cell for setting in definition.settings() for cell in definition.cells(setting)]
        for number, (cell, score) in enumerate(zip(cells, scores, strict=True)):
            more = {key: values[number] for key, values in keys.items()}
            if score is not None:
                write_record(tmp_path, cell, score, collapsed=number in collapsed, **more)
        return collect(definition, task_of_recipe(definition.recipe), tmp_path)

    return collect_scores


def test_the_best_of_several_settings_has_a_note(collected):
    results = collected(0.5, 0.6, 0.7, 0.8, 0.6, 0.65)
    assert results.best == "02-learning_rate=2e-05"
    assert results.note.startswith(
        "the best of 3 settings by the mean score on the validation set, so this score is too"
    )
    low, middle, high = 0.55, 0.625, 0.75
    best_of_two = (low + 3 * middle + 5 * high) / 9  # of the nine pairs that two draws can give
    assert results.expected_best[:2] == pytest.approx(((low + middle + high) / 3, best_of_two))
    assert len(results.expected_best) == 3
    text = grid_table(results)
    assert "* the best of 3 settings" in text
    assert "(Dodge et al. 2019): 0.6417 of 1, 0.6861 of 2, 0.7102 of 3" in text
    assert [results.best in note for note in limits(results)] == [True]


def test_intervals_end_at_the_range_of_the_score(collected):
    """Student's t of two runs gives 0.85 ± 1.91."""
    [row] = collected(0.7, 1.0).settings
    assert (row.low, row.high) == (0.0, 1.0)


def test_seeds_alone_are_no_choice(collected):
    results = collected(0.5, 0.6)
    assert "no other setting to choose from" in results.note
    assert limits(results) == []
    assert "Dodge" not in grid_table(results)


def test_collapsed_runs_are_named(collected):
    results = collected(0.5, 0.6, 0.7, 0.8, collapsed=(2, 3))
    [_, note] = limits(results)
    assert "collapsed, with the same prediction for all examples: 2 of 2 runs" in note
    text = grid_table(results)
    assert "2 collapsed" in text
    # There is no copy of it before a grid has ended.
    assert "best run: 02-learning_rate=2e-05-seed=43, the best of its setting, which has collapsed" in text


def test_runs_that_have_not_ended_are_counted(collected, tmp_path):
    results = collected(0.5, 0.6, 0.9, None)
    assert (results.best, results.unfinished) == ("01-learning_rate=1e-05", 1)
    note, chosen = limits(results)
    assert note.startswith(f"{tmp_path}: this grid is not complete, with 1 run left, so another setting may become the")
    assert "is the best of 2 settings" in chosen  # also of those with fewer runs


def test_trials_that_have_not_begun_are_counted(tmp_path):
    definition = define("finetune/glue/rte", {}, (), ["train.learning_rate=1e-5..1e-4"], 4, 3, None)
    assert collect(definition, task_of_recipe(definition.recipe), tmp_path).unfinished == 12


def test_the_best_setting_has_a_test_score(collected):
    results = collected(0.5, 0.6, 0.7, 0.8, test_score=[0.9, 0.9, 0.5, 0.51])
    assert results.test["n"] == 2
    assert results.test["mean"] == pytest.approx(0.505)
    assert results.test["low"] == pytest.approx(0.505 - 12.7062 * stdev([0.5, 0.51]) / 2**0.5, abs=1e-4)
    assert "* on the test set: 0.5050 ± 0.0071, 95 % interval 0.4415–0.5685, n = 2" in grid_table(results)


def test_the_range_of_the_test_score_is_that_of_the_runs_that_ended(collected):
    """The last setting has no finished run, whose scores would tell which ones the combined score is the mean of."""
    more = {"metrics": [{"eval_combined_score": 0.5, "eval_pearson": 0.5}] * 4, "test_score": [-0.9, 0.9, 0.0, 0.0]}
    results = collected(0.5, 0.5, None, None, recipe="finetune/glue/stsb", **more)
    assert (results.test["low"], results.test["high"]) == (-1.0, 1.0)


def test_the_best_setting_alone_predicts_the_test_set(grid, table, checkpoint, tmp_path, quick):
    with_tests = {"data.test_file": str(table), "task.metrics": ["glue/mrpc"]}
    results = grid(grid=["train.learning_rate=1e-3,2e-3"], seeds=2, overrides=with_tests)
    folders = {path.parent for path in results.output_dir.glob("runs/*/predict_results.json")}
    assert folders == {results.output_dir / "runs" / f"{results.best}-seed={seed}" for seed in (42, 43)}
    metrics = [json.loads((folder / "predict_results.json").read_text()) for folder in folders]
    assert results.test["mean"] == pytest.approx(mean(each["predict_accuracy"] for each in metrics))
    assert results.test["n"] == len(metrics) == 2
    # A process was killed between the results of a run and its record.
    record = results.output_dir / "records" / f"{results.best_run}.json"
    known = json.loads(record.read_text())
    del known["test_score"]
    record.write_text(json.dumps(known))
    again = grid(grid=["train.learning_rate=1e-3,2e-3"], seeds=2, overrides=with_tests)
    assert again.test == results.test
    # As a single run predicts it.
    rate = results.best_setting.values["train.learning_rate"]
    values = {**quick, **with_tests, "data.train_file": str(table), "train.learning_rate": rate}
    values["train.seed"] = int(results.best_run[-2:])
    alone = bertkit.finetune("classification", output_dir=tmp_path / "alone", model=str(checkpoint), overrides=values)
    best = results.output_dir / "best"
    of_best = json.loads((best / "all_results.json").read_text())
    assert alone.metrics["predict_accuracy"] == of_best["predict_accuracy"]
    of_test = [{name for name in each if name.startswith("predict_")} for each in (alone.metrics, of_best)]
    assert "predict_mrpc_accuracy" in of_test[0] & of_test[1]
    files = [folder / "predictions.jsonl" for folder in (alone.output_dir, best)]
    labels = [[json.loads(line)["label"] for line in file.read_text().splitlines()] for file in files]
    assert labels[0] == labels[1]


def test_a_test_set_without_labels_is_predicted_by_the_best_run(grid, tmp_path):
    (tmp_path / "test.jsonl").write_text('{"text": "a lovely film"}\n{"text": "an awful plot"}\n')
    for _ in range(2):  # a repeated command predicts it by no other run
        results = grid(seeds=2, overrides={"data.test_file": str(tmp_path / "test.jsonl")})
        [predicted] = results.output_dir.glob("runs/*/predictions.jsonl")
        assert predicted.parent.name == results.best_run
    assert results.test is None


def test_the_best_run_alone_has_a_report(grid, monkeypatch):
    monkeypatch.delitem(TRAIN_DEFAULTS, "report")
    results = grid(seeds=2)
    assert [path.parent.name for path in results.output_dir.glob("runs/*/report.html")] == [results.best_run]
    assert (results.output_dir / "best" / "report.html").is_file()
    (results.output_dir / "best" / "notes.txt").write_text("mine")
    grid(seeds=2)  # what a user has put there stays
    assert (results.output_dir / "best" / "notes.txt").read_text() == "mine"


def test_scores_have_the_name_of_the_metric_that_the_data_decided(grid, table, tmp_path):
    """Many different numbers are a regression, which the recipe does not say."""
    rows = [json.loads(line) for line in table.read_text().splitlines()]
    texts = [{"text": row["text"], "label": number + 0.5} for number, row in enumerate(rows)]
    table.write_text("".join(json.dumps(row) + "\n" for row in texts))
    results = grid(folds=2)
    assert results.metric == "pearson"
    assert bertkit.ensemble(results.output_dir, output_dir=tmp_path / "ensemble").metric == "pearson"
    assert "pearson on the validation set" in bertkit.report_grid(results.output_dir).read_text()
    assert bertkit.compare(results.output_dir, results.output_dir).verdicts == {}  # which would be that of one fold


@pytest.mark.slow
def test_folds_of_a_task_without_references_have_scores_alone(tmp_path, checkpoint, quick, monkeypatch):
    """A task of another package that sets no predictions beside references has no out-of-fold predictions."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "third_party")
    TASKS.kinds()  # those that are installed are known, and again at the end
    monkeypatch.delitem(TASKS.__dict__, "_installed")
    table = tmp_path / "table.csv"
    rows = [f"a film of number {number},{number % 2},{'film' if number % 3 else 'plot'}\n" for number in range(12)]
    table.write_text("".join(["text,stars,topic\n", *rows]))
    recipe, given = {"task": {"kind": "reviews"}}, {**quick, "data.train_file": str(table)}
    results = finetune_grid(recipe, output_dir=tmp_path / "out", model=str(checkpoint), folds=2, overrides=given)
    assert (results.best_setting.n, results.out_of_fold) == (2, None)
    assert (tmp_path / "out" / "grid_results.json").is_file()
