"""Fine-tuning of all weights of a pre-trained BERT with a new head (BERT §4, §A.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from transformers import PreTrainedTokenizerBase, TrainerCallback

from bertkit.inference.predicted import further_metrics
from bertkit.model.checkpoint.encoders import head_class
from bertkit.model.modeling_bert import BertPreTrainedModel
from bertkit.recipe.load import Recipe
from bertkit.recipe.settings import config_changes, has_teacher, is_warm
from bertkit.runtime.placement.processes import from_main_process
from bertkit.runtime.progress import say
from bertkit.tasks.arguments import with_settings
from bertkit.tasks.base import Task, encoding_notes, task_record, truncation_hint, with_optional_labels
from bertkit.tasks.encoding import encode_once
from bertkit.tasks.folds import load_splits
from bertkit.tasks.registry import command_of, task_of_recipe
from bertkit.tasks.splits import Split, is_labelled
from bertkit.tasks.table_data import TableTask
from bertkit.training.arguments import check_callbacks, check_schedule, checked_recipe, finetuning_recipe
from bertkit.training.batches import check_drop_last, with_whole_batches
from bertkit.training.evaluation import (
    best_checkpoint_arguments,
    check_early_stopping,
    comparison_arguments,
    early_stopping,
)
from bertkit.training.initialization import Initialization, finetuning_start
from bertkit.training.objectives import check_class_weights, weighted_labels
from bertkit.training.runs.assembly import Assembly, is_tuned, is_weighted
from bertkit.training.runs.directory import Run, RunRecord, writes_run
from bertkit.training.runs.evaluate import (
    Scores,
    learn_from_validation,
    record_outcome,
    score_and_predict_the_rest,
    validation_outcome,
    verdict_on_run,
)
from bertkit.training.runs.folds import ModelsOfFolds, may_score_by_folds, number_of_folds
from bertkit.training.runs.in_progress import RunInProgress
from bertkit.training.runs.rivals import Rivals, rivals_of
from bertkit.training.schedule import FITS_DATA, fitted_schedule
from bertkit.training.trainer import BertkitTrainer
from bertkit.training.tuning import check_tuning
from bertkit.training.warm_start import check_warm_start, has_exclusive_classes, warm_start


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
    **settings: Any,
) -> Run:
    """Fine-tunes BERT for the recipe's task, evaluates it, predicts the test set and writes a run directory.

    Args:
        recipe: a name (``classification``, ``sst2``), a YAML file, a mapping of the blocks, or a recipe.
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
        settings: recipe values by key without the block, as the options of ``bertkit finetune``: ``train_file``,
            ``text_columns``, ``learning_rate``, …. The file of a table can be a table itself: a DataFrame of pandas or
            polars, an Arrow table, a ``datasets.Dataset`` or a list of dictionaries.

    Returns:
        The run, with its directory and all results.

    Raises:
        HubError: the upload failed; the run is complete, and the message has the command to retry.
        BertkitError: the arguments, recipe or data are invalid; then nothing has been written.

    Examples:
        ```python
        run = bertkit.finetune("classification", train_file="reviews.csv", model="my-bert", output_dir="run")
        run.metrics["eval_accuracy"]
        bertkit.load(run.output_dir).predict("a lovely film")
        ```
    """
    check_callbacks(callbacks)
    if settings:
        overrides = with_settings(recipe, overrides, settings)
    prepared = prepare_finetuning(
        finetuning_recipe(recipe, model, data_dir, overrides),
        output_dir,
        resume=resume,
        push_to_hub=push_to_hub,
        callbacks=callbacks,
    )
    return train_and_score(prepared, card_note)


def train_and_score(prepared: PreparedFinetuning, card_note: str = "") -> Run:
    """Trains a prepared run, evaluates it, predicts its test sets and writes its directory; see `finetune`."""
    run, trainer, task, splits = prepared.run, prepared.trainer, prepared.task, prepared.splits
    command = f"bertkit finetune {command_of(task.kind)} --recipe recipe.yaml --output-dir NEW"
    rivals: list[Rivals] = []

    def begin(trainer: BertkitTrainer, is_resumed: bool) -> None:
        rivals.extend(prepared.rivals())
        prepared.begin(trainer, is_resumed)

    evaluation = run.train(trainer, prepared.tokenizer, command, teacher_bytes=prepared.teacher_bytes, begin=begin)
    folds = prepared.folds
    if folds is not None:
        evaluation = run.write("eval", folds.evaluation)
    prepared.scores.task = task = learn_from_validation(task, evaluation, run, trainer)
    run.write_files_of_others(task, trainer.model.config)
    if prepared.scores.further is not None:
        run.record.further_scores = prepared.scores.further.computed
    outcome = validation_outcome(task, trainer, splits, prepared.features) if folds is None else folds.outcome(task)
    record_outcome(outcome, run)
    if folds is not None:
        from_main_process(lambda: folds.write(outcome))
    metrics = score_and_predict_the_rest(task, run, trainer, splits, prepared.features, evaluation)
    run.record.verdict = verdict_on_run(outcome, trainer.state.log_history, run.metrics, run.recipe)
    for each in rivals:
        run.write("eval", {**metrics, **each.results(outcome)})
        run.record.verdict = each.added_to(run.record.verdict, outcome)
    scored = splits if folds is None else splits | {"validation": folds.split}
    return run.finish(trainer, metrics, task=task, splits=scored, outcome=outcome, note=card_note)


@dataclass(frozen=True)
class PreparedFinetuning:
    """A run that is ready for its first step, with nothing written.

    Attributes:
        new_weights: names of the weights that the encoder lacks.
        splits, features: by name; without ``validation`` if ``folds`` scores the rows.
        folds: the models of folds that score every row; None if there is a validation set.
    """

    run: RunInProgress
    trainer: BertkitTrainer
    tokenizer: PreTrainedTokenizerBase
    new_weights: list[str]
    task: Task
    splits: dict[str, Split]
    features: dict[str, Any]
    scores: Scores
    folds: ModelsOfFolds | None = None
    teacher_bytes: int = 0

    def rivals(self) -> list[Rivals]:
        """Returns what cheap models predict for the scored rows; empty for tasks that are not compared with any."""
        run, scored = self.run, self.splits.get("validation")
        is_table = getattr(self.task, "can_score_by_folds", False)
        if not is_table or has_teacher(run.recipe.train) or run.placement.num_processes > 1:
            return []
        given = self.task, self.splits["train"], scored, self.folds
        found = rivals_of(*given, self.trainer.model, self.tokenizer)
        return [] if found is None else [found]

    def begin(self, trainer: BertkitTrainer, is_resumed: bool) -> None:
        """Does what precedes the first step of the run's own model: scores of folds, contrast, a linear probe."""
        if self.folds is not None:
            self.folds.train()
            self.folds.limit(trainer)
        if is_warm(self.run.recipe.train) and not is_resumed:
            warm_start(trainer, self.run.recipe)


def prepare_finetuning(
    recipe: Recipe,
    output_dir: str | Path,
    *,
    resume: bool = False,
    push_to_hub: str | None = None,
    callbacks: Sequence[TrainerCallback] = (),
    scratch: Path | None = None,
    with_tests: bool = True,
) -> PreparedFinetuning:
    """Prepares a run: checks all arguments, reads and encodes the data, and loads the model.

    Args:
        recipe: a fine-tuning recipe.
        output_dir, resume, push_to_hub, scratch: as for `RunInProgress`.
        callbacks: as for `finetune`.
        with_tests: read the test sets too, so that the run predicts them.
    """
    recipe = checked_recipe(recipe)
    task = task_of_recipe(recipe)
    if task.joins_batch:
        recipe = with_whole_batches(recipe)
    run = RunInProgress(
        recipe,
        output_dir,
        resume,
        push_to_hub,
        scratch,
        remove_unused_columns=False,
        label_names=list(task.label_columns),
        **best_checkpoint_arguments(recipe),
    )
    run.check_arguments()
    further = further_metrics(getattr(recipe.task, "metrics", ()))
    start = finetuning_start(recipe)
    task, splits, number = _load(recipe, task, run, with_tests, callbacks)
    recipe = _fitted_to_data(run, task, splits, number, start)
    changes = {**task.config(), **config_changes(recipe.model), "bertkit_task": task_record(task)}
    start = start.of_task(task, changes)
    is_bert = issubclass(head_class(start.head, start.config, start.name), BertPreTrainedModel)
    of_best = {**best_checkpoint_arguments(recipe), **comparison_arguments(task.main_metric, recipe)}
    of_evaluation = of_best if not number else {"eval_strategy": "no"}
    # Before the trainer, whose accelerator the creation of arguments would reset.
    of_folds = run.training_arguments(reaches_all_weights=is_bert, eval_strategy="no", save_strategy="no")
    arguments = run.training_arguments(reaches_all_weights=is_bert, **of_evaluation)
    check_early_stopping(callbacks, arguments)
    if is_warm(recipe.train):
        check_warm_start(recipe, task)
    teacher = _teacher(recipe, task, splits["train"], start, run.record)
    features = _encode(task, splits, start.tokenizer, run.record)
    check_drop_last(recipe, len(features["train"]))
    run.record.main_metric = task.main_metric

    assembly = Assembly(run, task, start, changes.get("id2label"), teacher)
    scores = Scores(task, splits, features, further)
    trainer, new_weights = assembly.trainer(
        features["train"],
        arguments,
        eval_dataset=features.get("validation"),
        scores=scores,
        logs_often=recipe.train["logging_steps"] is None,
        callbacks=[*early_stopping(recipe), *callbacks],
    )
    folds = None
    if number:
        folds = ModelsOfFolds(assembly, splits["train"], features["train"], of_folds, scores)
        folds.record_data()
    run.record.estimate = "folds" if folds else "file" if recipe.data.has_validation_set else "held_out"
    return PreparedFinetuning(
        run,
        trainer,
        start.tokenizer,
        new_weights,
        task,
        splits,
        features,
        scores,
        folds,
        0 if teacher is None else teacher.nbytes,
    )


def _load(
    recipe: Recipe, task: Task, run: RunInProgress, with_tests: bool, callbacks: Sequence[TrainerCallback]
) -> tuple[Task, dict[str, Split], int]:
    """Reads the data, and checks the settings that depend on the task; prints the sizes of the splits.

    Returns:
        The task of the data, the splits, and the number of folds whose models score the training rows; with 0 there is
        a validation set.
    """
    check_schedule(recipe)
    if is_weighted(recipe):
        check_class_weights(recipe)
    if is_tuned(recipe):
        check_tuning(recipe, run.placement)
    names = [name for name in task.splits if with_tests or is_labelled(name)]
    may_score_all = may_score_by_folds(recipe, task, run, callbacks)
    if may_score_all:
        names.remove("validation")
    task, splits = load_splits(with_optional_labels(task) if has_teacher(recipe.train) else task, names)
    number = number_of_folds(task, splits["train"]) if may_score_all else 0
    if may_score_all and not number:
        task, held_out = cast(TableTask, task).hold_out(splits)
        splits = {name: held_out[name] for name in task.splits if name in held_out}
    if is_weighted(recipe):
        check_class_weights(recipe, weighted_labels(task))
    say(f"{task.name}: {', '.join(f'{len(split.examples)} {name}' for name, split in splits.items())} examples")
    return task, splits, number


def _fitted_to_data(
    run: RunInProgress, task: Task, splits: Mapping[str, Split], folds: int, start: Initialization
) -> Recipe:
    """Returns the recipe of the run with the values that it leaves to the data, which are printed."""
    recipe, lines = run.recipe, ""
    if recipe.train.get(FITS_DATA):
        rows = len(splits["train"].examples)
        scored = None if folds else len(splits["validation"].examples)
        recipe, lines = fitted_schedule(recipe, rows, scored, start.config, _rows_of_classes(task, splits["train"]))
    if folds:
        recipe = replace(recipe, data=replace(recipe.data, folds=folds))
        task.data = recipe.data
    return run.settle(recipe, lines)


def _rows_of_classes(task: Task, train: Split) -> list[int]:
    """Returns the number of training examples of each class; none if they have no label, several, or no classes."""
    if not has_exclusive_classes(task) or "labels" not in train.examples.column_names:
        return []
    return list(Counter(train.examples["labels"][:]).values())


def _teacher(recipe: Recipe, task: Task, train: Split, start: Initialization, record: RunRecord) -> Any | None:
    """Returns the teacher of the recipe, and records it; None without one."""
    if not has_teacher(recipe.train):
        return None
    from bertkit.training.distillation.finetuning import finetuned_teacher

    teacher = finetuned_teacher(recipe, task, train, start, start.config)
    record.data["teacher"] = {"source": teacher.name, "fingerprint": teacher.digest}
    return teacher


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
