"""Predictions of a run for its validation set: they change no task."""

from __future__ import annotations

import copy
import json
import shutil

import pytest

from bertkit.inference import outcomes


@pytest.fixture
def run(fine_tuned, tmp_path):
    """A folder like that of a run, without training."""
    folder = shutil.copytree(fine_tuned("film"), tmp_path / "run")
    rows = "".join(f"a {word} film {number},{word}\n" for number in range(20) for word in ("bad", "fair", "good"))
    (tmp_path / "rows.csv").write_text(f"text,label\n{rows}")
    data = {"train_file": str(tmp_path / "rows.csv"), "max_seq_length": 24}
    recipe = {"task": {"kind": "classification"}, "data": data, "train": {}}
    (folder / "recipe.yaml").write_text(json.dumps(recipe))
    return folder


def test_scoring_a_run_changes_no_task(run, monkeypatch):
    loaded = []
    load_task = outcomes.load_task

    def recording(*given):
        task, config = load_task(*given)
        loaded.append((task, copy.copy(vars(task))))
        return task, config

    monkeypatch.setattr(outcomes, "load_task", recording)
    outcome = outcomes.outcome_of(run, with_training=True)
    assert (len(outcome.examples["text"]), len(outcome.training["text"])) == (6, 54)
    outcome.decoded()
    outcome.predictions_and_references()
    [(task, before)] = loaded
    assert vars(task) == before
