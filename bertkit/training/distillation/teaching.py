"""Preparation of a run with a teacher: its checks, and what the trainer needs."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from transformers import PreTrainedConfig

from bertkit.errors import DataError, RecipeError
from bertkit.recipe.distillation import DISTILL, distillation_settings
from bertkit.recipe.load import Recipe
from bertkit.tasks.base import Task
from bertkit.tasks.splits import Split
from bertkit.training.distillation.outputs import ROW, TeacherOutputs, cache_folder
from bertkit.training.distillation.teacher import Teacher, check_width
from bertkit.training.run_directory import absolute
from bertkit.training.start import Start


def teaches(recipe: Recipe) -> bool:
    """Returns whether the recipe has a teacher with a weight; without one, the run has no part of this package."""
    settings = distillation_settings(recipe.train)
    return settings is not None and settings.weight > 0


def with_absolute_checkpoints(recipe: Recipe) -> Recipe:
    """Returns the recipe with absolute paths of the checkpoint and of the teacher, where these are folders."""
    model, train = dict(recipe.model), dict(recipe.train)
    if model.get("name_or_path"):
        model["name_or_path"] = absolute(model["name_or_path"])
    if (given := train.get(DISTILL)) is not None:
        train[DISTILL] = {**given, "teacher": absolute(given["teacher"])}
    return dataclasses.replace(recipe, model=model, train=train)


def teacher_of(
    recipe: Recipe, task: Task, train: Split, start: Start, config: PreTrainedConfig, device: torch.device
) -> Teacher | None:
    """Returns the teacher of a recipe, checked against task, labels and tokenizer; ``None`` without one.

    Args:
        recipe: a fine-tuning recipe.
        task: its task, with the labels of the data.
        train: the training set, which may lack labels.
        start: the student's weights and tokenizer.
        config: configuration of the student.
        device: device that computes.

    Raises:
        BertkitError: the teacher cannot be loaded, or does not fit the student or the data.
    """
    settings = distillation_settings(recipe.train)
    if settings is None or not teaches(recipe):
        return None
    if settings.objective == "minilm":
        raise RecipeError(
            f"recipe {recipe.name}: train.distill.objective: minilm is for pre-training (--corpus); remove it"
        )
    if settings.weight < 1 and not task.is_labelled(train.examples):
        raise DataError(
            f"{train.source}: the rows have no labels, so they can be learnt from the teacher only: that needs "
            f"train.distill.alpha 1, got {settings.weight:g}; give --alpha 1, or rows with labels"
        )
    for key in ("class_weights", "label_smoothing_factor"):
        if settings.weight == 1 and recipe.train.get(key):
            raise RecipeError(
                f"recipe {recipe.name}: train.{key}: changes the loss of the labels, which train.distill.alpha 1 "
                "leaves out; remove one of them"
            )
    if recipe.placement.device == "xla":
        raise RecipeError(f"recipe {recipe.name}: train.distill: is not supported on XLA; use another placement")
    teacher = Teacher(settings, task, device)
    check_width(settings, teacher.config, config)
    teacher.check_tokenizer(start.tokenizer, start.name, train)
    return teacher


class Teaching:
    """A teacher with its outputs for an encoded training set.

    Args:
        teacher: the teacher.
        features: the encoded training set.

    Attributes:
        features: the training set with the number of each row, for the trainer.
        outputs: outputs of the teacher; `TeacherOutputs.compute` computes them before the training.

    Raises:
        RecipeError: hidden states have a weight, and the rows have several inputs.
    """

    def __init__(self, teacher: Teacher, features: Any):
        teacher.check_inputs(features[0])
        self._teacher = teacher
        self.features = features.add_column(ROW, list(range(len(features))))
        self.outputs = TeacherOutputs(teacher, self.features, cache_folder())

    @property
    def trainer_values(self) -> dict[str, Any]:
        """Returns the arguments of `DistillationTrainer` that other trainers do not have."""
        teacher = self._teacher
        return {"task": teacher.task, "distillation": teacher.settings, "teacher_outputs": self.outputs}
