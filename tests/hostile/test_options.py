"""Options of ``train`` with 0, -1, NaN, infinity, a huge number and a word: they work, or are refused by name."""

from __future__ import annotations

import dataclasses
from types import NoneType

import pytest
from transformers import TrainingArguments

from bertkit.recipe.fields import members, train_fields
from bertkit.recipe.settings import OWN_TRAIN_KEYS

from .options import VALUES, Walk

OPTIONS = [*(field.name for field in dataclasses.fields(TrainingArguments)), *OWN_TRAIN_KEYS]
NUMBERS = [field for field in train_fields().values() if set(members(field.hint)) <= {int, float, NoneType}]


@pytest.fixture(scope="session")
def walk(checkpoint, tmp_path_factory):
    return Walk(tmp_path_factory.mktemp("walk"), checkpoint)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HOME", str(tmp_path_factory.getbasetemp() / "cache of the walk"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def test_every_number_has_a_range():
    assert [field.help for field in NUMBERS if field.range is None] == []


@pytest.mark.hostile
@pytest.mark.parametrize("option", OPTIONS)
def test_options_work_or_are_refused(walk, capfd, option):
    faults = {
        f"{command} train.{option}={value}": fault
        for command in ("finetune", "pretrain")
        for value in VALUES
        if (fault := walk.fault(command, option, value, capfd))
    }
    assert faults == {}
