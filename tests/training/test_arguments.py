"""TrainingArguments of a run: what an optimizer, a scheduler or transformers does not accept is refused beforehand."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import Trainer, TrainingArguments
from transformers.trainer_utils import SchedulerType
from transformers.training_args import OptimizerNames

from bertkit.runtime.errors import RecipeError
from bertkit.runtime.placement.resolve import place
from bertkit.tasks.registry import load_recipe
from bertkit.training.arguments import check_schedule, training_arguments, validate_training_arguments
from bertkit.training.runs.resolve import finetuning_recipe

CPU = {"placement.device": "cpu", "placement.mixed_precision": "no"}


def built(folder: Path, **train: Any) -> TrainingArguments:
    """Returns the arguments of a run with these values of the ``train`` block, after trying them out."""
    values = {f"train.{key}": value for key, value in train.items()}
    recipe = load_recipe({"task": {"kind": "classification"}}, {**CPU, **values})
    placement = place(recipe.placement, recipe.train["global_train_batch_size"])
    arguments = training_arguments(recipe, placement, folder)
    validate_training_arguments(arguments, recipe)
    return arguments


def outcome(folder: Path, **train: Any) -> TrainingArguments | str:
    """The arguments, or the message that refuses the values."""
    try:
        return built(folder, **train)
    except RecipeError as error:
        return str(error)


def refusal(folder: Path, **train: Any) -> str:
    with pytest.raises(RecipeError) as caught:
        built(folder, **train)
    return str(caught.value)


@pytest.mark.parametrize("is_pinned", [True, False])
def test_copies_from_pinned_memory_do_not_wait(tmp_path, is_pinned):
    recipe = load_recipe({"task": {"kind": "classification"}}, CPU)
    values = {**place(recipe.placement, 32).training_arguments(), "use_cpu": False, "dataloader_pin_memory": is_pinned}
    placement = SimpleNamespace(device="cpu", strategy="single", training_arguments=lambda: values)
    assert training_arguments(recipe, placement, tmp_path).accelerator_config.non_blocking == is_pinned


def test_on_a_gpu_adamw_is_the_fused_one(tmp_path):
    recipe = load_recipe({"task": {"kind": "classification"}}, CPU)
    placement = dataclasses.replace(place(recipe.placement, 32), device="cuda")
    kind, values = Trainer.get_optimizer_cls_and_kwargs(training_arguments(recipe, placement, tmp_path))
    assert kind is torch.optim.AdamW
    assert values["fused"]


def test_outputs_of_evaluations_leave_a_gpu(tmp_path):
    recipe = load_recipe({"task": {"kind": "classification"}}, CPU)
    placement = dataclasses.replace(place(recipe.placement, 32), device="cuda")
    assert training_arguments(recipe, placement, tmp_path).eval_accumulation_steps == 16


@pytest.mark.parametrize("optim", [each.value for each in OptimizerNames])
def test_every_optimizer_works_or_is_refused_by_name(tmp_path, optim):
    needs_layers = "galore" in optim or "apollo" in optim
    found = outcome(tmp_path, optim=optim, optim_target_modules="all-linear" if needs_layers else None)
    if optim in {"adamw_torch", "adamw_torch_fused", "sgd", "adagrad", "rmsprop", "adafactor"}:
        assert isinstance(found, TrainingArguments)
    else:  # the package is not installed
        assert "train.optim: " in found


@pytest.mark.parametrize("schedule", [each.value for each in SchedulerType])
def test_schedules_accept_their_own_values_only(tmp_path, schedule):
    needed: dict[str, Any] = {
        "cosine_with_min_lr": {"min_lr": 1e-6},
        "cosine_warmup_with_min_lr": {"min_lr": 1e-6},
        "warmup_stable_decay": {"num_decay_steps": 20},
    }
    evaluated = {"eval_strategy": "steps", "eval_steps": 5, "lr_scheduler_type": schedule}
    built(tmp_path, **evaluated, lr_scheduler_kwargs=needed.get(schedule))
    if schedule in ("constant", "constant_with_warmup"):  # takes no values, and transformers ignores them
        return
    wrong = refusal(tmp_path, **evaluated, lr_scheduler_kwargs={"no_such_value": 3})
    assert "train.lr_scheduler_type, train.lr_scheduler_kwargs: TypeError: " in wrong
    assert "no_such_value" in wrong


@pytest.mark.parametrize(
    ("train", "reason"),
    [
        ({"optim_args": "momentum"}, "train.optim_args: not enough values to unpack"),
        ({"optim": "sgd", "optim_args": "momentum=much"}, "could not convert string to float: 'much'"),
        ({"optim": "sgd", "optim_args": "momentum=-1"}, "Invalid momentum value: -1.0"),
        (
            {"lr_scheduler_type": "cosine", "lr_scheduler_kwargs": {"num_cycles": "many"}},
            "train.lr_scheduler_type, train.lr_scheduler_kwargs: ",
        ),
        (
            {"lr_scheduler_type": "polynomial", "lr_scheduler_kwargs": {"lr_end": 1}},
            "train.lr_scheduler_type, train.lr_scheduler_kwargs: ",
        ),
        ({"lr_scheduler_type": "warmup_stable_decay"}, "num_decay_steps"),
        ({"lr_scheduler_type": "reduce_lr_on_plateau"}, "requires an eval strategy"),
        ({"lr_scheduler_kwargs": "{"}, "train.lr_scheduler_kwargs: Expecting property name"),
        ({"accelerator_config": "missing.json"}, "train.accelerator_config: FileNotFoundError: "),
        ({"torch_compile_backend": "fast"}, "train.torch_compile_backend: 'FAST' is not a valid DynamoBackend"),
        (
            {"torch_compile": True, "torch_compile_mode": "fast"},
            "train.torch_compile_mode: RuntimeError: Unrecognized mode=fast",
        ),
        (
            {"dataloader_persistent_workers": True},
            "train.dataloader_persistent_workers: persistent_workers option needs num_workers > 0",
        ),
        (
            {"dataloader_multiprocessing_context": "x"},
            "train.dataloader_multiprocessing_context: multiprocessing_context can only be used with",
        ),
        ({"log_level": "loud"}, "train.log_level: KeyError: 'loud'"),
    ],
)
def test_what_cannot_work_is_refused_with_the_reason(tmp_path, train, reason):
    message = refusal(tmp_path, **train)
    assert message.startswith("recipe classification: train")
    assert reason in message


def test_steps_of_the_vocabulary_need_pretraining():
    with pytest.raises(RecipeError, match=r"train\.vocabulary_steps: is for pre-training"):
        finetuning_recipe("finetune/glue/sst2", overrides={"train.vocabulary_steps": 3})


def test_a_share_of_decay_steps_needs_pretraining():
    schedule = {"train.lr_scheduler_type": "warmup_stable_decay", "train.lr_scheduler_kwargs": {"num_decay_steps": 0.1}}
    with pytest.raises(RecipeError, match=r"num_decay_steps: 0\.1 is a share of the steps"):
        check_schedule(load_recipe("sst2", schedule))
    check_schedule(load_recipe("sst2", {**schedule, "train.lr_scheduler_kwargs": {"num_decay_steps": 10}}))


def test_validation_changes_no_random_number_and_no_file(tmp_path):
    torch.manual_seed(1)
    before = torch.get_rng_state()
    built(tmp_path / "run")
    assert torch.equal(torch.get_rng_state(), before)
    assert not (tmp_path / "run").exists()
