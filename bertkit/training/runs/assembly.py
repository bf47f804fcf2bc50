"""Assembly of the trainer of a fine-tuning: new weights of the head, losses, batches, learning rates.

A run builds one for its own model, and one for the model of each fold if these score its rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from transformers import PreTrainedModel, TrainingArguments, set_seed

from bertkit.model.checkpoint.encoders import model_inputs
from bertkit.recipe.load import Recipe
from bertkit.recipe.settings import HEAD_RATE, KEYS
from bertkit.runtime.placement.resolve import Placement
from bertkit.tasks.base import Task
from bertkit.training.batches import multiple_of_8, padded_to
from bertkit.training.cpu import CpuSpeedUps, cpu_speed_ups
from bertkit.training.initialization import Initialization
from bertkit.training.objectives import Objective, TaskObjective, weighted_task
from bertkit.training.runs.in_progress import RunInProgress
from bertkit.training.trainer import BertkitTrainer
from bertkit.training.tuning import tune


@dataclass(frozen=True)
class Assembly:
    """Shared parts of the trainers of a run.

    Attributes:
        run: the run, with its final recipe.
        task: the task of the training data.
        start: the encoder that every model starts from.
        labels: names of the classes by id; None for tasks without.
        teacher: the teacher of the recipe; None without one.
    """

    run: RunInProgress
    task: Task
    start: Initialization
    labels: Any | None = None
    teacher: Any | None = None

    def trainer(
        self, train: Any, arguments: TrainingArguments, what: str = "", **given: Any
    ) -> tuple[BertkitTrainer, list[str]]:
        """Returns a trainer of a new model, and the names of the weights that the encoder lacks.

        Args:
            train: rows of `Task.encode` to train on.
            arguments: the arguments of the training.
            what: name of the model in lines and errors; by default the name of the task.
            given: ``eval_dataset``, ``scores`` and ``callbacks``, as for transformers' Trainer.
        """
        recipe, placement = self.run.recipe, self.run.placement
        set_seed(recipe.train["seed"])
        network, new_weights = self.start.model(labels=self.labels)
        self.run.set_attention(network)
        self.task.prepare(network)
        speed_ups = cpu_speed_ups(placement, compiles=arguments.torch_compile)
        losses = self._losses(network, train, speed_ups)
        trainer = trainer_class(placement)(
            what=what or self.task.name,
            model=network,
            args=arguments,
            objective=losses.training,
            evaluation=losses.evaluation,
            precision=placement.autocast_dtype,
            tuning=tune(network, recipe) if is_tuned(recipe) else None,
            train_dataset=train,
            data_collator=losses.collate,
            processing_class=self.start.tokenizer,
            drop_last=bool(recipe.train.get("dataloader_drop_last")),
            **given,
        )
        return trainer, new_weights

    def _losses(self, network: PreTrainedModel, train: Any, speed_ups: CpuSpeedUps) -> _Losses:
        """Returns the task with the losses of the recipe: weights of classes, smoothed labels, a teacher."""
        recipe, task, teacher, tokenizer = self.run.recipe, self.task, self.teacher, self.start.tokenizer
        objective = weighted_task(recipe, task, train) if is_weighted(recipe) else TaskObjective(task)
        of_teacher = () if teacher is None else teacher.inputs
        inputs = tuple(dict.fromkeys([*model_inputs(network.config), *of_teacher]))
        collate: Any = partial(task.collate, tokenizer=tokenizer, inputs=inputs)
        collate = speed_ups.collator(collate, tokenizer, recipe.data.max_seq_length, task.label_columns)
        collate = _in_fixed_shapes(collate, self.run.placement, recipe, task, tokenizer)
        if teacher is None:
            return _Losses(objective, objective, collate)
        from bertkit.training.distillation.finetuning import taught_task

        taught, collate = taught_task(objective, task, teacher, network, train, collate)
        return _Losses(taught, objective, collate)


class _Losses(NamedTuple):
    """Objectives of the training and of its evaluations, and the collator that makes batches for both."""

    training: Objective
    evaluation: Objective
    collate: Any


def _in_fixed_shapes(collate: Any, placement: Placement, recipe: Recipe, task: Task, tokenizer: Any) -> Any:
    """Returns a collator that pads as the device needs it."""
    longest = recipe.data.max_seq_length
    if placement.fixed_shapes:
        return padded_to(partial(max, longest), collate, tokenizer, task.label_columns)
    if placement.device == "cuda":
        return padded_to(partial(multiple_of_8, longest), collate, tokenizer, task.label_columns)
    return collate


def is_weighted(recipe: Recipe) -> bool:
    """Returns whether the loss of the labels is another one than the task's."""
    return any(recipe.train.get(key) for key in ("class_weights", "label_smoothing_factor"))


def is_tuned(recipe: Recipe) -> bool:
    """Returns whether weights are frozen, re-initialized, adapted, or learn at rates of their own."""
    own_rates = any(recipe.train.get(key) is not None for key in ("layer_lr_decay", HEAD_RATE))
    return own_rates or any(recipe.model.get(key) is not None for key in KEYS)


def trainer_class(placement: Placement) -> type[BertkitTrainer]:
    """Returns the Trainer class of a placement."""
    if placement.device == "xla":
        from bertkit.training.placements.xla import XlaTrainer

        return XlaTrainer
    if placement.strategy == "fsdp":
        from bertkit.training.placements.fsdp import ShardedTrainer

        return ShardedTrainer
    return BertkitTrainer
