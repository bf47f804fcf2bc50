"""Listeners of runs: their order, and what a failure at the end of a run does."""

from __future__ import annotations

import pytest

from bertkit.runtime.errors import HubError, RecipeError
from bertkit.tasks.registry import load_recipe
from bertkit.training.runs import listeners
from bertkit.training.runs.listeners import Listener, listeners_of, tell_end


class Broken(Listener):
    leaves, again = "drawing", "bertkit draw {}"

    def on_end(self, end):
        raise ValueError("no ink")


class Refused(Listener):
    is_asked = True

    def on_end(self, end):
        raise HubError("no connection")


class Noting(Listener):
    def on_end(self, end):
        end.append(self.folder)


@pytest.fixture
def recipe():
    return load_recipe("sst2")


def test_a_failure_is_a_warning_with_the_command_to_repeat(recipe, tmp_path, capsys):
    called: list = []
    tell_end([Broken(recipe, tmp_path / "a run"), Noting(recipe, tmp_path)], called)
    assert called == [tmp_path]
    said = " ".join(capsys.readouterr().err.split())
    assert "the run is complete, but its drawing failed: ValueError: no ink" in said
    assert f"to try again: bertkit draw '{tmp_path}/a run'" in said


def test_what_was_asked_for_fails_after_the_others(recipe, tmp_path):
    called: list = []
    with pytest.raises(HubError, match="no connection"):
        tell_end([Refused(recipe, tmp_path), Noting(recipe, tmp_path)], called)
    assert called == [tmp_path]


def test_the_card_follows_the_report_and_the_push_is_last(recipe, tmp_path):
    found = listeners_of(load_recipe(recipe, {"train.report": True}), tmp_path, "ada/run")
    assert [type(each).__name__ for each in found] == ["ReportListener", "CardListener", "PushListener"]


def test_what_no_feature_does_is_refused_by_name(recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(listeners, "declared", lambda constant: [])
    assert listeners_of(recipe, tmp_path) == []
    with pytest.raises(RecipeError, match="push_to_hub: 'ada/run'"):
        listeners_of(recipe, tmp_path, "ada/run")
    with pytest.raises(RecipeError, match=r"train\.report_to"):
        listeners_of(load_recipe(recipe, {"train.report_to": ["wandb"]}), tmp_path)
