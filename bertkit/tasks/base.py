"""Base class of fine-tuning tasks: load → encode → (model) → decode → score.

Training, evaluation and prediction all call the same ``encode`` and ``decode``; there is no second preprocessing.
A task is one subclass of `Task` that `bertkit.tasks.registry` knows by its kind, the name in a recipe's ``task.kind``.
"""

from __future__ import annotations

import copy
import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from functools import singledispatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

from bertkit.runtime.errors import DataError
from bertkit.runtime.files import write_json_lines
from bertkit.tasks.splits import Columns, FineTuningData, Split, is_labelled, suffix_of

if TYPE_CHECKING:
    from datasets import Dataset
    from torch import Tensor, nn
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from bertkit.data.tables import Table


Outputs = np.ndarray | tuple[np.ndarray, ...]
"""Model outputs for N inputs: one array (N, …), or several, such as start and end scores. Where inputs have different
numbers of tokens S, arrays (N, S, …) are padded with -100 beyond the tokens of an input."""

AnyTask = TypeVar("AnyTask", bound="Task")


class Task(ABC):
    """Abstract base class of fine-tuning tasks.

    Loading and predicting do not change a task: `load` returns a task with the values learnt from its data.

    The name of a split determines its use: ``train`` is trained on; ``validation`` and names with this prefix are
    scored, with the rest of the name as the suffix of their metrics (``validation_mm`` → ``eval_accuracy_mm``); all
    others are predicted.

    Attributes:
        kind: the name in a recipe's ``task.kind``, under which the task is registered.
        Settings: the dataclass of the recipe's ``task`` block. Its values, without ``metrics``, are kept in
            ``config.json``.
        data_settings: the dataclass of the recipe's ``data`` block; its class attribute ``kept`` lists the values that
            every checkpoint stores.
        recipe: the YAML file with the default values of a task from another package; ``None`` uses the dataclass
            defaults. Recipes of bertkit's own tasks are in ``recipes/``.
        head: the name of the model class in ``bertkit.model.modeling_bert``, or a class of the package of the task: a
            subclass of ``PreTrainedModel``, such as ``bertkit.model.modeling_bert.BertPreTrainedModel``.
        pipeline_tag: the Hub's name of the checkpoint's task.
        label_columns: the tensors of a batch that hold labels. -100 (integers) and NaN (floats) mark a missing label.
        splits: the names of all supported splits.
        main_metric: the key of `score` by which checkpoints are compared; larger is better.
        joins_batch: `loss` compares the examples of a batch with each other, so that a global batch must be computed at
            once: in one process, without accumulation.
        settings: the values of the ``task`` block, of which `load` replaces those that the data determine.
        data: the values of the ``data`` block.
    """

    kind: ClassVar[str]
    Settings: ClassVar[type[Any]]
    data_settings: ClassVar[type[FineTuningData]]
    recipe: ClassVar[Path | None] = None
    head: ClassVar[str | type[PreTrainedModel]]
    pipeline_tag: ClassVar[str]
    label_columns: ClassVar[tuple[str, ...]] = ("labels",)
    splits: Sequence[str] = ("train", "validation", "test")
    main_metric: str
    joins_batch: bool = False
    _may_lack_labels: Collection[str] = ()  # splits, see `with_optional_labels`

    def __init__(self, settings: Any, data: FineTuningData):
        self.settings = settings
        self.data = data

    def __init_subclass__(cls, **kwargs: Any):
        """Gives tasks of other packages the earlier names: ``settings`` of the class, and ``task`` of its values."""
        super().__init_subclass__(**kwargs)
        if cls.__module__.partition(".")[0] == "bertkit":
            return
        if isinstance(cls.__dict__.get("settings"), type):
            cls.Settings = cls.__dict__["settings"]
        if not hasattr(cls, "task"):
            cls.task = property(  # type: ignore[attr-defined]
                lambda self: self.settings, lambda self, values: setattr(self, "settings", values)
            )

    def with_settings(self, **changes: Any) -> Self:
        """Returns a copy of the task with changed settings."""
        changed = copy.copy(self)
        changed.settings = dataclasses.replace(self.settings, **changes)
        return changed

    def _needs_labels(self, split: str) -> bool:
        """Returns whether the split of this name must have labels."""
        return is_labelled(split) and split not in self._may_lack_labels

    @property
    def name(self) -> str:
        """Name of the task in results and in the model card: ``task.name`` if it is set, else the kind."""
        return getattr(self.settings, "name", "") or self.kind

    @abstractmethod
    def load(self, splits: Sequence[str] | None = None) -> tuple[Self, dict[str, Split]]:
        """Reads splits of the data set.

        Args:
            splits: names of the splits; ``None`` reads all.

        Returns:
            A task with the values learnt from the data, such as the class names, and the splits by name. A split that
            is missing from the data set is absent.

        Raises:
            DataError: something is missing or wrong; the message names file and line.
        """

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Returns the fields of ``BertConfig`` that the task determines (``num_labels``, ``id2label``, …)."""

    @abstractmethod
    def encode(self, examples: Columns, tokenizer: PreTrainedTokenizerBase) -> dict[str, list[Any]]:
        """Converts columns of examples to unpadded model inputs.

        Returns:
            ``input_ids``, ``attention_mask``, ``token_type_ids``; ``labels`` where the examples have them;
            ``length`` (tokens after truncation) and ``full_length`` (tokens before it). Either each example is one row,
            or it is one or more rows (windows), in order; then ``example`` holds the example index of each row, from 0.
        """

    def collate(
        self, rows: Sequence[Mapping[str, Any]], tokenizer: PreTrainedTokenizerBase, inputs: Sequence[str]
    ) -> dict[str, Tensor]:
        """Collates rows of `encode` into a batch, padded to its longest input.

        Args:
            rows: B examples.
            tokenizer: used for padding.
            inputs: the arguments that the model accepts among ``input_ids``, ``attention_mask`` and ``token_type_ids``.

        Returns:
            The inputs, (B, S) int64, and ``labels`` if the rows have them. The first entry is a tensor of B rows, since
            transformers' Trainer takes the batch size from it.
        """
        return labels_of(rows) | dict(padded(rows, tokenizer, inputs))

    def prepare(self, model: PreTrainedModel | nn.Module) -> None:
        """Adapts a loaded model to the additional inputs that `collate` returns; by default does nothing."""
        return

    def count(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Counts the labelled items of a batch of `collate`, 0-d int64: the denominator of the mean of `loss`.

        Integer labels count unless they are `IGNORE_INDEX`, floating-point labels unless they are NaN.
        """
        from bertkit.model.labels_bert import IGNORE_INDEX

        labels = batch["labels"]
        return (~labels.isnan() if labels.is_floating_point() else labels.ne(IGNORE_INDEX)).sum()

    def loss(self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor], count: Tensor) -> Tensor:
        """Computes the loss of a batch, 0-d, in training and evaluation: a sum over its items, divided by ``count``.

        By default that of ``logits`` and ``labels``: cross-entropy for class ids; for floats the squared error of one
        number, the binary cross-entropy of several, or what the ``problem_type`` of `config` selects.

        Args:
            outputs: outputs of the model, which does not get the labels.
            batch: a batch of `collate`.
            count: labelled items in the global batch, the sum of `count` over it.
        """
        from bertkit.model.loss_bert import loss_of_problem

        logits, labels = outputs["logits"], batch["labels"]
        kind = "single_label_classification"
        if labels.is_floating_point():
            is_number = logits.shape[-1] == 1
            inferred = "regression" if is_number else "multi_label_classification"
            kind = self.config().get("problem_type") or inferred
        return loss_of_problem(kind, logits, labels, count)

    @abstractmethod
    def decode(self, outputs: Outputs, features: Columns, examples: Columns) -> list[dict[str, Any]]:
        """Converts model outputs to predictions.

        Args:
            outputs: model outputs for N inputs.
            features: the rows that `encode` returned for these inputs.
            examples: the examples that were encoded.

        Returns:
            One prediction per example.
        """

    @abstractmethod
    def score(self, outputs: Outputs, features: Columns, examples: Columns) -> dict[str, float]:
        """Computes the task's metrics, named as in the evaluate library; takes the same arguments as `decode`."""

    def learn_from(self, evaluation: Mapping[str, float]) -> tuple[Self, str | None]:
        """Derives settings for the checkpoint from the validation results, ``eval_…``.

        Returns:
            The updated task, and a message that describes the change; ``None`` if there is none.
        """
        return self, None

    def read_input(self, lines: Sequence[str], first: int = 1) -> dict[str, list[Any]]:
        """Parses lines of user input (one input each) into columns for `encode`; by default the column ``text``.

        Args:
            lines: the inputs.
            first: number of the first input, for error messages.

        Raises:
            DataError: a line is not in the form that the task expects.
        """
        return {"text": list(lines)}

    def columns_of(self, table: Table) -> dict[str, list[Any]]:
        """Selects the columns of a table that `encode` needs, under the names it expects; by default ``text``.

        Labels are not required.

        Raises:
            DataError: a column is missing, or has values that are not text.
        """
        from bertkit.data.tables.labels import texts

        return {"text": list(texts(table, "text"))}

    def write_predictions(
        self, split: str, outputs: Outputs, features: Columns, examples: Columns, folder: Path
    ) -> Path:
        """Writes the predictions of a split, in the format of a leaderboard if there is one.

        By default these are the predictions of `decode` with their ``index`` from 0, in ``predictions.jsonl``, and for
        other splits than ``test`` with the suffix of their results, such as ``predictions_mismatched.jsonl``.

        Args:
            split: name of the split, one of `bertkit.tasks.splits.splits_to_write`.
            outputs, features, examples: as for `decode`.
            folder: the run directory.

        Returns:
            The path of the (first) file.
        """
        path = folder / f"predictions{suffix_of(split)}.jsonl"
        rows = enumerate(self.decode(outputs, features, examples))
        write_json_lines(path, [{"index": index, **row} for index, row in rows])
        return path


class PerExampleTask(Task):
    """Task that sets a prediction beside the reference of each example, for `bertkit.compare`, folds and reports."""

    @abstractmethod
    def predictions_and_references(
        self, outputs: Outputs, features: Columns, examples: Columns
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Returns predictions and references in the form of the metric, one of each per example.

        Args:
            outputs, features, examples: as for `Task.decode`.
        """

    @abstractmethod
    def compute_metrics(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        """Computes the metrics of any selection of what `predictions_and_references` returns."""

    def to_labels(self, values: Sequence[Any]) -> list[Any]:
        """Converts predictions or references to plain data for files, with the names of classes.

        Args:
            values: one of both results of `predictions_and_references`.
        """
        return [value.item() if hasattr(value, "item") else value for value in values]

    def score(self, outputs: Outputs, features: Columns, examples: Columns) -> dict[str, float]:
        return self.compute_metrics(*self.predictions_and_references(outputs, features, examples))


def per_example(task: Task) -> PerExampleTask:
    """Returns the task itself.

    Raises:
        DataError: it does not set predictions beside references.
    """
    if not isinstance(task, PerExampleTask):
        raise DataError(
            f"{task.name}: its class is no PerExampleTask, so its predictions cannot be set beside references"
        )
    return task


def with_optional_labels(task: AnyTask) -> AnyTask:
    """Returns a copy of a task whose training set may lack labels, which are learnt from a teacher then.

    Such a task has learnt its labels and columns from other data: it is that of a checkpoint.
    """
    changed = copy.copy(task)
    changed._may_lack_labels = ("train",)
    return changed


def task_record(task: Task) -> dict[str, Any]:
    """Returns what ``config.json`` keeps of a task; `bertkit.tasks.checkpoints.task_of_checkpoint` rebuilds it."""
    return {
        "kind": task.kind,
        # Further metrics are code, and change no prediction.
        "task": {key: value for key, value in dataclasses.asdict(task.settings).items() if key != "metrics"},
        "data": {name: getattr(task.data, name) for name in task.data.stored},
    }


def head_name(task: Task) -> str:
    """Returns the name of the class of a task's head."""
    return task.head if isinstance(task.head, str) else task.head.__name__


@singledispatch
def texts_of(task: Task, examples: Columns) -> dict[str, list[str]]:
    """Returns the texts that the model reads, one per example, by column; by default the columns of strings."""
    columns = {name: examples[name] for name in examples}
    return {name: list(each) for name, each in columns.items() if len(each) and isinstance(each[0], str)}


@singledispatch
def truncation_hint(task: Task) -> str:
    """Returns advice on inputs that are longer than ``max_seq_length``."""
    return "a larger --max-seq-length cuts less if the encoder reads more, and takes longer"


@singledispatch
def encoding_notes(task: Task, features: Dataset) -> tuple[str, ...]:
    """Returns notes on a split's inputs other than truncation, which are printed and recorded."""
    return ()


# ---- batches and outputs --------------------------------------------------------------------------------------------


def labels_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
    """Returns ``labels`` of a batch: class ids as (B,) int64, regression targets as (B,) float32, multi-label targets
    as (B, C) float32; empty without labels."""
    import torch

    return {"labels": torch.tensor([row["labels"] for row in rows])} if "labels" in rows[0] else {}


def padded(
    rows: Sequence[Mapping[str, Any]], tokenizer: PreTrainedTokenizerBase, inputs: Sequence[str]
) -> Mapping[str, Tensor]:
    """Pads the inputs of N rows to the longest, (N, S) int64; on the right, so that tokens keep their positions.

    They are those of ``tokenizer.pad``, which takes many times as long to make tensors of lists: a GPU would wait.
    """
    import torch

    longest = max(len(row[inputs[0]]) for row in rows)
    padding = paddings_of(tokenizer)
    arrays = {name: np.full((len(rows), longest), padding.get(name, 0), np.int64) for name in inputs}
    for name, array in arrays.items():
        for line, row in zip(array, rows, strict=True):
            line[: len(row[name])] = row[name]
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def paddings_of(tokenizer: PreTrainedTokenizerBase) -> dict[str, int]:
    """Returns what inputs of a model are padded with, by their names; others, such as masks, with 0."""
    return {"input_ids": tokenizer.pad_token_id, "token_type_ids": tokenizer.pad_token_type_id}


def one_array(outputs: Outputs) -> np.ndarray:
    """Returns the output of a model with a single output array; raises ``TypeError`` for several."""
    if isinstance(outputs, tuple):
        raise TypeError(f"the model returns {len(outputs)} arrays; this task expects one")
    return outputs


def softmax(logits: np.ndarray) -> np.ndarray:
    """Computes the softmax of logits (N, C) over C; the probability of a logit of -inf is 0."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)
