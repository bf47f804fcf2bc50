"""What a fine-tuning is, once its data are known: the final recipe, the task, the splits, and the model's start.

Nothing changes these afterwards. What depends on the data is decided here, once: the schedule, folds, the columns and
classes of the task, and which checkpoint is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from transformers import EarlyStoppingCallback, TrainerCallback

from bertkit.model.checkpoint.encoders import head_class
from bertkit.model.modeling_bert import BertPreTrainedModel
from bertkit.recipe.load import Recipe
from bertkit.recipe.settings import config_changes, has_teacher, is_warm
from bertkit.runtime.errors import RecipeError
from bertkit.runtime.progress import say
from bertkit.tasks.base import Task, task_record, with_optional_labels
from bertkit.tasks.folds import load_splits, text_numbers
from bertkit.tasks.registry import task_of_recipe
from bertkit.tasks.splits import Split, is_labelled
from bertkit.tasks.table_data import TableTask
from bertkit.training.arguments import check_schedule, checked_recipe
from bertkit.training.batches import with_whole_batches
from bertkit.training.evaluation import best_checkpoint_arguments, comparison_arguments
from bertkit.training.initialization import Initialization, finetuning_start
from bertkit.training.objectives import check_class_weights, weighted_labels
from bertkit.training.runs.run_directory import RunSetup
from bertkit.training.runs.training import is_tuned, is_weighted
from bertkit.training.schedule import FITS_DATA, MOST_ROWS, fitted_schedule
from bertkit.training.tuning import check_tuning
from bertkit.training.warm_start import check_warm_start, has_exclusive_classes, has_pairs, problem_of

_FOLDS = 5
_OF_VALIDATION = ("load_best_model_at_end", "early_stopping_patience", "metric_for_best_model", "save_strategy")


@dataclass(frozen=True)
class Resolved:
    """A fine-tuning whose values are final.

    Attributes:
        recipe: the recipe.
        task: the task, with what it has learnt from the data.
        splits: by name; without ``validation`` if models of folds score the rows.
        start: tokenizer, configuration and weights that every model of the run starts from.
        labels: names of the classes by id; None for tasks without.
        folds: number of folds whose models score the training rows; 0 if there is a validation set.
        reaches_all_weights: the loss has a gradient for every weight.
        evaluation: ``TrainingArguments`` on evaluations and on the checkpoint that is kept.
    """

    recipe: Recipe
    task: Task
    splits: dict[str, Split]
    start: Initialization
    labels: Any | None
    folds: int
    reaches_all_weights: bool
    evaluation: Mapping[str, Any]


def resolve_settings(recipe: Recipe) -> Recipe:
    """Returns a checked fine-tuning recipe with the values that follow from the recipe alone: paths and whole batches.

    Raises:
        RecipeError: the recipe is of a pre-training, or has a value for one.
    """
    recipe = checked_recipe(recipe)
    return with_whole_batches(recipe) if task_of_recipe(recipe).joins_batch else recipe


def resolve(
    recipe: Recipe, setup: RunSetup, *, callbacks: Sequence[TrainerCallback] = (), with_tests: bool = True
) -> Resolved:
    """Reads the data of a fine-tuning and returns its final values; prints sizes, and what was chosen.

    Args:
        recipe: from `resolve_settings`.
        setup: where the run is computed.
        callbacks: those of the caller, of which some need a validation set.
        with_tests: read the test sets too, so that the run predicts them.

    Raises:
        BertkitError: the encoder or the data cannot be read, or values of the recipe exclude each other.
    """
    start = finetuning_start(recipe)
    task, splits, folds = _load(recipe, setup, callbacks, with_tests)
    chosen = ""
    if recipe.train.get(FITS_DATA):
        rows = len(splits["train"].examples)
        scored = None if folds else len(splits["validation"].examples)
        kinds: dict[str, Any] = {}
        if not has_teacher(recipe.train):  # whose outputs tell a random head more than a line
            kinds["classes"] = _rows_of_classes(task, splits["train"])
            kinds["has_several_labels"] = problem_of(task) == "multi_label_classification"
            kinds["has_pairs"] = has_pairs(task)
        recipe, chosen = fitted_schedule(recipe, rows, scored, start.config, **kinds)
    if folds:
        recipe = replace(recipe, data=replace(recipe.data, folds=folds))
        task = task.with_settings()
        task.data = recipe.data
    if chosen:
        say(chosen)
    setup.directory.check_recipe(recipe)
    if is_warm(recipe.train):
        check_warm_start(recipe, task)
    changes = {**task.config(), **config_changes(recipe.model), "bertkit_task": task_record(task)}
    start = start.of_task(task, changes)
    is_bert = issubclass(head_class(start.head, start.config, start.name), BertPreTrainedModel)
    best = {**best_checkpoint_arguments(recipe), **comparison_arguments(task.main_metric, recipe)}
    evaluation = {"eval_strategy": "no"} if folds else best
    return Resolved(recipe, task, splits, start, changes.get("id2label"), folds, is_bert, evaluation)


def _load(
    recipe: Recipe, setup: RunSetup, callbacks: Sequence[TrainerCallback], with_tests: bool
) -> tuple[Task, dict[str, Split], int]:
    """Reads the data, and checks the settings that depend on the task; prints the sizes of the splits.

    Returns:
        The task of the data, the splits, and the number of folds whose models score the training rows; with 0 there is
        a validation set.
    """
    task = task_of_recipe(recipe)
    check_schedule(recipe)
    if is_weighted(recipe):
        check_class_weights(recipe)
    if is_tuned(recipe):
        check_tuning(recipe, setup.placement)
    names = [name for name in task.splits if with_tests or is_labelled(name)]
    may_score_all = may_score_by_folds(recipe, task, setup, callbacks)
    if may_score_all:
        names.remove("validation")
    task, splits = load_splits(with_optional_labels(task) if has_teacher(recipe.train) else task, names)
    folds = number_of_folds(task, splits["train"]) if may_score_all else 0
    if may_score_all and not folds:
        task, held_out = cast(TableTask, task).hold_out(splits)
        splits = {name: held_out[name] for name in task.splits if name in held_out}
    if is_weighted(recipe):
        check_class_weights(recipe, weighted_labels(task))
    say(f"{task.name}: {', '.join(f'{len(split.examples)} {name}' for name, split in splits.items())} examples")
    return task, splits, folds


def may_score_by_folds(recipe: Recipe, task: Task, setup: RunSetup, callbacks: Sequence[TrainerCallback] = ()) -> bool:
    """Returns whether the rows of a table are scored by folds if they are few, or because the recipe says so.

    Raises:
        RecipeError: the recipe says so, and the task or the placement cannot.
    """
    data, train = recipe.data, recipe.train
    if data.fold is not None or data.folds == 0:
        return False
    reason = ""
    if not getattr(task, "can_score_by_folds", False):
        reason = f"{task.kind} needs a validation set; give data.fold too, or --folds with several runs"
    elif setup.placement.num_processes > 1 or setup.placement.device == "xla":
        reason = "several processes need a validation set; set data.folds to 0"
    elif has_teacher(train):
        reason = "a teacher needs a validation set; set data.folds to 0"
    elif asked := [key for key in _OF_VALIDATION if train.get(key)]:
        reason = f"train.{asked[0]} needs a validation set; remove one of both"
    elif any(isinstance(each, EarlyStoppingCallback) for each in callbacks):
        reason = "early stopping needs a validation set; remove one of both"
    if data.folds and reason:
        raise RecipeError(f"recipe {recipe.name}: data.folds: {data.folds} folds score all rows, and {reason}")
    if data.folds:
        return True
    has_limits = data.max_train_samples is not None or data.max_eval_samples is not None
    if reason or has_limits or data.has_validation_set or not train.get(FITS_DATA):
        return False
    if data.validation_fraction != type(data)().validation_fraction:  # rows are to be held out
        return False
    # A run that was started otherwise goes on so.
    return not setup.directory.is_resumed or bool(setup.directory.started_with("data", "folds"))


def number_of_folds(task: Task, train: Split) -> int:
    """Returns how many folds score a training set; 0 for a large one, and for one with too few texts to divide."""
    if task.data.folds:
        return int(task.data.folds)
    if len(train.examples) > MOST_ROWS or "labels" not in train.examples.column_names:
        return 0
    return _FOLDS if int(text_numbers(task, train.examples).max(initial=-1)) + 1 >= 2 * _FOLDS else 0


def _rows_of_classes(task: Task, train: Split) -> list[int]:
    """Returns the number of training examples of each class; none if they have no label, several, or no classes."""
    if not has_exclusive_classes(task) or "labels" not in train.examples.column_names:
        return []
    return list(Counter(train.examples["labels"][:]).values())
