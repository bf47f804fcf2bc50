"""``bertkit runs``: what is listed below a folder, and in what state."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner

from bertkit import load_recipe, runs
from bertkit.cli.app import app
from bertkit.cli.results import runs as command
from bertkit.runtime.errors import DataError
from bertkit.runtime.locks import RunLock


@pytest.fixture
def place(tmp_path):
    """Writes the small files of a run."""

    def write(name, finished=True, score=None, model="google-bert/bert-base-cased", collapse=None):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        recipe = load_recipe("finetune/glue/sst2", {"model.name_or_path": model})
        recipe.save(folder / "recipe.yaml", "Resolved from sst2. To repeat the run: …")
        record = {"finished": finished, "main_metric": "accuracy", "card": {"main_metrics": ["eval_f1"]}}
        record["collapse"] = collapse
        (folder / "run.json").write_text(json.dumps(record))
        if score is not None:
            (folder / "all_results.json").write_text(
                json.dumps({"eval_f1": 0.1, "eval_accuracy": score, "train_samples": 1200.0})
            )
        return folder

    return write


def rows(folder):
    return {str(run.folder.relative_to(folder)): run for run in runs(folder)}


def test_runs_at_any_depth_with_their_facts(place, tmp_path):
    done = place("a/b/done", score=0.875)
    place("killed", finished=False, model=str(tmp_path / "my" / "bert"))
    (tmp_path / "texts").mkdir()
    for path in done.iterdir():
        os.utime(path, (0, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()))
    found = rows(tmp_path)
    assert list(found) == ["a/b/done", "killed"]
    run = found["a/b/done"]
    assert (run.state, run.task, run.checkpoint) == ("finished", "sst2", "google-bert/bert-base-cased")
    assert (run.metric, run.score, run.date) == ("accuracy", 0.875, "2026-01-02T03:04:05+00:00")
    run = found["killed"]
    assert (run.state, run.checkpoint, run.score, run.rows) == ("interrupted", "bert", None, None)


def test_checkpoints_of_runs_are_passed_over_alone(place, tmp_path):
    place("checkpoint-study/first")
    place("checkpoint-study/first/checkpoint-90")
    assert list(rows(tmp_path)) == ["checkpoint-study/first"]


def test_rows_are_examples_though_a_long_text_has_several_inputs(place, tmp_path):
    folder = place("run", score=0.5)
    assert runs(tmp_path)[0].rows == 1200
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**record, "data": {"train": {"examples": 1000}}}))
    assert runs(tmp_path)[0].rows == 1000


def test_a_run_that_holds_its_lock_is_running(place, tmp_path):
    folder = place("now", finished=False)
    with RunLock(folder):
        assert rows(tmp_path)["now"].state == "running"
        with pytest.raises(Exception, match="another run is writing here"), RunLock(folder):
            pass  # the lock is still held
    assert rows(tmp_path)["now"].state == "interrupted"


def test_a_grid_and_its_runs(place, tmp_path):
    grid = tmp_path / "grid"
    place("grid/runs/01-seed=1", score=0.5)
    place("grid/runs/01-seed=2", finished=False)
    place("grid/best", score=0.5)
    (grid / "records").mkdir()
    (grid / "records" / "01-seed=1.json").write_text('{"score": 0.5}')
    (grid / "records" / "01-seed=2.json").write_text('{"error": "OutOfMemory"}')
    (grid / "grid.json").write_text(json.dumps({"recipe": load_recipe("sst2").to_dict()}))
    found = rows(tmp_path)
    assert {name: run.state for name, run in found.items()} == {"grid": "interrupted"}
    assert {name: run.state for name, run in rows(grid).items()} == {
        ".": "interrupted",
        "runs/01-seed=1": "finished",
        "runs/01-seed=2": "failed",
    }
    assert (found["grid"].cells, found["grid"].task, found["grid"].score) == (2, "sst2", None)
    settings = [{"name": "01", "mean": 0.5}, {"name": "02", "mean": 0.4}]
    results = {"settings": settings, "best": "01", "metric": "accuracy", "runs": {"1": {}, "2": {}}}
    (grid / "grid_results.json").write_text(json.dumps(results))
    run = rows(tmp_path)["grid"]
    assert (run.state, run.metric, run.score) == ("finished", "accuracy", 0.5)


def test_collapsed_runs_are_named_beside_their_score(place, tmp_path):
    place("grid/runs/01-seed=1", score=0.5, collapse="all predictions are 'negative'")
    place("grid/runs/01-seed=2", score=0.6)
    (tmp_path / "grid" / "grid.json").write_text(json.dumps({"recipe": load_recipe("sst2").to_dict()}))
    settings = [{"name": "01", "mean": 0.55, "collapsed": ["01-seed=1"]}]
    results = {"settings": settings, "best": "01", "metric": "accuracy", "runs": {"1": {}, "2": {}}}
    (tmp_path / "grid" / "grid_results.json").write_text(json.dumps(results))
    shown = re.sub(" +", " ", CliRunner().invoke(app, ["runs", str(tmp_path / "grid")]).stdout)
    assert " 0.5500 accuracy, 1 collapsed sst2" in shown
    assert "runs/01-seed=1 finished 0.5000 accuracy, collapsed 1,200 sst2" in shown
    assert "runs/01-seed=2 finished 0.6000 accuracy 1,200 sst2" in shown


def test_a_relative_folder(place, tmp_path, monkeypatch):
    place("killed", finished=False)
    monkeypatch.chdir(tmp_path)
    [run] = runs(".")
    assert (str(run.folder), run.state) == ("killed", "interrupted")


def test_a_failed_run_of_a_grid_is_failed_from_within_too(place, tmp_path, monkeypatch):
    folder = place("grid/runs/01-seed=1", finished=False)
    (tmp_path / "grid" / "records").mkdir()
    (tmp_path / "grid" / "records" / "01-seed=1.json").write_text('{"error": "OutOfMemory"}')
    monkeypatch.chdir(folder)
    assert [run.state for run in runs(".")] == ["failed"]


def test_damaged_files_and_those_of_another_program_do_not_end_the_list(place, tmp_path, capsys):
    (tmp_path / "grid.json").write_text('{"recipe": "cells"}')
    (place("other") / "recipe.yaml").write_text("task: cook")
    folder = place("damaged", score=0.5)
    (folder / "run.json").write_text('{"finished": tr')
    (folder / "recipe.yaml").write_text("task: [")
    place("whole", score=0.25)
    found = rows(tmp_path)
    assert found["damaged"].task is None
    assert found["damaged"].state == "interrupted"
    assert found["whole"].score == 0.25
    assert list(found) == ["damaged", "whole"]
    assert capsys.readouterr().err.count("its files are not those of a run: AttributeError") == 2


def test_an_ensemble_and_a_recipe_of_the_user_are_no_runs(place, tmp_path):
    (place("ensemble") / "ensemble.json").write_text('{"members": ["members/01"]}')
    place("ensemble/members/01")
    (place("here/done").parent / "recipe.yaml").write_text("task: {kind: classification}")
    assert list(rows(tmp_path)) == ["here/done"]


def test_a_folder_below_that_cannot_be_read_is_a_warning(place, tmp_path, monkeypatch, capsys):
    place("done")
    closed, listed = place("closed").parent / "closed", os.scandir

    def scandir(path):
        if str(path) == str(closed):
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert list(rows(tmp_path)) == ["done"]
    assert f"warning: {closed}: cannot be read, so runs in it are not listed" in capsys.readouterr().err


def test_a_run_beside_the_root_of_the_disk(place, tmp_path, monkeypatch):
    folder = place("killed", finished=False)
    monkeypatch.setattr(type(folder), "absolute", lambda self: type(self)("/killed"))
    assert rows(tmp_path)["killed"].state == "interrupted"


def test_a_folder_that_is_missing_is_an_error(tmp_path):
    with pytest.raises(DataError, match="no such folder"):
        runs(tmp_path / "nothing")


def test_the_command_prints_a_table_or_json(place, tmp_path):
    place("here/done", score=0.875)
    shown = CliRunner().invoke(app, ["runs", str(tmp_path)])
    assert shown.exit_code == 0
    for part in ("here/done", "finished", "0.8750 accuracy", "1,200", "sst2", "google-bert/bert-base-cased"):
        assert part in shown.stdout
    [row] = json.loads(CliRunner().invoke(app, ["runs", str(tmp_path), "--json"]).stdout)
    assert (row["folder"], row["score"], row["rows"]) == (str(tmp_path / "here" / "done"), 0.875, 1200)
    assert CliRunner().invoke(app, ["runs", str(tmp_path / "here" / "done" / "nothing")]).exit_code != 0


def test_a_narrow_terminal_is_told_which_columns_have_no_room(place, tmp_path, monkeypatch):
    place("done", score=0.875)
    monkeypatch.setenv("NO_COLOR", "1")  # rich takes a coloured terminal that it does not know for 80 columns wide
    for columns, lost in ((140, ""), (70, "no room for: from;"), (50, "no room for: from, date (UTC);")):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr(sys, "stdout", Terminal())
        command(tmp_path)
        lines = sys.stdout.getvalue().splitlines()
        assert max(map(len, lines)) <= columns
        assert lines[-1].startswith(lost) if lost else "no room" not in lines[-1]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True
