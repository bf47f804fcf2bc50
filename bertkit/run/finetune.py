"""Fine-tuning of all weights of a pre-trained BERT with a new head (BERT §4, §A.3)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from transformers import (
    EvalPrediction,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    TrainerCallback,
    set_seed,
)

from bertkit.checkpoint.encoders import head_class, model_inputs
from bertkit.errors import RecipeError
from bertkit.inference.predicted import Outcome, all_scores, further_metrics
from bertkit.model.modeling_bert import BertPreTrainedModel
from bertkit.placement.processes import failing_together
from bertkit.placement.resolve import Placement
from bertkit.progress import is_score, say
from bertkit.recipe.files import absolute
from bertkit.recipe.load import Recipe, with_absolute_checkpoints
from bertkit.recipe.settings import config_changes, has_teacher
from bertkit.run.directory import Run, RunRecord, numeric_metrics
from bertkit.run.in_progress import RunInProgress
from bertkit.run.scope import writes_run
from bertkit.tasks.base import Task, encoding_notes, truncation_hint, with_optional_labels
from bertkit.tasks.checkpoints import task_record
from bertkit.tasks.encoding import encode_once
from bertkit.tasks.registry import command_of, has_room, load_recipe, task_of_recipe
from bertkit.tasks.splits import ColumnsOf, FineTuningData, Split, is_scored, load_splits, splits_to_write
from bertkit.training.arguments import check_callbacks, check_schedule
from bertkit.training.batches import padded_to
from bertkit.training.cpu import CpuSpeedUps, cpu_speed_ups
from bertkit.training.evaluation import (
    best_checkpoint_arguments,
    check_early_stopping,
    comparison_arguments,
    early_stopping,
)
from bertkit.training.initialization import Start, finetuning_start
from bertkit.training.objectives import Objective, check_class_weights, weighted_labels, weighted_task
from bertkit.training.trainer import BertkitTrainer, trainer_class
from bertkit.training.tuning import check_tuning, tune

if TYPE_CHECKING:
    from bertkit.metrics.adapter import FurtherMetrics
    from bertkit.sharing.card_facts import CardFacts

_AGAINST_COLLAPSE = (
    "train longer, or try another train.learning_rate or train.seed, or train.class_weights if most examples have this "
    "label"
)


@writes_run
def finetune(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    *,
    output_dir: str | Path,
    model: str | None = None,
    data_dir: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    resume: bool = False,
    push_to_hub: str | None = None,
    callbacks: Sequence[TrainerCallback] = (),
    card_note: str = "",
) -> Run:
    """Fine-tunes BERT for the recipe's task, evaluates it, predicts the test set and writes a run directory.

    Args:
        recipe: a name (``finetune/glue/sst2``), a YAML file, a mapping of the blocks, or a recipe.
        output_dir: the run directory; new or empty unless ``resume``.
        model: checkpoint to start from, a folder or a Hub id; overrides the recipe's ``model.name_or_path``.
        data_dir: folder with the data; overrides the recipe's ``data.data_dir``.
        overrides: recipe values by dotted key.
        resume: continue the run in ``output_dir`` from its last checkpoint.
        push_to_hub: Hub repository to push the finished run to, as `bertkit.push` does, with the recipe's ``hub``
            block; the run is saved locally first.
        callbacks: callbacks of transformers' Trainer to call during training, as instances; with several processes each
            process calls its own.
        card_note: a sentence for the top of the model card.

    Returns:
        The run, with its directory and all results.

    Raises:
        HubError: the upload failed; the run is complete, and the message has the command to retry.
        BertkitError: the arguments, recipe or data are invalid; then nothing has been written.
    """
    check_callbacks(callbacks)
    prepared = prepare_finetuning(
        finetuning_recipe(recipe, model, data_dir, overrides),
        output_dir,
        resume=resume,
        push_to_hub=push_to_hub,
        callbacks=callbacks,
    )
    run, trainer, task, splits = prepared.run, prepared.trainer, prepared.task, prepared.splits
    command = f"bertkit finetune {command_of(task.kind)} --recipe recipe.yaml --output-dir NEW"
    evaluation = run.train(trainer, prepared.tokenizer, command)
    prepared.scores.task = task = _learn_from_validation(task, evaluation, run, trainer)
    if prepared.scores.further is not None:
        run.record.further_scores = prepared.scores.further.computed
    outcome = _outcome(task, trainer, splits, prepared.features)
    if outcome.collapse:
        say(f"warning: {outcome.collapse} on the validation set; {_AGAINST_COLLAPSE}")
        run.record.collapse = outcome.collapse
    metrics = _score_and_predict_the_rest(task, run, trainer, splits, prepared.features, evaluation)
    return run.finish(trainer, _card(task, splits, run, trainer, metrics, card_note), outcome)


def finetuning_recipe(
    recipe: str | Path | Mapping[str, Any] | Recipe,
    model: str | None,
    data_dir: str | Path | None,
    overrides: Mapping[str, Any] | None,
) -> Recipe:
    """Loads the recipe of a run from the arguments of `finetune`.

    Raises:
        RecipeError: the recipe does not exist or is invalid.
    """
    given = {"model.name_or_path": model, "data.data_dir": data_dir}
    chosen = {key: str(value) for key, value in given.items() if value is not None}
    return load_recipe(recipe, {**(overrides or {}), **chosen})


@dataclass(frozen=True)
class PreparedFinetuning:
    """A run that is ready for its first step, with nothing written.

    Attributes:
        run: the run.
        trainer: trainer with the model, the encoded splits and the collator.
        tokenizer: tokenizer of the checkpoint.
        new_weights: names of the weights that are not in the checkpoint.
        task: the task, with the values learned from the data.
        splits, features: the examples and the model inputs of each split.
        scores: computes the scores of an evaluation.
    """

    run: RunInProgress
    trainer: BertkitTrainer
    tokenizer: PreTrainedTokenizerBase
    new_weights: list[str]
    task: Task
    splits: dict[str, Split]
    features: dict[str, Any]
    scores: Scores


class Scores:
    """Computes the scores of the split that the trainer has evaluated.

    Attributes:
        task: the task; at the end of the training the one that has learned from the validation set.
        further: the metrics of ``task.metrics``.
        trainer: the trainer, which has the scores as ``compute_metrics``.
    """

    trainer: BertkitTrainer

    def __init__(
        self, task: Task, splits: Mapping[str, Split], features: Mapping[str, Any], further: FurtherMetrics | None
    ):
        self.task, self.further = task, further
        self._splits, self._features = splits, features

    def __call__(self, outcome: EvalPrediction) -> dict[str, float]:
        name = next(name for name, inputs in self._features.items() if inputs is self.trainer.evaluated)
        columns = ColumnsOf(self._features[name]), ColumnsOf(self._splits[name].examples)
        scores = all_scores(self.task, outcome.predictions, *columns, self.further)
        if self.task.main_metric not in scores:
            raise RecipeError(
                f"task.main_metric: {self.task.main_metric!r} is not a score of this task; expected one of "
                f"{', '.join(scores)}"
            )
        return scores


def prepare_finetuning(
    recipe: Recipe,
    output_dir: str | Path,
    *,
    resume: bool = False,
    push_to_hub: str | None = None,
    callbacks: Sequence[TrainerCallback] = (),
    scratch: Path | None = None,
) -> PreparedFinetuning:
    """Prepares a run: checks all arguments, reads and encodes the data, and loads the model.

    Args:
        recipe: a fine-tuning recipe.
        output_dir, resume, push_to_hub, scratch: as for `RunInProgress`.
        callbacks: as for `finetune`.

    Raises:
        BertkitError: as for `finetune`.
    """
    recipe = _checked(recipe)
    task = task_of_recipe(recipe)
    run = RunInProgress(
        recipe,
        output_dir,
        resume,
        push_to_hub,
        scratch,
        remove_unused_columns=False,
        **best_checkpoint_arguments(recipe),
    )
    run.check_arguments()
    further = further_metrics(getattr(recipe.task, "metrics", ()))
    start = finetuning_start(recipe)
    task, splits = _load(recipe, task, run)
    config = start.stored.build({**task.config(), **config_changes(recipe.model), "bertkit_task": task_record(task)})
    is_bert = issubclass(head_class(task.head, config, start.name), BertPreTrainedModel)
    arguments = run.training_arguments(reaches_all_weights=is_bert, **comparison_arguments(task.main_metric, recipe))
    check_early_stopping(callbacks, arguments)
    teacher = _teacher(recipe, task, splits["train"], start, config, run.record)
    features = _encode(task, splits, start.tokenizer, run.record)
    run.record.main_metric = task.main_metric

    set_seed(recipe.train["seed"])
    network, new_weights = start.model(task, config)
    run.set_attention(network)
    task.prepare(network)
    speed_ups = cpu_speed_ups(run.placement, compiles=arguments.torch_compile)
    losses = _losses(recipe, task, teacher, network, features["train"], start.tokenizer, run.placement, speed_ups)
    tuning = tune(network, recipe)
    scores = Scores(task, splits, features, further)
    scores.trainer = trainer = trainer_class(run.placement)(
        what=task.name,
        model=network,
        args=arguments,
        objective=losses.training,
        evaluation=losses.evaluation,
        precision=run.placement.autocast_dtype,
        tuning=tuning,
        train_dataset=features["train"],
        eval_dataset=features["validation"],
        data_collator=losses.collate,
        processing_class=start.tokenizer,
        compute_metrics=scores,
        callbacks=[*early_stopping(recipe), *callbacks],
    )
    trainer.teacher_bytes = 0 if teacher is None else teacher.nbytes
    return PreparedFinetuning(run, trainer, start.tokenizer, new_weights, task, splits, features, scores)


def _checked(recipe: Recipe) -> Recipe:
    """Returns a fine-tuning recipe with absolute paths.

    Raises:
        RecipeError: the recipe is of a pre-training.
    """
    if not isinstance(recipe.data, FineTuningData):
        raise RecipeError(f"recipe {recipe.name}: task.kind is {recipe.kind!r}; use `bertkit pretrain`")
    return with_absolute_paths(recipe)


def _load(recipe: Recipe, task: Task, run: RunInProgress) -> tuple[Task, dict[str, Split]]:
    """Reads the data, and checks the settings that depend on the task; prints the sizes of the splits."""
    check_schedule(recipe)
    check_class_weights(recipe)
    check_tuning(recipe, run.placement)
    task, splits = load_splits(with_optional_labels(task) if has_teacher(recipe.train) else task)
    check_class_weights(recipe, weighted_labels(task))
    say(f"{task.name}: {', '.join(f'{len(split.examples)} {name}' for name, split in splits.items())} examples")
    return task, splits


def _teacher(
    recipe: Recipe, task: Task, train: Split, start: Start, config: PreTrainedConfig, record: RunRecord
) -> Any | None:
    """Returns the teacher of the recipe, and records it; None without one."""
    if not has_teacher(recipe.train):
        return None
    from bertkit.distillation.finetuning import finetuned_teacher

    teacher = finetuned_teacher(recipe, task, train, start, config)
    record.data["teacher"] = {"source": teacher.name, "fingerprint": teacher.digest}
    return teacher


class _Losses(NamedTuple):
    """Objectives of the training and of its evaluations, and the collator that makes batches for both."""

    training: Objective
    evaluation: Objective
    collate: Any


def _losses(
    recipe: Recipe,
    task: Task,
    teacher: Any | None,
    network: PreTrainedModel,
    train: Any,
    tokenizer: PreTrainedTokenizerBase,
    placement: Placement,
    speed_ups: CpuSpeedUps,
) -> _Losses:
    """Returns the task with the losses of the recipe: weights of classes, smoothed labels, a teacher."""
    objective = weighted_task(recipe, task, train)
    inputs = tuple(dict.fromkeys([*model_inputs(network.config), *([] if teacher is None else teacher.inputs)]))
    collate: Any = partial(task.collate, tokenizer=tokenizer, inputs=inputs)
    collate = speed_ups.collator(collate, tokenizer, recipe.data.max_seq_length, task.label_columns)
    if placement.fixed_shapes:
        collate = padded_to(partial(max, recipe.data.max_seq_length), collate, tokenizer, task.label_columns)
    if teacher is None:
        return _Losses(objective, objective, collate)
    from bertkit.distillation.finetuning import taught_task

    taught, collate = taught_task(objective, task, teacher, network, train, collate)
    return _Losses(taught, objective, collate)


def _learn_from_validation(
    task: Task, evaluation: Mapping[str, float], run: RunInProgress, trainer: BertkitTrainer
) -> Task:
    """Returns the task with the settings fitted to the validation set, and saves them with the model."""
    task, message = task.learn_from(evaluation)
    if message:
        say(message)
        config = trainer.model.config
        config.bertkit_task = task_record(task)
        with run.files() as folder:
            if run.is_main_process:
                config.save_pretrained(folder)
    return task


def with_absolute_paths(recipe: Recipe) -> Recipe:
    """Returns the recipe with absolute paths, so that ``recipe.yaml`` repeats the run from any folder."""
    places = {name: getattr(recipe.data, name) for name in recipe.data.paths}
    data = dataclasses.replace(recipe.data, **{name: absolute(place) for name, place in places.items() if place})
    task = recipe.task
    if names := getattr(task, "metrics", []):
        task = dataclasses.replace(task, metrics=list(map(absolute, names)))
    return with_absolute_checkpoints(dataclasses.replace(recipe, data=data, task=task))


def _card(
    task: Task,
    splits: dict[str, Split],
    run: RunInProgress,
    trainer: BertkitTrainer,
    metrics: dict[str, float],
    note: str,
) -> CardFacts | None:
    """Returns the facts of the model card; None without the feature that writes it."""
    if not has_room("sharing"):
        return None
    from bertkit.sharing.card_facts import finetuned_card

    cut, collapse = run.record.truncation, run.record.collapse
    return finetuned_card(task, splits, run.recipe, trainer.model.config, metrics, cut, collapse, note)


def _outcome(task: Task, trainer: BertkitTrainer, splits: Mapping[str, Split], features: Mapping[str, Any]) -> Outcome:
    """Returns the outputs of the last evaluation; a collective call."""
    outputs, split = trainer.outputs(features["validation"]), splits["validation"]
    columns = ColumnsOf(features["validation"]), ColumnsOf(split.examples)
    training = ColumnsOf(splits["train"].examples)
    return Outcome(task, outputs, *columns, split.source, split.fingerprint, training)


def _score_and_predict_the_rest(
    task: Task,
    run: RunInProgress,
    trainer: BertkitTrainer,
    splits: dict[str, Split],
    features: dict[str, Any],
    evaluation: dict[str, float],
) -> dict[str, float]:
    """Scores the other validation sets, predicts the test sets, and writes the predictions of `splits_to_write`.

    Returns:
        ``evaluation``, the results on the first validation set, extended with the scores on the others.
    """
    predicted: dict[str, Any] = {}
    written = splits_to_write(task, list(features))
    for name in [name for name in features if name != "train"]:
        scored = is_scored(name)
        if name != "validation":
            outcome = trainer.predict(features[name], metric_key_prefix="eval" if scored else "predict")
            if scored:
                suffix = name.removeprefix("validation")
                scores = {
                    f"{key}{suffix}": value for key, value in numeric_metrics(outcome.metrics).items() if is_score(key)
                }
                evaluation = run.write("eval", evaluation | scores)
            else:
                suffix = name.removeprefix("test") if name.startswith("test") else f"_{name}"
                predicted |= {f"{key}{suffix}": value for key, value in outcome.metrics.items()}
                predicted[f"predict_samples{suffix}"] = len(features[name])
                run.write("predict", predicted)
        if name in written:
            outputs = trainer.outputs(features[name])  # a collective call: all processes take part
            columns = ColumnsOf(features[name]), ColumnsOf(splits[name].examples)
            with failing_together():
                if run.is_main_process:
                    say(f"{name} predictions: {task.write_predictions(name, outputs, *columns, run.output_dir)}")
    return evaluation


def _encode(
    task: Task, splits: dict[str, Split], tokenizer: PreTrainedTokenizerBase, record: RunRecord
) -> dict[str, Any]:
    """Encodes every split; reports and records truncation and notes."""
    features = {}
    for name, (inputs, cut) in encode_once(task, splits, tokenizer).items():
        features[name], split = inputs, splits[name]
        record.data[name] = {"source": split.source, "examples": len(split.examples), "fingerprint": split.fingerprint}
        notes = [*split.notes, *encoding_notes(task, features[name])]
        if notes:
            record.data[name]["notes"] = notes
        record.truncation[name] = cut
        for note in notes:
            say(f"{name}: {note}")
        if cut.examples:
            say(f"{name}: {cut}; {truncation_hint(task)}")
    return features
