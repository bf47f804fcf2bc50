"""What a fine-tuning task must provide: load → encode → (model) → decode → score.

Training, evaluation and prediction all call the same ``encode`` and ``decode``; there is no second preprocessing.
A module of this folder that defines ``TaskSettings``, ``DataSettings`` and ``TASK`` is a task: its name is what a
recipe's ``task.kind`` says.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from bertkit.errors import CheckpointError, DataError, RecipeError
from bertkit.progress import without_library_bars
from bertkit.tasks.arrays import Outputs, labels_of, padded
from bertkit.tasks.registry import TASKS
from bertkit.tasks.splits import Columns, FineTuningData, Split, Truncation, is_labelled

if TYPE_CHECKING:
    from datasets import Dataset
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from bertkit.recipe.load import Recipe
    from bertkit.tables import Table


class Task(ABC):
    """A fine-tuning task.

    The names of its splits say what they are for: ``train``; ``validation`` and those that begin so are scored, their
    results under the rest of the name (``validation_mm`` → ``eval_accuracy_mm``); all others are predicted.

    Attributes:
        kind: the module's name.
        head: the name of the model class in ``bertkit.model.modeling_bert``.
        pipeline_tag: the Hub's word for what the checkpoint does.
        splits: the names of all splits that the task may have.
        main_metric: the key of `score` by which checkpoints are compared; larger is better.
    """

    kind: ClassVar[str]
    head: ClassVar[str]
    pipeline_tag: ClassVar[str]
    splits: Sequence[str] = ("train", "validation", "test")
    main_metric: str

    def __init__(self, task: Any, data: FineTuningData):
        self.task = task
        self.data = data

    @property
    def name(self) -> str:
        """What the task is called in results and in the model card."""
        name: str = self.task.name
        return name

    @property
    def command(self) -> str:
        """What follows ``bertkit finetune``."""
        return self.kind.replace("_", "-")

    @property
    @abstractmethod
    def dataset(self) -> tuple[str, str, str] | None:
        """Hub id, configuration and the split that scores belong to; ``None`` for files of the user's own."""

    @property
    def remedy(self) -> str:
        """What to do about inputs that are longer than ``max_seq_length``."""
        return "a larger --max-seq-length cuts less and takes longer"

    @abstractmethod
    def load(self, splits: Sequence[str] | None = None) -> dict[str, Split]:
        """Reads the splits named, or all; one that the data set lacks is absent from the result.

        What a task learns from its data, such as the names of classes, is known after this.

        Raises:
            DataError: something is missing or wrong; the message names file and line.
        """

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Fields of ``BertConfig`` that follow from the task (``num_labels``, ``id2label``, …)."""

    @abstractmethod
    def encode(self, examples: Columns, tokenizer: PreTrainedTokenizerBase) -> dict[str, list[Any]]:
        """Turns columns of examples into model inputs, unpadded.

        Returns:
            ``input_ids``, ``attention_mask``, ``token_type_ids``; ``labels`` where the examples have them;
            ``length`` (tokens kept) and ``full_length`` (tokens before the cut). An example has one row; or it has
            one or more, its windows, in their order: then ``example`` says of every row which example it is of, from 0.
        """

    def collate(
        self, rows: Sequence[Mapping[str, Any]], tokenizer: PreTrainedTokenizerBase, inputs: Sequence[str]
    ) -> dict[str, Tensor]:
        """Rows of what `encode` gave as one batch, padded to its longest input.

        Args:
            rows: B examples.
            tokenizer: pads.
            inputs: what the model takes of ``input_ids``, ``attention_mask`` and ``token_type_ids``.

        Returns:
            The inputs, (B, S) int64, and ``labels`` where the rows have them. The first is a tensor of B rows:
            transformers' Trainer counts examples by it.
        """
        return labels_of(rows) | dict(padded(rows, tokenizer, inputs))

    def encoding_notes(self, features: Dataset) -> tuple[str, ...]:
        """What is unusual about a split's inputs beside what was cut, in words; said and recorded."""
        return ()

    def prepare(self, model: PreTrainedModel) -> None:  # noqa: B027, since most tasks have nothing to teach
        """Teaches a loaded model what else `collate` puts into a batch."""

    @abstractmethod
    def decode(self, outputs: Outputs, features: Columns, examples: Columns) -> list[dict[str, Any]]:
        """Turns what the model gave into predictions for people and files.

        Args:
            outputs: of the model, for N inputs.
            features: what `encode` gave for them.
            examples: what `encode` was given.

        Returns:
            One for each example.
        """

    @abstractmethod
    def score(self, outputs: Outputs, features: Columns, examples: Columns) -> dict[str, float]:
        """The task's metrics, named as in the evaluate library; the arguments are those of `decode`."""

    def is_labelled(self, examples: Dataset) -> bool:
        """Whether `score` can score these examples."""
        return "labels" in examples.column_names

    def splits_to_write(self, splits: Collection[str]) -> list[str]:
        """Those of a run's splits whose predictions it writes to files: those that are not scored."""
        return [name for name in splits if not is_labelled(name)]

    def learn_from(self, evaluation: Mapping[str, float]) -> str | None:
        """Takes what the checkpoint is to keep from the results on the validation set, ``eval_…``.

        Returns:
            What that is, in words; None where the task takes nothing.
        """
        return None

    @abstractmethod
    def read_input(self, lines: Sequence[str], first: int = 1) -> dict[str, list[str]]:
        """Turns lines that a user gives (one input each) into columns for `encode`.

        Args:
            lines: the inputs.
            first: the number of the first of them, for messages.

        Raises:
            DataError: a line does not hold what the task needs.
        """

    @property
    def reads_neighbours(self) -> bool:
        """Whether what is predicted for a row of a table also depends on the rows around it."""
        return False

    def read_fields(self, fields: Mapping[str, str | Sequence[str]]) -> dict[str, list[str]]:
        """Turns texts that a user gives by name (a question, its context) into columns for `encode`.

        Raises:
            DataError: the task has no such names, or the texts do not fit together.
        """
        raise DataError(f"{self.name}: takes texts alone, and no {' or '.join(fields)}")

    def shown(self, columns: Mapping[str, Sequence[Any]]) -> Mapping[str, Sequence[Any]]:
        """Those of the columns that are given back with the predictions."""
        return columns

    def columns_of(self, table: Table) -> dict[str, list[str]]:
        """The columns of a table that `encode` needs, named as it names them; labels are not needed.

        Raises:
            DataError: a column is missing, or holds something else than texts.
        """
        raise DataError(f"{table.source}: tables are not predicted for {self.name}; give one text a line")

    @abstractmethod
    def line(self, prediction: Mapping[str, Any]) -> str:
        """One prediction of `decode` as a line for a terminal, without the input."""

    def highlighted(self, row: Mapping[str, Any]) -> str | None:
        """An input with its prediction within it, in colours for a terminal; ``None`` where the task has no such view.

        Args:
            row: the columns of the input that are shown, and the prediction.
        """
        return None

    @abstractmethod
    def write_predictions(
        self, split: str, outputs: Outputs, features: Columns, examples: Columns, folder: Path
    ) -> Path:
        """Writes the predictions of a split in the form its leaderboard takes; returns the file, or the first of them.

        Args:
            split: its name, one of `splits_to_write`.
            outputs, features, examples: as for `decode`.
            folder: the run directory.
        """

    def encode_split(self, split: Split, tokenizer: PreTrainedTokenizerBase) -> tuple[Dataset, Truncation]:
        """`encode` over a whole split, and what was cut from it."""

        def encode(rows: Columns, indices: Sequence[int]) -> dict[str, list[Any]]:
            features = self.encode(rows, tokenizer)
            if "example" in features:  # it counts within the rows that came together
                features["example"] = [indices[example] for example in features["example"]]
            return features

        with without_library_bars():
            features = split.examples.map(
                encode,
                batched=True,
                with_indices=True,
                remove_columns=split.examples.column_names,
                keep_in_memory=True,
            )
        kept, full = (features.data.column(name).to_numpy() for name in ("length", "full_length"))
        cut = full - kept
        return features.remove_columns("full_length"), Truncation(
            int((cut > 0).sum()), int(cut.sum()), len(full), int(full.sum())
        )

    def describe(self) -> dict[str, Any]:
        """What `task_of` needs to build the task again; goes into the checkpoint's ``config.json``."""
        return {
            "kind": self.kind,
            "task": dataclasses.asdict(self.task),
            "data": {name: getattr(self.data, name) for name in self.data.kept},
        }


def task_of_recipe(recipe: Recipe) -> Task:
    """The task that a fine-tuning recipe describes."""
    module = TASKS.module(recipe.kind)
    task: Task = module.TASK(recipe.task, recipe.data)
    return task


def task_of_checkpoint(config: Any, name: str, **data: Any) -> Task:
    """The task that a checkpoint was fine-tuned for.

    Args:
        config: the checkpoint's configuration, as loaded.
        name: what the user called the checkpoint, for messages.
        data: values of the ``data`` block that differ from training, such as ``data_dir``.

    Raises:
        CheckpointError: the checkpoint does not say what it was fine-tuned for.
    """
    recorded = getattr(config, "bertkit_task", None)
    if not recorded:
        made = ", ".join(config.architectures or ["nothing known"])
        raise CheckpointError(
            f"{name}: config.json does not say which task this checkpoint ({made}) was fine-tuned for; "
            "give a run directory that `bertkit finetune` wrote"
        )
    try:
        module = TASKS.module(recorded["kind"])
        settings = module.TaskSettings(**recorded["task"])
        kept = module.DataSettings(**recorded["data"])
    except (ImportError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{name}: config.json names a task that this version of bertkit does not know ({error}); update bertkit"
        ) from error
    known = {field.name for field in dataclasses.fields(kept)}
    for key in data:
        if key not in known:
            raise RecipeError(f"data.{key}: {name} was fine-tuned for {recorded['kind']}, which has no such data")
    try:
        task: Task = module.TASK(settings, dataclasses.replace(kept, **data))
    except ValueError as error:
        raise RecipeError(f"data.{error}") from error
    return task
