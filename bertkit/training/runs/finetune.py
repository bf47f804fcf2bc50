"""Fine-tuning of a pre-trained BERT with a new head: of all weights, or those that a recipe names (BERT §4, §A.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from bertkit.recipe.load import Recipe
from bertkit.runtime.progress import say
from bertkit.tasks.arguments import with_settings
from bertkit.tasks.base import encoding_notes, truncation_hint
from bertkit.tasks.encoding import encode_once
from bertkit.tasks.registry import command_of
from bertkit.tasks.splits import Truncation
from bertkit.training.arguments import check_callbacks
from bertkit.training.batches import check_drop_last
from bertkit.training.runs.directory import writes_run
from bertkit.training.runs.evaluate import (
    fit_decisions,
    score_other_splits,
    scorer,
    split_outcome,
    verdict_on_run,
    warn_of_collapse,
)
from bertkit.training.runs.folds import ModelsOfFolds
from bertkit.training.runs.record import Run, RunRecord, all_results, finite_numbers
from bertkit.training.runs.resolve import ResolvedFinetuning, finetuning_recipe, resolve
from bertkit.training.runs.rivals import Rivals, rivals_of
from bertkit.training.runs.training import begin, computing, finish, save_and_score, train
from bertkit.training.trainer import BertkitTrainer
from bertkit.training.warm_start.phases import read_texts_apart, warm_start


@writes_run  # holds the lock of the directory, and says after a signal how to continue
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
        resume: continue the run in ``output_dir`` from its last complete checkpoint. One that had ended is scored and
            reported again.
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
        SystemExit: a signal came; the last line says how to continue.
        BertkitError: the arguments, recipe or data are invalid; nothing is written, unless the fault shows only during
            the training.

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
    """A run whose data are encoded and whose model is made, with nothing written.

    Attributes:
        run: its final recipe, task, splits and arguments.
        record: ``run.json`` at the start of the run.
        trainer: the trainer of its model.
        features: rows of `Task.encode` by split.
        new_weights: names of the weights that the encoder lacks, for checks.
        folds: the models of folds that score every row; None if there is a validation set.
    """

    run: ResolvedFinetuning
    record: RunRecord
    trainer: BertkitTrainer
    features: dict[str, Any]
    new_weights: list[str]
    folds: ModelsOfFolds | None


def prepare_finetuning(recipe: Recipe, output_dir: str | Path, **given: Any) -> PreparedFinetuning:
    """Prepares a run: checks all arguments, reads and encodes the data, and loads the model.

    Args:
        recipe: a recipe of `finetuning_recipe`.
        output_dir, given: as for `resolve`.
    """
    run = resolve(recipe, output_dir, **given)
    features, data, truncation = _encode(run)
    folds, estimate, settings = None, "file", run.recipe.data
    # A fold replaces a validation set that is named; of a Hub data set without one, rows of its training set are drawn.
    is_drawn = settings.fold is not None or getattr(run.task, "scored_split", "") == "train"
    if is_drawn or not settings.has_validation_set:
        estimate = "held_out"
    if run.arguments_of_folds is not None:
        folds, estimate = ModelsOfFolds(run, features["train"]), "folds"
        data["validation"] = {**data["train"], "notes": folds.notes()}  # the training rows are those that are scored
    check_drop_last(run.recipe, len(features["train"]) if folds is None else folds.fewest_rows)
    validation = features.get("validation")
    trainer, new_weights = run.build_trainer(
        features["train"],
        run.arguments,
        eval_dataset=validation,
        scores=scorer(run.task, validation, run.splits.get("validation"), run.further),
        logs_often=run.recipe.train["logging_steps"] is None,
        callbacks=run.callbacks,
    )
    if run.teacher is not None:
        data = {"teacher": {"source": run.teacher.name, "fingerprint": run.teacher.digest}, **data}
    record = RunRecord(
        run.recipe,
        run.setup.placement,
        data=data,
        truncation=truncation,
        main_metric=run.task.main_metric,
        estimate=estimate,
        started=run.setup.started,
    )
    return PreparedFinetuning(run, record, trainer, features, new_weights, folds)


def _encode(run: ResolvedFinetuning) -> tuple[dict[str, Any], dict[str, Any], dict[str, Truncation]]:
    """Encodes every split; prints what was cut, and notes.

    Returns:
        By split: the rows of `Task.encode`, the facts of the data for ``run.json``, and what was cut.
    """
    features, data, truncation = {}, {}, {}
    for name, (inputs, cut) in encode_once(run.task, run.splits, run.start.tokenizer).items():
        split = run.splits[name]
        features[name], truncation[name] = inputs, cut
        data[name] = {"source": split.source, "examples": len(split.examples), "fingerprint": split.fingerprint}
        notes = [*split.notes, *encoding_notes(run.task, inputs)]
        if notes:
            data[name]["notes"] = notes
        for note in notes:
            say(f"{name}: {note}")
        if cut.examples:
            say(f"{name}: {cut}; {truncation_hint(run.task)}")
    return features, data, truncation


def train_and_score(prepared: PreparedFinetuning, card_note: str = "") -> Run:
    """Trains a prepared run, evaluates it, predicts its test sets and writes its directory; see `finetune`.

    A resumed run finds its place by its files. Without a complete checkpoint it repeats what precedes the first step;
    with one its model continues from there, and with that of the last step it trains no more and is scored. Rivals are
    fitted again, and models of folds are trained again if their files are gone. All processes compute, and the main one
    writes.
    """
    run, trainer, folds, features = prepared.run, prepared.trainer, prepared.folds, prepared.features
    setup, directory = run.setup, run.setup.directory
    command_to_repeat = f"bertkit finetune {command_of(run.task.kind)} --recipe recipe.yaml --output-dir NEW"
    with trainer.speed_ups.applied(trainer.model):
        checkpoint = begin(setup, prepared.record, trainer, run.start.tokenizer, command_to_repeat)
        with computing(setup, trainer):
            rivals = _before_first_step(run, folds, trainer, has_checkpoint=checkpoint is not None)
            metrics = train(trainer, checkpoint)
        results, facts = save_and_score(setup, trainer, metrics, checkpoint)
    # The model is saved. Decisions that the scores hold, such as thresholds, are written into it too.
    if folds is not None:
        results["eval"] = finite_numbers(folds.evaluation)
    task = fit_decisions(run.task, results["eval"], trainer, directory)
    if folds is not None:
        outcome = folds.outcome(task)
        folds.write(outcome)
    else:
        outcome = split_outcome(task, trainer, run.splits["validation"], features["validation"], run.splits["train"])
    warn_of_collapse(outcome, run.recipe)
    # Test sets are predicted, and further validation sets scored; their scores are beside those of the first one.
    others = score_other_splits(task, trainer, run.splits, features, run.further, directory.path)
    for file, scores in others.items():
        results[file] = results.get(file, {}) | scores
    numbers = all_results(results)
    verdict = verdict_on_run(outcome, trainer.state.log_history, numbers, run.recipe)
    if rivals is not None:
        results["eval"] |= rivals.results(outcome)
        verdict = rivals.added_to(verdict, outcome)
    record = replace(
        prepared.record,
        collapse=outcome.collapse,
        verdict=verdict,
        further_scores=() if run.further is None else run.further.computed,
        folds={} if folds is None else folds.facts(),
    )
    splits = run.splits if folds is None else run.splits | {"validation": folds.split}
    done = finish(setup, record, trainer, facts, results, task=task, splits=splits, outcome=outcome, note=card_note)
    if folds is not None:  # a run that is killed before this line, or whose push fails, can be resumed with them
        folds.remove_files()
    return done


def _before_first_step(
    run: ResolvedFinetuning, folds: ModelsOfFolds | None, trainer: BertkitTrainer, has_checkpoint: bool
) -> Rivals | None:
    """Does what precedes the first step of the run's own model, in this order.

    1. Rivals are fitted, to compare the finished run with: linear models of the words of the same rows, and of the
       vectors of the encoder as it was given.
    2. `read_texts_apart`: if the recipe asks for it, the encoder learns from pairs of texts without their labels.
    3. A model of each fold is trained on the rows of the other folds, and predicts those of its own; a resumed run
       finds these in a file. With a warm start it begins with a copy of the weights of step 2, and does step 4 by
       itself. If linear probes predict better than what training makes of them, the run's own model keeps its
       probe: its arguments become those of one step that changes no weight.
    4. `warm_start`: if the recipe asks for it, the encoder learns to give rows of a class similar vectors, and the head
       begins as a linear probe.

    A run that continues from a checkpoint gets the weights of steps 2 and 4 from it, after this function. Models of
    folds need those of 2, if files of folds are missing.

    Returns:
        The rivals; None where there are none.
    """
    rivals, task, rows = None, run.task, run.splits["train"]
    is_warm = run.recipe.is_warm and not has_checkpoint
    # Rivals predict whole rows, as models of folds do. One process has all rows; a teacher's may have no labels.
    if run.teacher is None and run.setup.placement.num_processes == 1 and getattr(task, "can_score_by_folds", False):
        scored = run.splits["validation"] if folds is None else folds
        rivals = rivals_of(task, rows, scored, trainer.model, run.start.tokenizer)  # of the untrained encoder
    if is_warm or (run.recipe.is_warm and folds is not None and not folds.are_done):
        read_texts_apart(trainer, run.recipe, task, rows.examples)
    if folds is not None:
        folds.train(trainer.model)
        folds.keep_probe_if_better(trainer)
    if is_warm:
        warm_start(trainer, run.recipe, task, rows.examples)
    return rivals
