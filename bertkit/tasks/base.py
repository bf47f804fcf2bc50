"""What a fine-tuning task must provide: load → encode → (model) → decode → score.

Training, evaluation and prediction all call the same ``encode`` and ``decode``; there is no second preprocessing.
A task is one subclass of `Task` that `bertkit.tasks.registry` knows by its kind, the name in a recipe's ``task.kind``.
"""

from __future__ import annotations

import copy
import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from bertkit.errors import CheckpointError, DataError, RecipeError
from bertkit.progress import without_library_bars
from bertkit.tasks.arrays import Outputs, labelled_items, labels_of, padded
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

    Loading and predicting do not change a task: what it learns from its data is in the task that `load` returns.

    The names of its splits say what they are for: ``train``; ``validation`` and those that begin so are scored, their
    results under the rest of the name (``validation_mm`` → ``eval_accuracy_mm``); all others are predicted.

    Attributes:
        kind: the name in a recipe's ``task.kind``, under which the task is registered.
        settings: the dataclass of the recipe's ``task`` block. All its values are kept in ``config.json``.
        data_settings: the dataclass of the recipe's ``data`` block; its field ``kept`` says which values a checkpoint
            keeps.
        recipe: the YAML file that the command of another package's task starts from; ``None`` starts from the default
            values. Recipes of bertkit's own tasks are in ``recipes/``.
        head: the name of the model class in ``bertkit.model.modeling_bert``.
        pipeline_tag: the Hub's word for what the checkpoint does.
        label_columns: the tensors of a batch that hold labels. Of a whole number -100 is no label, of others NaN.
        splits: the names of all splits that the task may have.
        main_metric: the key of `score` by which checkpoints are compared; larger is better.
    """

    kind: ClassVar[str]
    settings: ClassVar[type[Any]]
    data_settings: ClassVar[type[FineTuningData]]
    recipe: ClassVar[Path | None] = None
    head: ClassVar[str]
    pipeline_tag: ClassVar[str]
    label_columns: ClassVar[tuple[str, ...]] = ("labels",)
    splits: Sequence[str] = ("train", "validation", "test")
    main_metric: str

    def __init__(self, task: Any, data: FineTuningData):
        self.task = task
        self.data = data

    def with_settings(self, **changes: Any) -> Self:
        """Returns a copy of the task with other values of its settings; the task itself stays as it is."""
        changed = copy.copy(self)
        changed.task = dataclasses.replace(self.task, **changes)
        return changed

    @property
    def name(self) -> str:
        """What the task is called in results and in the model card: ``task.name``, or the kind."""
        return getattr(self.task, "name", self.kind)

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
    def load(self, splits: Sequence[str] | None = None) -> tuple[Self, dict[str, Split]]:
        """Reads splits of the data set.

        Args:
            splits: their names; ``None`` reads all.

        Returns:
            The task with all that it learns from its data, such as the names of classes, and the splits by name. A
            split that the data set lacks is absent.

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

    def labelled_items(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Counts the items of a batch of `collate` that have a label, () int64: what a mean loss divides by."""
        return labelled_items(batch)

    def stock_loss(
        self, outputs: Mapping[str, Tensor], labels: Mapping[str, Tensor], num_items_in_batch: Tensor | int | None
    ) -> Tensor | None:
        """Computes the loss of a head of transformers' own, by the rule of bertkit's BERT head for the same purpose.

        Args:
            outputs: of the model, computed without labels.
            labels: the tensors of `label_columns` by their names.
            num_items_in_batch: labelled items in the global batch; ``None`` for those of this batch.

        Returns:
            The loss, 0-d; ``None`` where it is the usual one of ``labels``: a cross-entropy, or what the
            configuration's ``problem_type`` says.
        """
        return None

    def check_one_shape(self) -> None:  # noqa: B027, since the batches of most tasks can
        """Checks that all batches of the task can have one shape, which XLA needs.

        Raises:
            PlacementError: they cannot.
        """

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

    def learn_from(self, evaluation: Mapping[str, float]) -> tuple[Self, str | None]:
        """Takes what the checkpoint is to keep from the results on the validation set, ``eval_…``.

        Returns:
            The task with what it learnt, and a message that says what this is; ``None`` where it learns nothing.
        """
        return self, None

    @abstractmethod
    def read_input(self, lines: Sequence[str], first: int = 1) -> dict[str, list[str]]:
        """Turns lines that a user gives (one input each) into columns for `encode`.

        Args:
            lines: the inputs.
            first: the number of the first of them, for messages.

        Raises:
            DataError: a line does not hold what the task needs.
        """

    def read_file(self, path: Path) -> Table | None:
        """Reads inputs to predict from a file of a form that this task alone knows, whole.

        Returns:
            A table for `columns_of`; ``None`` where the file is of no such form by its name: then it is a table
            (``.csv`` and the like), or one input a line.

        Raises:
            DataError: the file cannot be read.
        """
        return None

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

    @property
    def stock_note(self) -> str | None:
        """What plain transformers computes in another way from an exported checkpoint; ``None`` where nothing is."""
        return None

    @property
    def onnx_obstacle(self) -> str | None:
        """Why an ONNX model cannot do what the task does; ``None`` where it can."""
        return None

    def describe(self) -> dict[str, Any]:
        """What `task_of_checkpoint` needs to build the task again; goes into the checkpoint's ``config.json``."""
        return {
            "kind": self.kind,
            "task": dataclasses.asdict(self.task),
            "data": {name: getattr(self.data, name) for name in self.data.kept},
        }


def task_of_recipe(recipe: Recipe) -> Task:
    """The task that a fine-tuning recipe describes."""
    return TASKS.task(recipe.kind)(recipe.task, recipe.data)


def task_of_checkpoint(config: Any, name: str, **data: Any) -> Task:
    """The task that a checkpoint was fine-tuned for.

    Args:
        config: the checkpoint's configuration, as loaded.
        name: what the user called the checkpoint, for messages.
        data: values of the ``data`` block that differ from training, such as ``data_dir``.

    Raises:
        CheckpointError: the checkpoint does not say what it was fine-tuned for, or the package of its task is not
            installed or broken.
        RecipeError: the task has no such ``data``.
    """
    recorded = getattr(config, "bertkit_task", None)
    if not recorded:
        made = ", ".join(config.architectures or ["nothing known"])
        raise CheckpointError(
            f"{name}: config.json does not say which task this checkpoint ({made}) was fine-tuned for; "
            "give a run directory that `bertkit finetune` wrote"
        )
    kind = recorded.get("kind")
    if kind not in TASKS.kinds():
        raise CheckpointError(
            f"{name}: fine-tuned for the task {kind!r}, which is none of bertkit's own, and no installed package "
            "provides it; install the package that does"
        )
    try:
        task_class = TASKS.task(kind)
    except RecipeError as error:
        raise CheckpointError(f"{name}: fine-tuned for the task {kind!r}: {error}") from error
    try:
        settings = task_class.settings(**recorded["task"])
        kept = task_class.data_settings(**recorded["data"])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{name}: config.json names a task that this version of bertkit does not know ({error}); update bertkit"
        ) from error
    known = {field.name for field in dataclasses.fields(kept)}
    for key in data:
        if key not in known:
            raise RecipeError(f"data.{key}: {name} was fine-tuned for {kind}, which has no such data")
    try:
        return task_class(settings, dataclasses.replace(kept, **data))
    except ValueError as error:
        raise RecipeError(f"data.{error}") from error
