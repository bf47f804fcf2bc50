"""Earlier names of modules that tasks of other packages import."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

import bertkit

EARLIER = {
    "bertkit.checkpoint.encoders": "bertkit.model.checkpoint.encoders",
    "bertkit.checks.subject": "bertkit.features.checks.subject",
    "bertkit.distillation.losses": "bertkit.training.distillation.losses",
    "bertkit.errors": "bertkit.runtime.errors",
    "bertkit.inference.predicted": "bertkit.inference.outcome",
    "bertkit.options": "bertkit.runtime.options",
    "bertkit.reporting.reported": "bertkit.features.reporting.reported",
    "bertkit.serving.served": "bertkit.features.serving.served",
    "bertkit.sharing.kinds": "bertkit.features.sharing.kinds",
    "bertkit.tables": "bertkit.data.tables",
}


@pytest.mark.parametrize("name", EARLIER)
def test_an_earlier_name_is_another_name_of_the_same_module(name):
    module = import_module(name)
    assert module is sys.modules[EARLIER[name]]
    assert module.__spec__.name == module.__name__ == EARLIER[name]


def test_earlier_names_within_a_module():
    from bertkit.inference.predicted import Predicted, predicted  # type: ignore[import-not-found]

    from bertkit.inference.outcome import TaskInference, task_inference

    assert (Predicted, predicted) == (TaskInference, task_inference)

    class Own(Predicted):
        def repeated(self, columns):
            return {"id": columns["id"]}

    assert Own(None).columns_beside({"id": [1], "text": ["a"]}) == {"id": [1]}


def test_other_names_are_not_found():
    for name in ("bertkit.nothing", "bertkit.errors.nothing", "bertkit.reporting.nothing"):
        with pytest.raises(ModuleNotFoundError):
            import_module(name)


def test_a_public_function_keeps_its_name():
    assert callable(bertkit.explain)
    with pytest.raises(ModuleNotFoundError):
        import_module("bertkit.explain.attention")
