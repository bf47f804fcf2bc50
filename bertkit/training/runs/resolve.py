"""Resolution of a fine-tuning: the final recipe, task, splits and arguments, and the trainers of its models.

Nothing changes the recipe afterwards. What depends on the data is decided here, once: the length of inputs, the
schedule, folds, the columns and classes of the task, which checkpoint is kept, the arguments of the Trainer. Only what
models of folds predict may still show that the run's own model is better without training.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from transformers import EarlyStoppingCallback, TrainerCallback, TrainingArguments, set_seed

from bertkit.inference.outcome import further_metrics
from bertkit.model.checkpoint.encoders import longest_input, model_inputs
from bertkit.recipe.load import Recipe, with_absolute_paths
from bertkit.runtime.errors import RecipeError
from bertkit.runtime.placement.resolve import Placement
from bertkit.runtime.progress import say
from bertkit.tasks.base import Task, with_optional_labels
from bertkit.tasks.encoding import USUAL_LENGTH, fit_length
from bertkit.tasks.folds import load_splits, number_of_folds
from bertkit.tasks.registry import load_recipe, task_of_recipe
from bertkit.tasks.splits import ColumnsOf, FineTuningData, Split, is_labelled
from bertkit.tasks.table_data import TableTask
from bertkit.training.arguments import best_checkpoint_arguments, check_schedule, training_arguments
from bertkit.training.batches import compiled_length, multiple_of_8, padded_to
from bertkit.training.cpu import CpuSpeedUps, cpu_speed_ups, rounded_length
from bertkit.training.evaluation import check_evaluations, early_stopping
from bertkit.training.initialization import Initialization, finetuning_start, set_attention
from bertkit.training.objectives import check_class_weights, weighted_labels, weighted_objective
from bertkit.training.runs.training import RunSetup, place_run, set_up, trainer_class
from bertkit.training.schedule import FITS_DATA, fitted_schedule
from bertkit.training.steps import Objective, TaskObjective
from bertkit.training.trainer import BertkitTrainer
from bertkit.training.tuning import check_tuning, tune
from bertkit.training.warm_start.phases import check_warm_start, has_exclusive_classes, has_pairs, has_words, problem_of

if TYPE_CHECKING:
    from bertkit.metrics.adapter import FurtherMetrics
    from bertkit.training.distillation.finetuning import FinetunedTeacher

_MOST_MEASURED = 1000  # training texts whose length is looked at
_OF_VALIDATION = ("validation_file", "validation_split", "validation_fraction")
_NEED_VALIDATION = ("load_best_model_at_end", "early_stopping_patience", "metric_for_best_model")


def finetuning_recipe(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    model: str | None = None,
    data_dir: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Recipe:
    """Loads the recipe of a run from the arguments of `finetune`, with absolute paths.

    Raises:
        RecipeError: the recipe does not exist or is invalid, is of a pre-training, or has a value for one.
    """
    arguments = {"model.name_or_path": model, "data.data_dir": data_dir}
    values = {key: str(value) for key, value in arguments.items() if value is not None}
    loaded = load_recipe(recipe, {**(overrides or {}), **values})
    if not isinstance(loaded.data, FineTuningData):
        raise RecipeError(f"recipe {loaded.name}: task.kind is {loaded.kind!r}; use `bertkit pretrain`")
    if loaded.train.get("vocabulary_steps"):
        raise RecipeError("train.vocabulary_steps: is for pre-training, and fine-tuning has no use for it; remove it")
    return with_absolute_paths(loaded)


@dataclass(frozen=True)
class ResolvedFinetuning:
    """A fine-tuning whose values are final.

    Attributes:
        setup: where it is computed.
        recipe: the recipe.
        task: the task, with what it has learnt from the data; thresholds and temperatures are fitted after training.
        splits: by name; without ``validation`` if models of folds score the rows.
        start: tokenizer, configuration and place of the weights that every model of the run starts from.
        arguments: of the training of the run's own model.
        arguments_of_folds: of the models of folds that score the training rows; None if there is a validation set.
        teacher: the teacher of the recipe, checked against the data and the student; None without one.
        further: the metrics of ``task.metrics``.
        callbacks: callbacks of the Trainer: for early stopping, and those of the caller.
    """

    setup: RunSetup
    recipe: Recipe
    task: Task
    splits: dict[str, Split]
    start: Initialization
    arguments: TrainingArguments
    arguments_of_folds: TrainingArguments | None
    teacher: FinetunedTeacher | None
    further: FurtherMetrics | None
    callbacks: list[TrainerCallback]

    def build_trainer(
        self, rows: Any, arguments: TrainingArguments, what: str = "", **given: Any
    ) -> tuple[BertkitTrainer, list[str]]:
        """Loads a model, with the seed of the recipe, and returns its trainer; also the names of the weights that the
        encoder lacks.

        Args:
            rows: rows of `Task.encode` to train on.
            arguments: the arguments of the training.
            what: name of the model in lines and errors; by default the name of the task.
            given: further arguments of `BertkitTrainer`.
        """
        recipe, task, placement, tokenizer = self.recipe, self.task, self.setup.placement, self.start.tokenizer
        set_seed(recipe.train["seed"])
        network, new_weights = self.start.model()
        set_attention(network, recipe, placement)
        task.prepare(network)
        speed_ups = cpu_speed_ups(placement, compiles=arguments.torch_compile)
        # A teacher adds to the loss of the training; evaluations have that of the labels.
        own: Objective = TaskObjective(task)
        objective = label_objective = weighted_objective(recipe, task, rows) if recipe.is_weighted else own
        # What makes batches: the inputs of both models, in the lengths that the device needs.
        inputs = tuple(dict.fromkeys([*model_inputs(network.config), *(self.teacher.inputs if self.teacher else ())]))
        collate: Any = partial(task.collate, tokenizer=tokenizer, inputs=inputs)
        if rule := padding_rule(placement, speed_ups):
            collate = padded_to(partial(rule, recipe.data.max_seq_length), collate, tokenizer, task.label_columns)
        if self.teacher is not None:
            from bertkit.training.distillation.finetuning import taught_task

            objective, collate = taught_task(label_objective, task, self.teacher, network, rows, collate)
        trainer = trainer_class(placement)(
            what=what or task.name,
            model=network,
            args=arguments,
            objective=objective,
            evaluation=label_objective,
            precision=placement.autocast_dtype,
            tuning=tune(network, recipe) if recipe.is_tuned else None,
            speed_ups=speed_ups,
            train_dataset=rows,
            data_collator=collate,
            processing_class=tokenizer,
            drop_last=bool(recipe.train.get("dataloader_drop_last")),
            **given,
        )
        return trainer, new_weights


def padding_rule(placement: Placement, speed_ups: CpuSpeedUps) -> Callable[[int, int], int] | None:
    """Returns the function that computes the length to pad a batch to, from the maximum of the run and the length of
    the batch; None if batches keep their length."""
    if placement.fixed_shapes:
        return max  # always that of the run
    if speed_ups.compiles:
        return compiled_length
    if speed_ups.is_on:
        return rounded_length
    return multiple_of_8 if placement.device == "cuda" else None


def resolve(
    recipe: Recipe,
    output_dir: str | Path,
    *,
    resume: bool = False,
    push_to_hub: str | None = None,
    callbacks: Sequence[TrainerCallback] = (),
    scratch: Path | None = None,
    with_tests: bool = True,
) -> ResolvedFinetuning:
    """Checks the arguments, reads the data and returns the final values; prints sizes, and what was chosen.

    Args:
        recipe: a recipe of `finetuning_recipe`.
        output_dir, resume, push_to_hub, scratch: as for `set_up`.
        callbacks: those of the caller, of which some need a validation set.
        with_tests: read the test sets too, so that the run predicts them.

    Raises:
        BertkitError: the encoder or the data cannot be read, or values of the recipe exclude each other.
    """
    task = task_of_recipe(recipe)
    of_task: dict[str, Any] = {"remove_unused_columns": False, "label_names": list(task.label_columns)}
    check_schedule(recipe)
    if task.joins_batch and recipe.train["global_train_batch_size"] < 2:
        raise RecipeError("train.global_train_batch_size: the loss compares the examples of a batch; give at least 2")
    setup = set_up(
        recipe,
        output_dir,
        resume=resume,
        push_to_hub=push_to_hub,
        scratch=scratch,
        joins_batch=task.joins_batch,
        **of_task,
        **best_checkpoint_arguments(recipe),
    )
    if recipe.is_tuned:
        check_tuning(recipe, setup.placement)
    further = further_metrics(getattr(recipe.task, "metrics", ()))
    start = finetuning_start(recipe)
    task, splits, folds = _load(recipe, task, setup, callbacks, with_tests)
    recipe, task = _fit_to_data(recipe, task, splits, folds, start)
    setup = replace(setup, placement=place_run(recipe, task.joins_batch))  # now that the length of inputs is known
    start = start.of_task(task, recipe.config_changes)
    # With a validation set, a recipe may evaluate checkpoints, and end with the weights of the best.
    evaluation = {"eval_strategy": "no"} if folds else best_checkpoint_arguments(recipe, task.main_metric)
    # Both before the trainer, whose accelerator the creation of arguments would reset.
    to_arguments = partial(
        training_arguments,
        recipe,
        setup.placement,
        setup.folder_of_trainer,
        reaches_all_weights=start.reaches_all_weights,
        **of_task,
    )
    of_folds = to_arguments(eval_strategy="no", save_strategy="no") if folds else None
    arguments = to_arguments(**evaluation)
    check_evaluations(callbacks, arguments)
    callbacks = [*early_stopping(recipe), *callbacks]
    teacher = None
    if recipe.has_teacher:
        from bertkit.training.distillation.finetuning import finetuned_teacher

        teacher = finetuned_teacher(recipe, task, splits["train"], start, setup.placement)
    return ResolvedFinetuning(setup, recipe, task, splits, start, arguments, of_folds, teacher, further, callbacks)


def _load(
    recipe: Recipe, task: Task, setup: RunSetup, callbacks: Sequence[TrainerCallback], with_tests: bool
) -> tuple[Task, dict[str, Split], int]:
    """Reads the data, and decides whether models of folds score the training rows; prints the sizes of the splits.

    Without folds, a validation set that is missing is held out from the training rows, by the task as it reads them or,
    where their number has to be known first, here. With folds that the recipe asks for, a validation set that it names
    is not read, and a warning says so.

    Returns:
        The task of the data, the splits, and the number of folds; with 0 there is a validation set.
    """
    names = [name for name in task.splits if with_tests or is_labelled(name)]
    may_score_all = may_score_by_folds(recipe, task, setup, callbacks)
    if may_score_all:
        names.remove("validation")
        for unused in (f"data.{key}" for key in _OF_VALIDATION if getattr(recipe.data, key, None)):
            say(f"warning: {unused}: not used, as data.folds {recipe.data.folds} scores all training rows; remove it")
    task, splits = load_splits(with_optional_labels(task) if recipe.has_teacher else task, names)
    folds = number_of_folds(task, splits["train"]) if may_score_all else 0
    if may_score_all and not folds:
        task, held_out = cast(TableTask, task).hold_out(splits)
        splits = {name: held_out[name] for name in task.splits if name in held_out}
    if recipe.is_weighted:
        check_class_weights(recipe, weighted_labels(task))
    say(f"{task.name}: {', '.join(f'{len(split.examples)} {name}' for name, split in splits.items())} examples")
    return task, splits, folds


def _fit_to_data(
    recipe: Recipe, task: Task, splits: dict[str, Split], folds: int, start: Initialization
) -> tuple[Recipe, Task]:
    """Returns the final recipe, with what follows from the data, and the task with it: the length of inputs, the
    schedule and the folds.

    Raises:
        RecipeError: the model cannot be prepared as the recipe asks, such as by a probe.
    """
    if recipe.is_warm:
        check_warm_start(recipe, task)
    rows = splits["train"].examples
    sample = ColumnsOf(rows.select(range(0, len(rows), math.ceil(len(rows) / _MOST_MEASURED))))
    fitted = fit_length(task, sample, start.tokenizer, longest_input(start.config))
    data = replace(fitted, folds=folds or fitted.folds)
    if not recipe.data.max_seq_length and data.max_seq_length > USUAL_LENGTH:
        length = data.max_seq_length
        say(f"chosen: inputs of up to {length} tokens, as texts are long; a smaller --max-seq-length takes less time")
    recipe, task = replace(recipe, data=data), task.with_settings()
    task.data = data
    if recipe.train.get(FITS_DATA):
        kinds: dict[str, Any] = {}
        if not recipe.has_teacher:  # its outputs teach a new head enough: no warm start is chosen
            is_labelled_once = has_exclusive_classes(task) and "labels" in rows.column_names
            kinds["classes"] = list(Counter(rows["labels"][:]).values()) if is_labelled_once else []
            kinds["has_several_labels"] = problem_of(task) == "multi_label_classification"
            kinds |= {"has_pairs": has_pairs(task), "has_words": has_words(task)}
        scored = None if folds else len(splits["validation"].examples)
        recipe, chosen = fitted_schedule(recipe, len(rows), scored, start.config, **kinds)
        if chosen:
            say(chosen)
    return recipe, task


def may_score_by_folds(recipe: Recipe, task: Task, setup: RunSetup, callbacks: Sequence[TrainerCallback] = ()) -> bool:
    """Returns whether models of folds may score the rows of a table, if these are few: ``data.folds`` asks for it, or
    nothing in the recipe is against it.

    Raises:
        RecipeError: the recipe asks for it, and the task, the placement or another value excludes it.
    """
    data = recipe.data
    if data.fold is not None or data.folds == 0:
        return False
    excluded = _why_no_folds(recipe, task, setup, callbacks)
    if data.folds:
        if excluded:
            raise RecipeError(f"recipe {recipe.name}: data.folds: {data.folds} folds score all rows, and {excluded}")
        return True
    given = [getattr(data, key, None) for key in ("validation_fraction", "max_train_samples", "max_eval_samples")]
    if excluded or any(given) or data.has_validation_set or not recipe.train.get(FITS_DATA):
        return False
    # A run that is resumed is scored as it began, if its recipe is known.
    earlier = setup.directory.earlier
    return earlier is None or bool(earlier.data.folds)


def needing_validation_set(recipe: Recipe) -> str:
    """Returns what of a recipe needs a validation set, a key of ``train`` or a teacher; empty if nothing does."""
    train = recipe.train
    needing = ["a teacher"] * recipe.has_teacher + [f"train.{key}" for key in _NEED_VALIDATION if train.get(key)]
    if train.get("save_strategy") == "best":
        needing.append("train.save_strategy")
    return next(iter(needing), "")


def _why_no_folds(recipe: Recipe, task: Task, setup: RunSetup, callbacks: Sequence[TrainerCallback]) -> str:
    """Returns what needs a validation set, and what to change, as the end of a message; empty if nothing does."""
    if not getattr(task, "can_score_by_folds", False):
        return f"{task.kind} needs a validation set; give data.fold too, or --folds with several runs"
    if setup.placement.num_processes > 1 or setup.placement.device == "xla":
        return "several processes need a validation set; set data.folds to 0"
    if what := needing_validation_set(recipe):
        return f"{what} needs a validation set; remove one of both"
    if any(isinstance(each, EarlyStoppingCallback) for each in callbacks):
        return "early stopping needs a validation set; remove one of both"
    return ""
