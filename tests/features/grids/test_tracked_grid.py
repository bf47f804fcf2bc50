"""Records of a grid: its runs are a group, and trackers are no part of what makes it the same grid."""

from __future__ import annotations

import json
import os

import pytest
from transformers import TrainerCallback

from bertkit.training.runs.listing import RECORDS


@pytest.fixture
def begun(monkeypatch):
    """Records the groups and names of the records, in place of a tracker."""
    from bertkit.features.tracking import tracking

    records = []

    class Recorder(TrainerCallback):
        def on_train_begin(self, args, state, control, **kwargs):
            tags = json.loads(os.environ["MLFLOW_TAGS"])
            assert tags["team"] == "search"
            records.append((tags["group"], args.run_name))

    monkeypatch.setenv("MLFLOW_TAGS", '{"team": "search"}')
    monkeypatch.setattr(tracking, "find_spec", lambda name: object())
    monkeypatch.setitem(tracking.INTEGRATION_TO_CALLBACK, "comet_ml", Recorder)
    return records


@pytest.mark.parametrize(("name", "group"), [(None, "out"), ("reviews", "reviews")])
def test_the_runs_of_a_grid_are_a_group(grid, begun, name, group):
    grid(seeds=2, overrides={"train.report_to": "comet_ml", "train.run_name": name})
    assert begun == [(group, "01-recipe-seed=42"), (group, "01-recipe-seed=43")]


def test_a_grid_continues_with_other_trackers(grid, begun, monkeypatch):
    grid(seeds=1)
    for path in (grid(seeds=1).output_dir / RECORDS).glob("*.json"):
        path.unlink()
    results = grid(seeds=1, overrides={"train.report_to": "comet_ml"})
    assert json.loads((results.output_dir / "grid.json").read_text())["recipe"]["train"]["report_to"] == "comet_ml"
