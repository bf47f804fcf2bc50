"""Evaluation of a fine-tuned model: scores, what its task learns from the validation set, and predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from transformers import EvalPrediction

from bertkit.errors import RecipeError
from bertkit.inference.predicted import Outcome, all_scores
from bertkit.inference.verdict import verdict_of
from bertkit.placement.processes import failing_together
from bertkit.progress import is_score, say
from bertkit.run.directory import numeric_metrics
from bertkit.run.in_progress import RunInProgress
from bertkit.tasks.base import Task, task_record
from bertkit.tasks.splits import ColumnsOf, Split, is_scored, splits_to_write
from bertkit.training.heads import divide_logits
from bertkit.training.trainer import BertkitTrainer

if TYPE_CHECKING:
    from bertkit.metrics.adapter import FurtherMetrics

_AGAINST_COLLAPSE = (
    "train longer, or try another train.learning_rate or train.seed, or train.class_weights if most examples have this "
    "label"
)


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


def learn_from_validation(
    task: Task, evaluation: Mapping[str, float], run: RunInProgress, trainer: BertkitTrainer
) -> Task:
    """Returns the task with the settings fitted to the validation set, and saves them with the model.

    A temperature goes into the weights of the last layer, so that whatever loads the model has it.
    """
    task, message = task.learn_from(evaluation)
    if not message:
        return task
    say(message)
    temperature = getattr(task.task, "temperature", None)
    is_in_weights = temperature is not None and divide_logits(trainer.model, temperature)
    if is_in_weights:
        task = task.with_settings(temperature=1.0)
    config = trainer.model.config
    config.bertkit_task = task_record(task)
    with run.files() as folder:
        if is_in_weights:
            trainer.save_weights(folder)
            trainer.forget_outputs()
        elif run.is_main_process:
            config.save_pretrained(folder)
    return task


def validation_outcome(
    task: Task, run: RunInProgress, trainer: BertkitTrainer, splits: Mapping[str, Split], features: Mapping[str, Any]
) -> Outcome:
    """Returns the outputs of the last evaluation, and sets the verdict of the run; a collective call.

    Warns if all predictions are the same.
    """
    outputs, split = trainer.outputs(features["validation"]), splits["validation"]
    columns = ColumnsOf(features["validation"]), ColumnsOf(split.examples)
    training = ColumnsOf(splits["train"].examples)
    source, places = (split.source, split.fingerprint), (split.numbers, split.unit)
    outcome = Outcome(task, outputs, *columns, *source, training, *places)
    if outcome.collapse:
        say(f"warning: {outcome.collapse} on the validation set; {_AGAINST_COLLAPSE}")
        run.record.collapse = outcome.collapse
    run.record.verdict = verdict_of(outcome, trainer.state.log_history, run.recipe)
    return outcome


def score_and_predict_the_rest(
    task: Task,
    run: RunInProgress,
    trainer: BertkitTrainer,
    splits: dict[str, Split],
    features: dict[str, Any],
    evaluation: dict[str, float],
) -> dict[str, float]:
    """Adds the scores of the other validation sets to ``evaluation``; predicts test sets; writes `splits_to_write`."""
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
                suffix = suffix_of(name)
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


def suffix_of(name: str) -> str:
    """Returns what the names of the results of a split without labels end in: nothing for ``test``.

    >>> suffix_of("test"), suffix_of("test_mismatched"), suffix_of("diagnostic")
    ('', '_mismatched', '_diagnostic')
    """
    return name.removeprefix("test") if name.startswith("test") else f"_{name}"
