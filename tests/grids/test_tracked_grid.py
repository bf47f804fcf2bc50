"""Records of a grid: its runs are a group, and trackers are no part of what makes it the same grid."""

from __future__ import annotations

import json

import pytest

from bertkit.grids import cells


@pytest.fixture
def begun(monkeypatch):
    """Records the names and groups of the records, in place of a tracker."""
    from bertkit.run.tracking import names, trackers

    found = []

    class Recorder(trackers.Tracker):
        def new_callback(self):
            from transformers import TrainerCallback

            return TrainerCallback()

        def open(self):
            found.append((self.record.group, self.record.name))
            return {}

    monkeypatch.setattr(names, "find_spec", lambda name: object())
    monkeypatch.setitem(trackers._CLASSES, "wandb", Recorder)
    return found


def test_the_runs_of_a_grid_are_a_group(grid, begun):
    grid(seeds=2, overrides={"train.report_to": "wandb"})
    assert begun == [("out", "01-recipe-seed=42"), ("out", "01-recipe-seed=43")]


def test_the_name_of_a_run_names_the_group(grid, begun):
    grid(seeds=1, overrides={"train.report_to": "wandb", "train.run_name": "reviews"})
    assert begun == [("reviews", "01-recipe-seed=42")]


def test_a_grid_continues_with_other_trackers(grid, begun, monkeypatch):
    grid(seeds=1)
    for path in (grid(seeds=1).output_dir / cells.RECORDS).glob("*.json"):
        path.unlink()
    results = grid(seeds=1, overrides={"train.report_to": "wandb"})
    assert json.loads((results.output_dir / "grid.json").read_text())["recipe"]["train"]["report_to"] == "wandb"
