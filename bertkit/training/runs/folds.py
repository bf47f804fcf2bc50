"""Scores of every row of a small table: each is predicted by a model that is trained on the rows of the other folds.

A validation set of a tenth of 100 rows has ten, of which a score says next to nothing, and which no model learns from.
The models of K folds score all rows, and tell whether training is better than the linear probe that they start from;
then the model of the run is trained on all rows, or keeps its probe. No moment between is chosen: the learning rate has
not fallen there, and a model of few rows that ends so is at times far below the one of some steps later.

Dimension letters: N rows, K folds, C classes, labels or 1 number.
"""

from __future__ import annotations

import io
import shutil
import time
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from transformers import (
    PreTrainedModel,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
    set_seed,
)
from transformers.trainer_utils import SchedulerType

from bertkit.inference.outcome import OUT_OF_FOLD, OUT_OF_FOLD_FILE, Outcome, out_of_fold_rows
from bertkit.recipe.settings import HEAD
from bertkit.runtime.errors import quoted
from bertkit.runtime.files import write_json_lines, write_whole
from bertkit.runtime.progress import counted, duration, inflected, quietly, say
from bertkit.tasks.base import Task
from bertkit.tasks.classification.decisions import best_temperatures, log_loss
from bertkit.tasks.classification.task import ClassificationTask
from bertkit.tasks.folds import fold_of_each, scored_by_folds, units
from bertkit.tasks.splits import ColumnsOf, Split
from bertkit.training.recovery import FOLDS_FOLDER
from bertkit.training.runs.evaluate import scores_of
from bertkit.training.runs.resolve import ResolvedFinetuning
from bertkit.training.trainer import BertkitTrainer
from bertkit.training.warm_start.phases import has_exclusive_classes, warm_start

_DIGITS = 5  # of logits in a file
_MOMENTS = ("no step", "all steps")  # after which the model of a fold predicts


@dataclass
class ModelsOfFolds:
    """The models of folds of a run, and what they predict for the rows that they have not seen.

    Attributes:
        run: the run whose training rows are scored.
        features: these rows as those of `Task.encode`.
        logits: (2, N, C) float32, of both moments, once the models are trained.
        of_rows: fold of each row, (N,) int64.
        split: the training rows as the rows that are scored.
    """

    run: ResolvedFinetuning
    features: Any
    logits: np.ndarray = field(default_factory=lambda: np.empty(0), init=False)

    @property
    def task(self) -> Task:
        """The task, whose settings have the number of folds."""
        return self.run.task

    @property
    def rows(self) -> Split:
        """The training rows."""
        return self.run.splits["train"]

    def __post_init__(self) -> None:
        self.of_rows, copies = fold_of_each(self.task, self.rows.examples)
        self.split = scored_by_folds(self.task, self.rows, copies)

    @property
    def number(self) -> int:
        """K."""
        return int(self.of_rows.max()) + 1

    @property
    def fewest_rows(self) -> int:
        """Rows that the model of the largest fold is trained on."""
        return len(self.of_rows) - int(np.bincount(self.of_rows).max())

    # ---- training ---------------------------------------------------------------------------------------------------

    def _file(self, fold: int) -> Path:
        return self.run.setup.directory.path / FOLDS_FOLDER / f"{fold}.npy"

    def _known(self, fold: int) -> np.ndarray | None:
        """Returns what the model of a fold has predicted before this run was resumed, as `_predictions`; or None."""
        try:
            known = np.load(self._file(fold))
        except (OSError, EOFError, ValueError):  # none yet, or damaged
            return None
        return known if known.shape[:2] == (len(_MOMENTS), np.sum(self.of_rows == fold)) else None

    @property
    def are_done(self) -> bool:
        """Returns whether no model of a fold is left to train."""
        return all(self._known(fold) is not None for fold in range(self.number))

    def train(self, start: PreTrainedModel) -> None:
        """Trains the models of the folds that are not done yet, one after the other, and keeps what they predict.

        Args:
            start: the model whose weights they begin with.
        """
        begun = time.monotonic()
        say(
            f"{self.number} folds: each row is scored by a model that has not seen its label, then one learns all: "
            f"{self.number + 1} models in all; --folds 0 holds rows out instead"
        )
        predicted: dict[int, np.ndarray] = {}
        trained = 0
        for fold in range(self.number):
            known = self._known(fold)
            if known is not None:
                say(f"fold {fold + 1} of {self.number}: was done before")
            else:
                known, written = self._predictions(fold, start), io.BytesIO()
                np.save(written, known)
                self._file(fold).parent.mkdir(exist_ok=True)
                write_whole(self._file(fold), written.getvalue())
                trained += 1
                left = (time.monotonic() - begun) / trained * (self.number - fold)  # with the model of all rows
                say(f"fold {fold + 1} of {self.number}: done, {duration(left)} left with the model of all rows")
            predicted[fold] = known
        self.logits = np.empty((len(_MOMENTS), len(self.of_rows), predicted[0].shape[-1]), dtype=np.float32)
        for fold, logits in predicted.items():
            self.logits[:, self.of_rows == fold] = logits
        set_seed(self.run.recipe.train["seed"])  # the same for a run that was resumed
        if self.run.recipe.train.get(HEAD) == "probe":  # else the two moments are not compared
            rows = counted(len(self.of_rows), "row", form=",")
            when = "after all steps, for which the model is trained"
            if self.best == 0:
                when = "before training, so the model keeps its linear probe"
            say(f"{self.number} folds: {rows} are predicted best {when}")
        _ = self.evaluation  # a main metric that is no score ends the run here

    def _predictions(self, fold: int, start: PreTrainedModel) -> np.ndarray:
        """Trains the model of a fold; returns its outputs for the rows of the fold at both moments, (2, N of it, C)."""
        others, own = np.flatnonzero(self.of_rows != fold), np.flatnonzero(self.of_rows == fold)
        moments = _Moments(self.features.select(own))
        what = f"fold {fold + 1} of {self.number}"
        arguments, recipe = self.run.arguments_of_folds, self.run.recipe
        assert arguments is not None
        with quietly():  # the lines on the model are those of the run's own
            trainer, _ = self.run.build_trainer(self.features.select(others), arguments, what, callbacks=[moments])
        moments.trainer = trainer
        with trainer.speed_ups.applied(trainer.model), quietly():
            if recipe.is_warm:
                trainer.model.load_state_dict(start.state_dict())
                warm_start(trainer, recipe, self.task, self.rows.examples.select(others))
            trainer.train()
        trainer.check_finite(weights=True)
        return np.stack(moments.outputs)

    def keep_probe_if_better(self, trainer: BertkitTrainer) -> None:
        """Keeps the linear probe of the run's own model, if training made those of the folds worse."""
        if self.best == 0:
            # One step at a rate of 0 changes no weight; without a step the Trainer does not train.
            arguments = trainer.args
            arguments.max_steps, arguments.warmup_steps = 1, 1
            arguments.lr_scheduler_type, arguments.lr_scheduler_kwargs = SchedulerType.CONSTANT_WITH_WARMUP, {}

    # ---- what they predict ------------------------------------------------------------------------------------------

    @cached_property
    def labels(self) -> np.ndarray:
        """Labels of the rows: class ids (N,), labels (N, C) or numbers (N,)."""
        return np.asarray(self.features["labels"][:])

    @cached_property
    def losses(self) -> list[float]:
        """Loss of the predictions at each moment: of probabilities after calibration, of numbers the squared error."""
        return [self._loss(logits, is_calibrated=True) for logits in self.logits]

    @cached_property
    def best(self) -> int:
        """The moment with the lower loss, of equal ones the last; always the last without a linear probe to keep."""
        return int(self.run.recipe.train.get(HEAD) != "probe" or self.losses[1] <= self.losses[0])

    def _loss(self, logits: np.ndarray, is_calibrated: bool = False) -> float:
        if np.issubdtype(self.labels.dtype, np.floating) and self.labels.ndim == 1:
            return float(np.mean((logits.reshape(-1) - self.labels) ** 2))
        return log_loss(logits / best_temperatures(logits, self.labels) if is_calibrated else logits, self.labels)

    def _columns(self) -> tuple[Any, Any]:
        return ColumnsOf(self.features), ColumnsOf(self.rows.examples)

    @cached_property
    def evaluation(self) -> dict[str, float]:
        """Returns the scores of the run, ``eval_…``; RecipeError if the main metric is none."""
        logits = self.logits[self.best]
        outcome = Outcome(self.task, logits, *self._columns(), self.split.source)
        scores = {"loss": self._loss(logits), **scores_of(outcome, self.run.further)}
        return {f"eval_{name}": value for name, value in scores.items()} | {"eval_samples": len(self.of_rows)}

    def outcome(self, task: Task) -> Outcome:
        """Returns the predictions for all rows.

        Args:
            task: the task with what it has learnt from them; a temperature of 1 means that it is in the weights.
        """
        logits = self.logits[self.best]
        if isinstance(task, ClassificationTask):
            temperatures = task.temperatures_in_weights(self.evaluation)
            logits = logits if temperatures is None else logits / temperatures
        return Outcome(
            task,
            logits,
            *self._columns(),
            source=self.split.source,
            fingerprint=self.split.fingerprint,
            training=ColumnsOf(self.rows.examples),
            numbers=self.split.numbers,
            unit=self.split.unit,
            scored=OUT_OF_FOLD,
        )

    def write(self, outcome: Outcome) -> None:
        """Writes the predictions for all rows, `OUT_OF_FOLD_FILE`; with ``unit``, if rows depend on each other."""
        logits = np.asarray(outcome.outputs, np.float64).round(_DIGITS).reshape(len(self.of_rows), -1).tolist()
        rows = out_of_fold_rows(outcome, range(len(logits)), self.of_rows.tolist())
        rows = [{**row, "logits": of_row} for row, of_row in zip(rows, logits, strict=True)]
        numbers = units(self.task, self.rows.examples).tolist()
        if len(set(numbers)) < len(numbers):
            rows = [{**row, "unit": number} for row, number in zip(rows, numbers, strict=True)]
        write_json_lines(self.run.setup.directory.path / OUT_OF_FOLD_FILE, rows)

    def remove_files(self) -> None:
        """Removes what a resumed run would read in place of training these models again."""
        shutil.rmtree(self.run.setup.directory.path / FOLDS_FOLDER, ignore_errors=True)

    def facts(self) -> dict[str, Any]:
        """Returns how the predictions were made, for ``run.json``."""
        return {
            "folds": self.number,
            "losses": dict(zip(_MOMENTS, self.losses, strict=True)),
            "trained_for": _MOMENTS[self.best],
        }

    def notes(self) -> list[str]:
        """Returns notes on the scored rows, and prints them."""
        notes = list(self.split.notes)
        classes = self.task.settings.label_names if has_exclusive_classes(self.task) else []
        in_one_fold = [
            name for number, name in enumerate(classes) if len(np.unique(self.of_rows[self.labels == number])) == 1
        ]
        if number := len(in_one_fold):
            notes.append(
                f"{counted(number, 'class', 'classes')} ({quoted(in_one_fold)}) "
                f"{inflected(number, 'has all its', 'have all their')} rows in one fold, where no model has seen "
                f"{inflected(number, 'it', 'them')}: all count as wrong"
            )
        for note in notes:
            say(f"validation: {note}")
        return notes


class _Moments(TrainerCallback):
    """Keeps the outputs of a model before its first and after its last step.

    Attributes:
        outputs: one array for each moment.
    """

    trainer: BertkitTrainer

    def __init__(self, rows: Any):
        self.outputs: list[np.ndarray] = []
        self._rows = rows

    def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
        self._keep()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if state.global_step == state.max_steps:
            self._keep()

    def _keep(self) -> None:
        self.outputs.append(np.asarray(self.trainer.predict(self._rows).predictions))
