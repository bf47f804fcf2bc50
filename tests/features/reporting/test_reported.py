"""Reports of tasks without a module of their own, and of tasks of other packages."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

from bertkit.features.reporting.reported import DataTable, Reported, Section, reported
from bertkit.inference.outcome import Outcome, task_inference
from bertkit.inference.predictor import load_task

PACKAGE = Path(__file__).parents[2] / "third_party"


@pytest.fixture
def levels(monkeypatch):
    """The outcome of a task of another package: levels of three texts."""
    monkeypatch.syspath_prepend(PACKAGE)
    module = importlib.import_module("acme_levels")
    task = module.LevelTask(module.LevelSettings(levels=3), module.LevelData())
    return Outcome(task, 99 * np.eye(3), {"labels": [0, 1, 2]}, {"text": ["good", "bad", "x" * 300]}, "levels.csv")


def test_other_tasks_have_a_table_of_predictions(levels):
    [section] = reported(levels.task).sections(levels)
    [table] = section.parts
    assert table.columns == ("row", "text", "level")
    assert table.rows[:2] == [(1, "good", pytest.approx(1)), (2, "bad", pytest.approx(2))]
    assert table.rows[2][1] == "x" * 199 + "…"
    assert table.has_texts
    assert reported(levels.task).mistakes(levels) == []
    terms = task_inference(levels.task).terms("within_one", [1, 1, 3], [1, 2, 1])
    assert terms is not None
    assert terms.values[:, 0].tolist() == [1, 1, 0]


def test_other_packages_register_their_sections(levels):
    class ReportedLevels(Reported):
        def sections(self, outcome):
            return [Section("Levels", [DataTable("Levels", ("text",), [(self.task.kind,)])])]

    class OwnTask(type(levels.task)):
        pass

    reported.register(OwnTask, ReportedLevels)
    own = OwnTask(levels.task.settings, levels.task.data)
    assert reported(own).sections(levels)[0].parts[0].rows == [("reading_level",)]
    assert type(reported(levels.task)) is Reported


def test_mistakes_are_ranked_by_probability(fine_tuned):
    task, _ = load_task(str(fine_tuned("choices")), {})
    features = {"labels": [0, 1, 1], "choice_count": [2, 2, 2]}
    examples = {"context": ["a", "b", "c"], "endings": [["x", "y"]] * 3}
    outputs = np.array([[1.0, 3.0], [0.0, 9.0], [9.0, 0.0]])
    mistakes = reported(task).mistakes(Outcome(task, outputs, features, examples, "choices.csv"))
    assert [(each.row, each.true, each.predicted) for each in mistakes] == [(2, "1", "0"), (0, "0", "1")]
    assert mistakes[0].texts[0][:2] == ("context", "c")
