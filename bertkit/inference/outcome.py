"""Outcomes of a model for labelled examples, and what inference knows of each kind of task: `task_inference`."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bertkit.data.tables.table import copies_in_words, same_texts
from bertkit.inference.facts import Facts, collapse_of, decision, score_in_words
from bertkit.metrics import score_limits
from bertkit.metrics.intervals import MeanDecomposition, mean_terms, score_interval
from bertkit.runtime.errors import DataError, RecipeError
from bertkit.runtime.json_text import dumps
from bertkit.runtime.progress import counted
from bertkit.tasks.base import Outputs, PerExampleTask, Task, per_example, texts_of
from bertkit.tasks.registry import by_kind_of_task
from bertkit.tasks.splits import Columns, number_in_source

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from bertkit.data.tables import Table
    from bertkit.metrics.adapter import FurtherMetrics

_TRIED = 20  # examples
_CORRELATIONS = ("spearmanr", "pearson", "combined_score")


EARLIER_METHODS = {"repeated": "columns_beside", "in_form": "to_form", "highlighted": "highlight"}


class TaskInference:
    """What inference knows of a kind of task, for ``bertkit predict`` and ``compare``: inputs, forms of predictions,
    and scores as functions of means. By default it reads lines and tables, repeats all columns of the input, and has
    scores that are means over single examples, or else are computed again without each of many groups of examples.

    Attributes:
        column_settings: settings that name columns, which another table may have under other names.
        forms: names of the forms of other tools in which predictions can be written, see `to_form`.
        reads_neighbours: whether the prediction for a table row also depends on neighbouring rows.
        leaves_out_labels: whether predictions hold the probabilities of some labels only, which differ between rows.
        example: what an example is called, in the singular.
    """

    def __init_subclass__(cls, **kwargs: Any):
        """Gives the methods of other packages that have earlier names their present ones."""
        super().__init_subclass__(**kwargs)
        for earlier, name in EARLIER_METHODS.items():
            if earlier in cls.__dict__ and name not in cls.__dict__:
                setattr(cls, name, cls.__dict__[earlier])

    column_settings: ClassVar[frozenset[str]] = frozenset()
    forms: Sequence[str] = ()
    reads_neighbours: bool = False
    leaves_out_labels: bool = False
    example: str = "example"

    def __init__(self, task: Task):
        self.task = task

    @property
    def needs_transformers(self) -> bool:
        """Returns whether `Task.prepare` needs a model of transformers, and not just the layer of its head."""
        return type(self.task).prepare is not Task.prepare

    def with_columns(self, columns: Mapping[str, Any]) -> Task:
        """Returns the task that reads other columns of tables, given by the names of the settings.

        Raises:
            RecipeError: the task always reads the same columns, or has no such setting, or a name is impossible.
        """
        unknown = columns.keys() - self.column_settings
        if unknown:
            why = "not a column" if self.column_settings else "the columns are always the same"
            raise RecipeError(f"task.{min(unknown)}: {why} of {self.task.name}; remove it")
        try:
            return self.task.with_settings(**columns)
        except ValueError as error:
            raise RecipeError(f"task.{error}") from error

    def with_all_probabilities(self) -> Task:
        """Returns the task with predictions that hold the probability of every label, however many there are."""
        return self.task

    def with_threshold(self, threshold: float) -> Task:
        """Returns the task with predictions of a label from this probability on.

        Raises:
            RecipeError: the task has no thresholds, or the value is not valid.
        """
        raise RecipeError(f"--threshold: {self.task.name} has no thresholds of labels; remove it")

    def read_file(self, path: Path) -> Table | None:
        """Reads inputs from a file in a format of the task into memory; DataError if the file cannot be read.

        Returns:
            A table for `Task.columns_of`; ``None`` if the file name does not denote such a format: the file is then
            read as a table (``.csv`` etc.), or as one input per line.
        """
        return None

    def read_fields(self, fields: Mapping[str, str | Sequence[str]]) -> dict[str, list[str]]:
        """Converts texts given by name (a question, its context) to columns for `Task.encode`.

        Raises:
            DataError: the task has no fields of these names, or the texts do not match.
        """
        raise DataError(f"{self.task.name}: expected texts only, without {' or '.join(fields)}")

    def cut_texts(self, examples: Columns, tokenizer: PreTrainedTokenizerBase) -> Columns:
        """Returns examples whose texts are cut to what `Task.encode` keeps of them, by default as they are.

        These are encoded instead of the given ones, since to tokenize a text of megabytes takes seconds. The inputs are
        the same, and only ``full_length`` is smaller. See `bertkit.tasks.windows`.
        """
        return examples

    def columns_beside(self, columns: Columns) -> Columns:
        """Selects the input columns that are written with the predictions."""
        return columns

    def format_prediction(self, prediction: Mapping[str, Any]) -> str:
        """Formats a prediction of `Task.decode` as a line for a terminal, without the input; by default as JSON."""
        return dumps(prediction)

    def to_form(self, form: str, row: Mapping[str, Any]) -> dict[str, Any]:
        """Converts an input with its prediction to the form of another tool.

        Args:
            form: one of ``forms``.
            row: the columns of `columns_beside`, and the prediction.
        """
        raise NotImplementedError

    def highlight(self, row: Mapping[str, Any]) -> str | None:
        """Formats an input with its prediction marked in it, in terminal colours; ``None`` without such a view."""
        return None

    def terms(self, name: str, predictions: Sequence[Any], references: Sequence[Any]) -> MeanDecomposition | None:
        """Returns a metric as a function of means over the examples, so that its interval takes little time.

        Args:
            name: the metric, a key of `PerExampleTask.compute_metrics`.
            predictions, references: as for `PerExampleTask.compute_metrics`.

        Returns:
            The terms, by default of a metric that is the mean of its values for each example alone; None if there is no
            such form: then the metric is computed again without each of many groups of examples.
        """
        measure = per_example(self.task).compute_metrics
        return mean_of_examples(lambda *sides: float(measure(*sides)[name]), predictions, references)

    def count_units(self, name: str, predictions: Sequence[Any], references: Sequence[Any]) -> str:
        """Returns what a metric is a score of, with its number: ``10 queries``; by default the examples.

        Args:
            name: the metric, a key of `PerExampleTask.compute_metrics`.
            predictions, references: as for `PerExampleTask.compute_metrics`.
        """
        return counted(len(references), self.example, form=",")

    def facts(self, outcome: Outcome) -> Facts:
        """Returns what the predictions for labelled examples say, for the verdict; by default the main metric."""
        if not isinstance(self.task, PerExampleTask):  # it scores no single examples: no interval can be computed
            number, name = len(next(iter(outcome.examples.values()), ())), self.task.main_metric
            scores = self.task.score(outcome.outputs, outcome.features, outcome.examples) if number else {}
            if not math.isfinite(scores.get(name, math.nan)):
                return Facts()
            return Facts((f"{name} {scores[name]:.4f} on {counted(number, 'example', form=',')}.",))
        sides = outcome.predictions_and_references()
        if not len(sides[1]):
            return Facts()
        scores = self.task.compute_metrics(*sides)
        name = self.task.main_metric if self.task.main_metric in scores else next(iter(scores))
        if not math.isfinite(scores[name]):
            return Facts()
        words = score_in_words(name, float(scores[name]), outcome.interval(name))
        return Facts((f"{words} on {self.count_units(name, *sides)}.",))

    def for_metrics(self, predictions: Any, references: Any) -> tuple[Any, Any]:
        """Returns predictions and references in the form of metrics of the evaluate library.

        Args:
            predictions, references: as of `Task.predictions_and_references`, whose form is the default.
        """
        return predictions, references

    def to_labels(self, values: Sequence[Any]) -> list[Any]:
        """Converts predictions or references as `PerExampleTask.to_labels`, to be shown and compared one by one."""
        return per_example(self.task).to_labels(values)

    def collapse(self, outputs: Outputs, features: Columns, examples: Columns) -> str | None:
        """Describes the predictions of a model that predicts the same for all examples, as `collapse_of`."""
        if not isinstance(self.task, PerExampleTask):
            return collapse_of(map(decision, self.task.decode(outputs, features, examples)))
        sides = map(self.task.to_labels, self.task.predictions_and_references(outputs, features, examples))
        return collapse_of(*(map(decision, each) for each in sides))


@by_kind_of_task
def task_inference(task: Task) -> TaskInference:
    """Returns what inference knows of the kind of a task."""
    return TaskInference(task)


Predicted, predicted = TaskInference, task_inference
"""Their earlier names, in ``bertkit.inference.predicted``, which packages with tasks of their own import."""


VALIDATION_SET = "the validation set"
OUT_OF_FOLD = "all rows, each by a model that has not seen its label"

OUT_OF_FOLD_FILE = "out_of_fold.jsonl"
"""File of a run with the predictions for all rows, each by a model that has not seen its label."""


@dataclass(frozen=True)
class Outcome:
    """Outputs of a model for the validation set of its run, or of the models of its folds for all rows.

    Attributes:
        task: task of the checkpoint.
        outputs, features, examples: as for `Task.decode`.
        source: file or Hub data set of the examples.
        fingerprint: digest of the whole split.
        training: the training examples; None if they were not read.
        numbers, unit: as of `bertkit.tasks.splits.Split`.
        scored: what the examples are.
        results: those of the run by their keys, such as the temperature that its weights are divided by, if read.
    """

    task: Task
    outputs: Outputs
    features: Columns
    examples: Columns
    source: str
    fingerprint: str = ""
    training: Columns | None = None
    numbers: Sequence[int] | Sequence[str] | None = None
    unit: str = "row"
    scored: str = VALIDATION_SET
    results: Mapping[str, float] = field(default_factory=dict)

    def number(self, row: int) -> int | str:
        """Returns the number of an example in the source, or the path of its file; ``row`` counts from 0."""
        return number_in_source(self.numbers, row)

    def scores(self, further: FurtherMetrics | None = None) -> dict[str, float]:
        """Computes the scores of the task, and those of further metrics; RecipeError if a further metric fails."""
        scores = self.task.score(self.outputs, self.features, self.examples)
        if further is None:
            return scores
        return scores | further.scores(
            *task_inference(self.task).for_metrics(*self.predictions_and_references()), scores
        )

    def facts(self) -> Facts:
        """Returns what the predictions say, for the verdict."""
        return task_inference(self.task).facts(self)

    def interval(self, name: str, is_main: bool = True) -> tuple[float, float] | None:
        """Returns the 95 % interval of a score over the examples, of which copies count once; None without one.

        Args:
            name: the score; one that is no key of `PerExampleTask.compute_metrics` has no interval.
            is_main: compute it again without each of many groups of examples if it is no function of means; for other
                metrics that is done for correlations only, whose values are few numbers.
        """
        if name not in self.units:
            return None
        sides = self.predictions_and_references()
        terms = task_inference(self.task).terms(name, *sides)
        if terms is None and not is_main and name not in _CORRELATIONS:
            return None
        scores = per_example(self.task).compute_metrics
        # Else the terms are of queries, each of several examples.
        texts = self.same_texts if terms is None or len(terms.values) == len(sides[1]) else None
        bounds = score_limits(name, scores(*sides)) if terms is None else terms.bounds
        return score_interval(*sides, lambda *some: float(scores(*some)[name]), terms, texts, bounds)

    @property
    def number_of_inputs(self) -> int:
        """Number of inputs of the model; a long text may have several."""
        return len(self.outputs[0] if isinstance(self.outputs, tuple) else self.outputs)

    def decoded(self) -> list[dict[str, Any]]:
        """Returns the predictions, one per example."""
        return self.task.decode(self.outputs, self.features, self.examples)

    def predictions_and_references(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """Returns predictions and references in the form of the metric, as the method of the task; computed once."""
        return self._predictions_and_references

    @cached_property
    def _predictions_and_references(self) -> tuple[Sequence[Any], Sequence[Any]]:
        return per_example(self.task).predictions_and_references(self.outputs, self.features, self.examples)

    @cached_property
    def units(self) -> dict[str, str]:
        """Returns metric → what it is a score of, with its number; none for a task that scores no single examples."""
        if not isinstance(self.task, PerExampleTask):
            return {}
        sides = self.predictions_and_references()
        return {name: task_inference(self.task).count_units(name, *sides) for name in self.task.compute_metrics(*sides)}

    @cached_property
    def collapse(self) -> str | None:
        """Description of the predictions of a collapsed model, as "all predictions are 'good'"; None for others."""
        return task_inference(self.task).collapse(self.outputs, self.features, self.examples)

    @cached_property
    def same_texts(self) -> np.ndarray:
        """Number of the text of each example, (N,) int64: the same for copies, which intervals count once."""
        texts = same_texts(zip(*texts_of(self.task, self.examples).values(), strict=True))
        return texts if len(texts) else np.arange(len(next(iter(self.examples.values()), ())))

    @property
    def copies(self) -> str:
        """Sentence on the examples that have the text of an earlier one; empty if there are none."""
        return copies_in_words(self.same_texts, "example", "intervals and tests count a text once")

    def digests(self) -> list[str]:
        """Returns a digest of each example, by which the same example in another run is recognized."""
        columns = [self.examples[name] for name in sorted(self.examples)]
        return [hashlib.sha256(dumps(row).encode()).hexdigest()[:16] for row in zip(*columns, strict=True)]


def out_of_fold_rows(outcome: Outcome, indices: Sequence[int], folds: Sequence[int]) -> list[dict[str, Any]]:
    """Returns the rows of `OUT_OF_FOLD_FILE`: number, place in the source, fold, label and prediction of each example.

    Args:
        outcome: predictions by models that have not seen the examples.
        indices: number of each example in the training set, from 0.
        folds: fold of each example.
    """
    gold = per_example(outcome.task).to_labels(outcome.predictions_and_references()[1])
    return [
        {"index": index, outcome.unit: outcome.number(row), "fold": fold, "gold": reference, **prediction}
        # data.max_eval_samples may limit a fold to its first examples.
        for row, (index, fold, reference, prediction) in enumerate(
            zip(indices, folds, gold, outcome.decoded(), strict=False)
        )
    ]


def further_metrics(names: Sequence[str]) -> FurtherMetrics | None:
    """Loads metrics as those of ``task.metrics``; None for none; RecipeError if one cannot be loaded."""
    if not names:
        return None
    from bertkit.metrics.adapter import FurtherMetrics

    return FurtherMetrics(names)


def mean_of_examples(
    measure: Callable[..., float], predictions: Sequence[Any], references: Sequence[Any]
) -> MeanDecomposition | None:
    """Returns the terms of a metric that is the mean of its values for each example alone; None for another one.

    >>> mean_of_examples(lambda a, b: sum(map(int.__eq__, a, b)) / len(a), [1, 2, 3], [1, 2, 4]).values.ravel().tolist()
    [1.0, 1.0, 0.0]
    >>> mean_of_examples(lambda a, b: max(a), [1, 2, 3], [1, 2, 4])
    """
    number = len(references)
    values: list[float] = []
    with suppress(Exception), warnings.catch_warnings():  # code of another package, which may refuse a single example
        warnings.simplefilter("ignore")
        for size in (min(number, _TRIED), number):  # most other metrics are told by the first examples
            rows = range(len(values), size)
            values += [measure(predictions[row : row + 1], references[row : row + 1]) for row in rows]
            if not math.isclose(np.mean(values), measure(predictions[:size], references[:size]), abs_tol=1e-9):
                return None
        is_share = 0 <= min(values) <= max(values) <= 1
        terms = mean_terms(values)
        return terms if is_share else MeanDecomposition(terms.values, lambda mean: mean)
    return None
