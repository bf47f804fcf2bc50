"""Private methods of transformers' Trainer that bertkit overrides: a release that changes one fails here.

`tests/test_private_names.py` lists them, and fails where a release drops one.
"""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import pytest
from transformers import Trainer

from bertkit.training.placements.fsdp import ShardedTrainer
from bertkit.training.placements.xla import XlaTrainer
from bertkit.training.runs.training import trainer_class
from bertkit.training.trainer import BertkitTrainer

KINDS = [BertkitTrainer, ShardedTrainer, XlaTrainer]
OF_ONE_DEVICE = {
    "get_batch_samples",
    "training_step",
    "compute_loss",
    "prediction_step",
    "evaluation_loop",
    "create_optimizer",
    "save_model",
}
"""Public methods, which transformers documents as hooks, that the Trainer of a run on one device overrides."""


def overridden(kind: type) -> dict[str, Any]:
    """The methods of transformers' Trainer that a class has of its own, dunder ones aside."""
    theirs = {name for name in dir(Trainer) if not name.startswith("__")}
    return {name: value for name, value in vars(kind).items() if name in theirs and inspect.isfunction(value)}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_private_methods_take_what_transformers_passes(kind):
    private = [name for name in overridden(kind) if name.startswith("_")]
    assert private
    for name in private:
        passed = list(inspect.signature(getattr(Trainer, name)).parameters)
        own = inspect.signature(overridden(kind)[name])
        own.bind(*passed)  # a TypeError where it takes another number
        named = [each.name for each in own.parameters.values() if each.kind is each.POSITIONAL_OR_KEYWORD]
        assert named == passed[: len(named)], name


def test_one_device_overrides_few_methods():
    assert {name for name in overridden(BertkitTrainer) if not name.startswith("_")} == OF_ONE_DEVICE
    assert len(overridden(BertkitTrainer)) <= 12


@pytest.mark.parametrize(
    ("device", "strategy", "kind"),
    [
        ("cpu", "single", BertkitTrainer),
        ("cuda", "ddp", BertkitTrainer),
        ("cuda", "fsdp", ShardedTrainer),
        ("xla", "single", XlaTrainer),
    ],
)
def test_each_placement_has_its_trainer(device, strategy, kind):
    placement: Any = SimpleNamespace(device=device, strategy=strategy)
    assert trainer_class(placement) is kind
