"""Evaluation of a fine-tuned model: scores, what its task learns from the validation set, verdict, and predictions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertkit.inference.facts import NO_BETTER, Facts
from bertkit.inference.outcome import Outcome
from bertkit.inference.verdict import Proposal, Verdict, sentence_on_losses, sentences_on
from bertkit.recipe.load import Recipe
from bertkit.recipe.settings import has_steps, most_epochs
from bertkit.runtime.errors import RecipeError
from bertkit.runtime.placement.processes import failing_together, is_main_process
from bertkit.runtime.progress import is_score, say, without_library_bars
from bertkit.tasks.base import Outputs, Task, task_record
from bertkit.tasks.registry import command_of
from bertkit.tasks.splits import ColumnsOf, Split, is_scored, splits_to_write, suffix_of
from bertkit.training.runs.directory import RunDirectory
from bertkit.training.runs.record import Results, finite_numbers
from bertkit.training.runs.resolve import needing_validation_set
from bertkit.training.trainer import BertkitTrainer, Scores
from bertkit.training.warm_start.heads import divide_logits

if TYPE_CHECKING:
    from bertkit.metrics.adapter import FurtherMetrics

_FEW_STEPS = 100  # below which a new head is often undertrained, as in the rule few-steps of checks
_HIGHEST_RATE = 2e-4  # that is proposed
_SAFE_RATE = 5e-5  # the highest of BERT §A.3, at most proposed after a collapse


def scores_of(outcome: Outcome, further: FurtherMetrics | None) -> dict[str, float]:
    """Computes the scores of outputs, and those of the metrics of ``task.metrics``.

    Raises:
        RecipeError: the main metric is not among them.
    """
    main = outcome.task.main_metric
    scores = outcome.scores(further)
    if main not in scores:
        raise RecipeError(
            f"task.main_metric: {main!r} is not among the scores of {outcome.source}; expected one of "
            f"{', '.join(scores)}"
        )
    return scores


def scorer(task: Task, features: Any, split: Split | None, further: FurtherMetrics | None) -> Scores:
    """Returns the function by which a trainer scores the validation set; `score_split` scores other sets.

    Args:
        task: the task, before it has learned from the validation set.
        features: rows of `Task.encode` of the validation set.
        split: the validation set; None without one.
        further: as for `scores_of`.
    """

    def scores(dataset: Any, outputs: Outputs) -> dict[str, float]:
        if split is None or dataset is not features:
            return {}
        return scores_of(Outcome(task, outputs, ColumnsOf(dataset), ColumnsOf(split.examples), split.source), further)

    return scores


def fit_decisions(
    task: Task, evaluation: Mapping[str, float], trainer: BertkitTrainer, directory: RunDirectory
) -> Task:
    """Returns the task with the settings fitted to the validation set, and saves them with the model.

    Temperatures go into the weights of the last layer, so that whatever loads the model has them.
    """
    task, message = task.learn_from(evaluation)
    if not message:
        return task
    say(message)
    temperatures = getattr(task, "temperatures", None)
    is_in_weights = temperatures is not None and divide_logits(trainer.model, temperatures)
    if is_in_weights:
        task = task.with_settings(temperature=1.0)
    config = trainer.model.config
    config.bertkit_task = task_record(task)
    with directory.files() as folder, without_library_bars():
        if is_in_weights:
            trainer.save_weights(folder)
            trainer.forget_outputs()
        elif is_main_process():
            config.save_pretrained(folder)
    return task


def split_outcome(
    task: Task, trainer: BertkitTrainer, split: Split, inputs: Any, training: Split | None = None
) -> Outcome:
    """Returns the outputs for a split; those of the last evaluation if it was on its inputs. A collective call.

    Args:
        task: the task with what it has learnt from the validation set.
        trainer: the trainer of the model.
        split: the examples.
        inputs: rows of `Task.encode` of them.
        training: the training set, for the verdict.
    """
    outputs, columns = trainer.outputs(inputs), (ColumnsOf(inputs), ColumnsOf(split.examples))
    known = None if training is None else ColumnsOf(training.examples)
    return Outcome(task, outputs, *columns, split.source, split.fingerprint, known, split.numbers, split.unit)


def warn_of_collapse(outcome: Outcome, recipe: Recipe) -> None:
    """Prints a warning if all predictions of a run of the recipe are the same."""
    if outcome.collapse:
        has_classes = getattr(outcome.task.settings, "label_names", ())
        can_weight = has_classes and not (recipe.is_weighted or recipe.has_teacher)
        weights = ", or train.class_weights if most examples have this label" if can_weight else ""
        cure = f"train longer, or try another train.learning_rate or train.seed{weights}"
        say(f"warning: {outcome.collapse} on {outcome.scored}; {cure}")


# ---- verdict --------------------------------------------------------------------------------------------------------


def verdict_on_run(
    outcome: Outcome, history: Sequence[Mapping[str, Any]], results: Mapping[str, float], recipe: Recipe
) -> Verdict:
    """Returns the verdict on a finished run, with what to try next.

    Args:
        outcome: the outputs for the validation set.
        history: the entries that the Trainer logged, in order.
        results: all results of the run.
        recipe: the recipe of the run.
    """
    facts, falling = outcome.facts(), sentence_on_losses(outcome, history)
    return Verdict(
        sentences_on(facts, outcome, history, results),
        propose(facts, bool(falling), bool(outcome.collapse), recipe, history),
    )


def propose(
    facts: Facts, is_falling: bool, has_collapsed: bool, recipe: Recipe, history: Sequence[Mapping[str, Any]] = ()
) -> Proposal | None:
    """Returns what to try: longer, at another rate, with weights of the classes, or with folds; None for nothing.

    The causes are tried in the order of how much they hide: a model that has learnt little says nothing of its classes,
    and one that has not fitted its training examples nothing of rare ones. Weights are proposed only where they differ.

    Args:
        facts: what the predictions for the validation set say.
        is_falling: the validation loss still falls.
        has_collapsed: all predictions are the same.
        recipe: the recipe of the run.
        history: the entries that the Trainer logged, in order; without it, the length of an epoch is unknown.
    """
    train, command = recipe.train, command_of(recipe.kind)
    rate = float(train.get("learning_rate", 5e-5))
    # Models of folds have found for how long to train.
    longer = () if recipe.data.scores_all_rows else _longer(train, history)
    higher = f"--learning-rate {float(f'{3 * rate:.2g}'):g}"
    can_be_higher = 3 * rate <= _HIGHEST_RATE
    steps = max((int(entry.get("step", 0)) for entry in history), default=0)
    is_poor = has_collapsed or facts.lacks_classes or NO_BETTER in facts.sentences
    if facts.learnt_little and can_be_higher:
        return Proposal("longer and at a higher rate" if longer else "at a higher rate", command, (*longer, higher))
    if is_poor and 0 < steps < _FEW_STEPS and longer:
        return Proposal("longer", command, longer)
    if has_collapsed and not facts.learnt_little:
        lower = f"--learning-rate {min(rate / 2, _SAFE_RATE):g}"
        return Proposal("longer and at a lower rate" if longer else "at a lower rate", command, (*longer, lower))
    if is_falling or facts.learnt_little or facts.is_underfit:
        if longer:
            return Proposal("longer", command, longer)
        if can_be_higher and not is_falling:
            return Proposal("at a higher rate", command, (higher,))
    elif facts.lacks_rare and hasattr(recipe.task, "label_names") and not (recipe.is_weighted or recipe.has_teacher):
        return Proposal("with more weight for rare classes", command, ("--class-weights balanced",))
    files = [getattr(recipe.data, f"{name}_file", None) for name in ("train", "validation")]
    is_split = files[0] is not None and files[1] is None and recipe.data.folds is None
    if facts.is_wide and is_split and not needing_validation_set(recipe):
        return Proposal("scores of all rows, by cross-validation", command, ("--folds 5",), "folds")
    return None


def _longer(train: Mapping[str, Any], history: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Returns the option of a run of twice the length, but of no more than `most_epochs`; none if it has these."""
    lengths = [entry["step"] / entry["epoch"] for entry in history if entry.get("step") and entry.get("epoch")]
    of_epoch = round(lengths[-1]) if lengths else None
    most = math.inf if not of_epoch else most_epochs(of_epoch)
    if has_steps(train):
        option, now, limit = "--max-steps", float(train["max_steps"]), most * (of_epoch or 1)
    else:
        option, now, limit = "--num-train-epochs", float(train.get("num_train_epochs", 3)), most
    longer = min(2 * now, limit)
    return (f"{option} {longer:.15g}",) if longer > now else ()


# ---- predictions ----------------------------------------------------------------------------------------------------


def score_other_splits(
    task: Task,
    trainer: BertkitTrainer,
    splits: Mapping[str, Split],
    features: dict[str, Any],
    further: FurtherMetrics | None,
    folder: Path,
) -> Results:
    """Scores the validation sets but the first, predicts the test sets, and writes `splits_to_write`.

    Returns:
        Results of these sets: ``eval`` and ``predict``, if there are any.
    """
    results: Results = {"eval": {}, "predict": {}}
    for name, inputs in features.items():
        if name == "train":
            continue
        prefix, is_other = "eval" if is_scored(name) else "predict", name != "validation"
        metrics = trainer.predict(inputs, metric_key_prefix=prefix).metrics if is_other else {}
        outcome = split_outcome(task, trainer, splits[name], inputs)
        if is_other:
            results[prefix] |= score_split(outcome, name, further, metrics)
        if name in splits_to_write(task, list(features)):
            with failing_together():
                if is_main_process():
                    write_split(outcome, name, folder)
    return {file: finite_numbers(numbers) for file, numbers in results.items() if numbers}


def score_split(
    outcome: Outcome, name: str, further: FurtherMetrics | None = None, metrics: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Returns the results of a split beside ``validation`` under the names that they have in files.

    A score that is not defined is left out with a warning, and so are those of ``task.metrics`` if one of these metrics
    fails: that is no reason to lose a run that is trained.

    Args:
        outcome: the outputs for the split; without labels it has no scores.
        name: the split.
        further: the metrics of ``task.metrics``.
        metrics: its loss and time, ``eval_…`` or ``predict_…``; of a validation set the loss is kept.
    """
    prefix, scores = "eval" if is_scored(name) else "predict", {}
    if set(outcome.task.label_columns) <= set(outcome.features):
        try:
            scores = outcome.scores(further)
        except RecipeError as error:  # of a metric that cannot score these rows, such as rows of one class
            say(f"warning: {name}: scores of task.metrics left out: {error}")
            scores = outcome.scores()
    if undefined := [key for key, value in scores.items() if not math.isfinite(value)]:
        say(
            f"warning: {name}: {' and '.join(undefined)} left out: not defined for these rows, as a correlation is not "
            "where all labels, or all predictions, are the same"
        )
        scores = {key: value for key, value in scores.items() if key not in undefined}
    results = {**(metrics or {}), **{f"{prefix}_{key}": value for key, value in scores.items()}}
    if is_scored(name):
        suffix = name.removeprefix("validation")
        return {f"{key}{suffix}": value for key, value in results.items() if is_score(key)}
    suffix = suffix_of(name)
    of_split = {f"{key}{suffix}": value for key, value in results.items()}
    return {**of_split, f"predict_samples{suffix}": outcome.number_of_inputs}


def write_split(outcome: Outcome, name: str, folder: Path) -> None:
    """Writes the predictions of a split, and says where."""
    place = outcome.task.write_predictions(name, outcome.outputs, outcome.features, outcome.examples, folder)
    say(f"{name} predictions: {place}")
