"""Private methods of transformers' Trainer that bertkit overrides: a release that drops or changes one fails here."""

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

# Class → private methods of transformers' Trainer that it overrides, with the parameters that transformers gives them.
PRIVATE: dict[type, dict[str, tuple[str, ...]]] = {
    BertkitTrainer: {
        "_get_train_sampler": ("train_dataset",),
        "_get_eval_sampler": ("eval_dataset",),
        "_init_training_state": (
            "max_steps",
            "num_update_steps_per_epoch",
            "num_train_epochs",
            "resume_from_checkpoint",
            "trial",
        ),
        "_save_checkpoint": ("model", "trial"),
    },
    ShardedTrainer: {
        "_prepare_for_training": ("max_steps", "train_dataloader", "resume_from_checkpoint"),
        "_wrap_model": ("model", "training", "dataloader"),
        "_load_best_model": (),
        "_load_from_checkpoint": ("resume_from_checkpoint", "model"),
        "_load_optimizer_and_scheduler": ("checkpoint",),
        "_save_optimizer_and_scheduler": ("output_dir",),
    },
    XlaTrainer: {"_load_optimizer_and_scheduler": ("checkpoint",), "_load_rng_state": ("checkpoint",)},
}
# Public ones, which transformers documents as hooks: what the Trainer of a run on one device overrides.
OF_ONE_DEVICE = {
    "get_batch_samples",
    "training_step",
    "compute_loss",
    "prediction_step",
    "evaluation_loop",
    "create_optimizer",
    "save_model",
}


def overridden(kind: type) -> set[str]:
    """The methods of transformers' Trainer that a class has of its own, dunder ones aside."""
    theirs = {name for name in dir(Trainer) if not name.startswith("__")}
    return {name for name in vars(kind) if name in theirs and callable(vars(kind)[name])}


@pytest.mark.parametrize("kind", PRIVATE, ids=lambda kind: kind.__name__)
def test_overridden_private_methods_are_listed(kind):
    """Another method of bertkit's that transformers' Trainer gains would be overridden by accident."""
    theirs = set(dir(Trainer))
    own = {name for name in vars(kind) if name.startswith("_") and not name.startswith("__") and name != "_abc_impl"}
    assert own & theirs == set(PRIVATE[kind])


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in PRIVATE.items() for name in names], ids=str)
def test_transformers_passes_the_parameters_they_take(kind, name):
    theirs = inspect.signature(getattr(Trainer, name, None) or pytest.fail(f"transformers has no Trainer.{name}"))
    assert tuple(theirs.parameters)[1:] == PRIVATE[kind][name]
    arguments = [object()] * len(theirs.parameters)
    inspect.signature(getattr(kind, name)).bind(*arguments)  # a TypeError where ours takes another number


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
