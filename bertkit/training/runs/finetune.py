"""Fine-tuning of all weights of a pre-trained BERT with a new head (BERT §4, §A.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from bertkit.inference.outcome import further_metrics
from bertkit.recipe.load import Recipe
from bertkit.recipe.settings import has_teacher, is_warm
from bertkit.runtime.placement.processes import from_main_process
from bertkit.runtime.progress import say
from bertkit.tasks.arguments import with_settings
from bertkit.tasks.base import encoding_notes, truncation_hint
from bertkit.tasks.encoding import encode_once
from bertkit.tasks.registry import command_of, task_of_recipe
from bertkit.training.arguments import check_callbacks, finetuning_recipe
from bertkit.training.batches import check_drop_last
from bertkit.training.evaluation import best_checkpoint_arguments, check_early_stopping, early_stopping
from bertkit.training.runs.directory import Run, RunRecord, writes_run
from bertkit.training.runs.evaluate import (
    Scores,
    collapse_of,
    fit_decisions,
    score_and_predict_the_rest,
    validation_outcome,
    verdict_on_run,
)
from bertkit.training.runs.folds import ModelsOfFolds
from bertkit.training.runs.resolve import Resolved, resolve, resolve_settings
from bertkit.training.runs.rivals import Rivals, rivals_of
from bertkit.training.runs.run_directory import RunSetup, set_up
from bertkit.training.runs.training import Assembly, finish, train, write_files_of_listeners
from bertkit.training.trainer import BertkitTrainer
from bertkit.training.warm_start import warm_start


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
    recipe = finetuning_recipe(recipe, model, data_dir, overrides)
    prepared = prepare_finetuning(recipe, output_dir, resume=resume, push_to_hub=push_to_hub, callbacks=callbacks)
    return train_and_score(prepared, card_note)


@dataclass(frozen=True)
class PreparedFinetuning:
    """A run that is ready for its first step, with nothing written.

    Attributes:
        setup, resolved: where the run is computed, and what it is.
        record: what is known of it so far.
        trainer: the trainer of its model.
        features: rows of `Task.encode` by split.
        scores: the scores of evaluations.
        new_weights: names of the weights that the encoder lacks.
        folds: the models of folds that score every row; None if there is a validation set.
        teacher_bytes: size of the weights of a teacher.
    """

    setup: RunSetup
    resolved: Resolved
    record: RunRecord
    trainer: BertkitTrainer
    features: dict[str, Any]
    scores: Scores
    new_weights: list[str]
    folds: ModelsOfFolds | None = None
    teacher_bytes: int = 0

    def rivals(self) -> Rivals | None:
        """Returns what cheap models predict for the scored rows; None for tasks that are not compared with any."""
        task, splits, start = self.resolved.task, self.resolved.splits, self.resolved.start
        is_table = getattr(task, "can_score_by_folds", False)
        if not is_table or has_teacher(self.resolved.recipe.train) or self.setup.placement.num_processes > 1:
            return None
        scored = splits.get("validation")
        return rivals_of(task, splits["train"], scored, self.folds, self.trainer.model, start.tokenizer)

    def begin(self, trainer: BertkitTrainer, is_resumed: bool) -> Rivals | None:
        """Does what precedes the first step of the run's own model: scores of folds, steps on texts, a linear probe.

        Returns:
            The `rivals`, for which the model has to be that of the encoder.
        """
        rivals, resolved = self.rivals(), self.resolved
        if self.folds is not None:
            self.folds.train()
            self.folds.limit(trainer)
        if is_warm(resolved.recipe.train) and not is_resumed:
            warm_start(trainer, resolved.recipe, resolved.task, resolved.splits["train"].examples)
        return rivals


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
        output_dir, resume, push_to_hub, scratch: as for `set_up`.
        callbacks: as for `finetune`.
        with_tests: read the test sets too, so that the run predicts them.
    """
    recipe = resolve_settings(recipe)
    setup = set_up(
        recipe,
        output_dir,
        resume=resume,
        push_to_hub=push_to_hub,
        scratch=scratch,
        remove_unused_columns=False,
        label_names=list(task_of_recipe(recipe).label_columns),
        **best_checkpoint_arguments(recipe),
    )
    further = further_metrics(getattr(recipe.task, "metrics", ()))
    run = resolve(recipe, setup, callbacks=callbacks, with_tests=with_tests)
    reaches_all = run.reaches_all_weights
    # Before the trainer, whose accelerator the creation of arguments would reset.
    of_folds = setup.arguments(run.recipe, reaches_all_weights=reaches_all, eval_strategy="no", save_strategy="no")
    arguments = setup.arguments(run.recipe, reaches_all_weights=reaches_all, **run.evaluation)
    check_early_stopping(callbacks, arguments)
    teacher = _load_teacher(run)
    features, record = _encode(run, setup)
    check_drop_last(run.recipe, len(features["train"]))

    assembly = Assembly(run.recipe, setup.placement, run.task, run.start, run.labels, teacher)
    scores = Scores(run.task, run.splits, features, further)
    trainer, new_weights = assembly.trainer(
        features["train"],
        arguments,
        eval_dataset=features.get("validation"),
        scores=scores,
        logs_often=run.recipe.train["logging_steps"] is None,
        callbacks=[*early_stopping(run.recipe), *callbacks],
    )
    data, teacher_bytes, folds = dict(record.data), 0, None
    if teacher is not None:
        data = {"teacher": {"source": teacher.name, "fingerprint": teacher.digest}, **data}
        teacher_bytes = teacher.nbytes
    if run.folds:
        folder, rows = setup.directory.path, run.splits["train"]
        folds = ModelsOfFolds(assembly, folder, rows, features["train"], of_folds, scores)
        data["validation"] = {**data["train"], "notes": folds.notes()}
    return PreparedFinetuning(
        setup, run, replace(record, data=data), trainer, features, scores, new_weights, folds, teacher_bytes
    )


def _load_teacher(run: Resolved) -> Any | None:
    """Returns the teacher of the recipe, checked against the data and the student; None without one."""
    if not has_teacher(run.recipe.train):
        return None
    from bertkit.training.distillation.finetuning import finetuned_teacher

    return finetuned_teacher(run.recipe, run.task, run.splits["train"], run.start, run.start.config)


def _encode(run: Resolved, setup: RunSetup) -> tuple[dict[str, Any], RunRecord]:
    """Encodes every split, and reports truncation and notes.

    Returns:
        The rows of `Task.encode` by split, and the record of the run with the facts of its data.
    """
    features, data, truncation = {}, {}, {}
    for name, (inputs, cut) in encode_once(run.task, run.splits, run.start.tokenizer).items():
        features[name], truncation[name], split = inputs, cut, run.splits[name]
        data[name] = {"source": split.source, "examples": len(split.examples), "fingerprint": split.fingerprint}
        notes = [*split.notes, *encoding_notes(run.task, inputs)]
        if notes:
            data[name]["notes"] = notes
        for note in notes:
            say(f"{name}: {note}")
        if cut.examples:
            say(f"{name}: {cut}; {truncation_hint(run.task)}")
    record = RunRecord(
        run.recipe,
        setup.placement,
        data=data,
        truncation=truncation,
        main_metric=run.task.main_metric,
        estimate="folds" if run.folds else "file" if run.recipe.data.has_validation_set else "held_out",
        started=setup.started,
    )
    return features, record


def train_and_score(prepared: PreparedFinetuning, card_note: str = "") -> Run:
    """Trains a prepared run, evaluates it, predicts its test sets and writes its directory; see `finetune`."""
    setup, run, trainer, folds = prepared.setup, prepared.resolved, prepared.trainer, prepared.folds
    directory, features = setup.directory, prepared.features
    command = f"bertkit finetune {command_of(run.task.kind)} --recipe recipe.yaml --output-dir NEW"
    evaluation, facts, rivals = train(
        setup,
        prepared.record,
        trainer,
        run.start.tokenizer,
        command,
        teacher_bytes=prepared.teacher_bytes,
        begin=prepared.begin,
    )
    if folds is not None:
        evaluation = directory.write_results("eval", folds.evaluation)
    task = fit_decisions(run.task, evaluation, trainer, directory)
    write_files_of_listeners(setup, task, trainer.model.config)
    scores = prepared.scores.of_task(task)
    outcome = validation_outcome(task, trainer, run.splits, features) if folds is None else folds.outcome(task)
    collapse = collapse_of(outcome)
    if folds is not None:
        from_main_process(lambda: folds.write(outcome))
    metrics = score_and_predict_the_rest(scores, directory, trainer, run.splits, features, evaluation)
    verdict = verdict_on_run(outcome, trainer.state.log_history, directory.results, run.recipe)
    if rivals is not None:
        directory.write_results("eval", {**metrics, **rivals.results(outcome)})
        verdict = rivals.added_to(verdict, outcome)
    record = replace(
        prepared.record,
        collapse=collapse,
        verdict=verdict,
        further_scores=() if scores.further is None else scores.further.computed,
        folds={} if folds is None else folds.facts(),
    )
    scored = run.splits if folds is None else run.splits | {"validation": folds.split}
    return finish(setup, record, trainer, facts, metrics, task=task, splits=scored, outcome=outcome, note=card_note)
