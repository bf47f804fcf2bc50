"""Checks of grids: findings once, the plan of each setting, and what a grid would refuse."""

from __future__ import annotations

import pytest

import bertkit


@pytest.fixture
def check_grid(table, no_trial, tmp_path):
    def call(**more):
        table.write()
        given = {"model": table.model, "output_dir": tmp_path / "grid", "overrides": table.overrides, **more}
        return bertkit.check_grid("classification", **given)

    return call


def test_each_setting_has_its_plan_and_equal_findings_stand_once(check_grid, table, tmp_path):
    table.train.append(dict(table.train[0]))
    table.write()
    values = {"train.weight_decay": [0.0, 0.1], "train.num_train_epochs": [1, 3]}
    overrides = {key: value for key, value in table.overrides.items() if key not in values}
    report = check_grid(grid=values, seeds=2, overrides=overrides)
    plans = list(report.plan.values())
    assert [(plan["runs"], plan["epochs"]) for plan in plans] == [(2, 1), (2, 3)] * 2
    assert plans[1]["steps"] == 3 * plans[0]["steps"]
    assert [finding.code for finding in report.findings].count("duplicates") == 1
    assert report.errors == 0
    assert not (tmp_path / "grid").exists()


def test_folds_are_checked_as_the_runs_divide_them(check_grid, table):
    (plan,) = check_grid(folds=4).plan.values()
    assert plan["runs"] == 4
    assert plan["examples"] == {"train": len(table.train) * 3 // 4, "validation": len(table.train) // 4}


@pytest.mark.parametrize(
    ("more", "code", "expected"),
    [
        ({"grid": "train.learning_rate=2e-5,fast"}, "recipe", "train.learning_rate"),
        ({"folds": 1000}, "data", "1000 folds of"),
        ({"output_dir": "."}, "recipe", "already contains"),
        ({"wieght_decay": 0.1}, "recipe", "did you mean 'weight_decay'"),
        ({"search": "train.learning_rate=1e-5..1e-4"}, "recipe", "--trials"),
    ],
)  # fmt: skip
def test_what_a_grid_refuses_is_an_error_once(check_grid, tmp_path, monkeypatch, more, code, expected):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    report = check_grid(**more)
    [found] = [finding for finding in report.findings if finding.level == "error"]
    assert (found.code, expected in found.message) == (code, True)


@pytest.mark.parametrize("lengths", [[32, 16], [16, 32]])
def test_values_that_do_not_fit_each_other_are_a_finding_beside_the_others(check_grid, table, lengths):
    table.train.append(dict(table.train[0]))
    table.write()
    values = {"data.max_seq_length": lengths, "data.stride": [4, 20]}  # windows of 16 tokens cannot share 20
    overrides = {key: value for key, value in table.overrides.items() if key not in values}
    report = check_grid(grid=values, overrides={**overrides, "data.long_text": "chunk"})
    [found] = [finding for finding in report.findings if finding.level == "error"]
    assert (found.code, "data.stride" in found.message) == ("recipe", True)
    assert "duplicates" in {finding.code for finding in report.findings}
    assert len(report.plan) == 3
