"""Base class of fine-tuning tasks: load → encode → (model) → decode → score.

Training, evaluation and prediction all call the same ``encode`` and ``decode``; there is no second preprocessing.
A task is one subclass of `Task` that `bertkit.tasks.registry` knows by its kind, the name in a recipe's ``task.kind``.
"""

from __future__ import annotations

import copy
import dataclasses
import uuid
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from bertkit.errors import DataError, RecipeError
from bertkit.progress import without_library_bars
from bertkit.tasks.arrays import Outputs, labelled_items, labels_of, padded
from bertkit.tasks.per_example import PerExample
from bertkit.tasks.served import Served
from bertkit.tasks.splits import Columns, FineTuningData, Split, Truncation, is_labelled
from bertkit.tasks.taught import Taught

if TYPE_CHECKING:
    from datasets import Dataset
    from torch import Tensor, nn
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from bertkit.tables import Table


_ROWS_IN_MEMORY = 200_000  # rows of an encoded split; of 128 tokens they take about 150 MB


class Task(PerExample, Served, Taught, ABC):
    """Abstract base class of fine-tuning tasks.

    Loading and predicting do not change a task: `load` returns a task with the values learnt from its data.

    The name of a split determines its use: ``train`` is trained on; ``validation`` and names with this prefix are
    scored, with the rest of the name as the suffix of their metrics (``validation_mm`` → ``eval_accuracy_mm``); all
    others are predicted.

    Attributes:
        kind: the name in a recipe's ``task.kind``, under which the task is registered.
        settings: the dataclass of the recipe's ``task`` block. All its values are kept in ``config.json``.
        data_settings: the dataclass of the recipe's ``data`` block; its field ``kept`` lists the values stored in a
            checkpoint.
        recipe: the YAML file with the default values of a task from another package; ``None`` uses the dataclass
            defaults. Recipes of bertkit's own tasks are in ``recipes/``.
        head: the name of the model class in ``bertkit.model.modeling_bert``.
        pipeline_tag: the Hub's name of the checkpoint's task.
        label_columns: the tensors of a batch that hold labels. -100 (integers) and NaN (floats) mark a missing label.
        columns_of_tables: settings that name columns, which another table may have under other names.
        reads_whole_texts: whether `encode` reads texts to their end, in windows; an input then has as many tokens.
        relies_on_case: whether upper case usually distinguishes the labels of the task, as it does for names.
        splits: the names of all supported splits.
        main_metric: the key of `score` by which checkpoints are compared; larger is better.
        all_probabilities: whether predictions hold the probability of every label, however many there are; see
            `with_all_probabilities`.
        assumptions: what was inferred for a checkpoint that does not record its task, in a few words each.
        output_forms: names of the forms of other tools in which predictions can be written, see `in_form`.
    """

    kind: ClassVar[str]
    settings: ClassVar[type[Any]]
    data_settings: ClassVar[type[FineTuningData]]
    recipe: ClassVar[Path | None] = None
    head: ClassVar[str]
    pipeline_tag: ClassVar[str]
    label_columns: ClassVar[tuple[str, ...]] = ("labels",)
    columns_of_tables: ClassVar[frozenset[str]] = frozenset()
    reads_whole_texts: bool = False
    relies_on_case: ClassVar[bool] = False
    splits: Sequence[str] = ("train", "validation", "test")
    main_metric: str
    all_probabilities: bool = False
    assumptions: Sequence[str] = ()
    output_forms: Sequence[str] = ()

    def __init__(self, task: Any, data: FineTuningData):
        self.task = task
        self.data = data

    def with_settings(self, **changes: Any) -> Self:
        """Returns a copy of the task with changed settings."""
        changed = copy.copy(self)
        changed.task = dataclasses.replace(self.task, **changes)
        return changed

    def with_columns(self, columns: Mapping[str, Any]) -> Self:
        """Returns a copy of the task that reads other columns of tables, given by the names of the settings.

        Raises:
            RecipeError: the task always reads the same columns, or has no such setting, or a name is impossible.
        """
        unknown = columns.keys() - self.columns_of_tables
        if unknown:
            why = "not a column" if self.columns_of_tables else "the columns are always the same"
            raise RecipeError(f"task.{min(unknown)}: {why} of {self.name}; remove it")
        try:
            return self.with_settings(**columns)
        except ValueError as error:
            raise RecipeError(f"task.{error}") from error

    def with_all_probabilities(self) -> Self:
        """Returns a copy of the task whose predictions hold the probability of every label."""
        changed = copy.copy(self)
        changed.all_probabilities = True
        return changed

    @property
    def leaves_out_labels(self) -> bool:
        """Returns whether predictions hold the probabilities of some labels only, which differ between rows."""
        return False

    @property
    def name(self) -> str:
        """Name of the task in results and in the model card: ``task.name`` if it is set, else the kind."""
        return getattr(self.task, "name", self.kind)

    @property
    def command(self) -> str:
        """Subcommand of ``bertkit finetune``."""
        return self.kind.replace("_", "-")

    @property
    def usual_recipe(self) -> str | Path | dict[str, Any]:
        """Recipe of the task without settings of its own: a name, a file, or the blocks."""
        if type(self).__module__.startswith("bertkit."):
            return f"finetune/{self.command}"
        return self.recipe or {"task": {"kind": self.kind}}

    @property
    @abstractmethod
    def dataset(self) -> tuple[str, str, str] | None:
        """Hub id, configuration and scored split; ``None`` for local files."""

    @property
    def remedy(self) -> str:
        """Advice on inputs that are longer than ``max_seq_length``."""
        return "a larger --max-seq-length cuts less and takes longer"

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

    def cut_texts(self, examples: Columns, tokenizer: PreTrainedTokenizerBase) -> Columns:
        """Returns examples whose texts are cut to what `encode` keeps of them, by default as they are.

        Inference encodes them instead of the given ones, since to tokenize a text of megabytes takes seconds. The
        inputs are the same, and only ``full_length`` is smaller. See `bertkit.tasks.truncation`.
        """
        return examples

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

    def encoding_notes(self, features: Dataset) -> tuple[str, ...]:
        """Returns notes on a split's inputs other than truncation, which are printed and recorded."""
        return ()

    def prepare(self, model: PreTrainedModel | nn.Module) -> None:
        """Adapts a loaded model to the additional inputs that `collate` returns."""

    @property
    def prepares_encoder(self) -> bool:
        """Returns whether `prepare` needs a model of transformers, and not just the layer of its head."""
        return type(self).prepare is not Task.prepare

    def labelled_items(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Counts the labelled items of a batch of `collate`, () int64: the denominator of a mean loss."""
        return labelled_items(batch)

    def stock_loss(
        self, outputs: Mapping[str, Tensor], labels: Mapping[str, Tensor], num_items_in_batch: Tensor | int | None
    ) -> Tensor | None:
        """Computes the loss of a transformers head with the loss function of the corresponding bertkit head.

        Args:
            outputs: model outputs computed without labels.
            labels: the tensors of `label_columns` by name.
            num_items_in_batch: labelled items in the global batch; ``None`` counts those of this batch.

        Returns:
            The loss, 0-d; ``None`` for the default loss of ``labels``: cross-entropy, or the loss that the
            configuration's ``problem_type`` selects.
        """
        return None

    @property
    def weighted_labels(self) -> Sequence[str]:
        """Names of the classes whose losses can be weighted, in the order of their ids; empty without such a loss."""
        return ()

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

    def is_labelled(self, examples: Dataset) -> bool:
        """Returns whether the examples have the labels that `score` needs."""
        return "labels" in examples.column_names

    def with_threshold(self, threshold: float) -> Self:
        """Returns a copy of the task that predicts a label from this probability on.

        Raises:
            RecipeError: the task has no thresholds, or the value is not valid.
        """
        raise RecipeError(f"--threshold: {self.name} has no thresholds of labels; remove it")

    def splits_to_write(self, splits: Collection[str]) -> list[str]:
        """Returns the splits whose predictions are written to files: by default those without labels."""
        return [name for name in splits if not is_labelled(name)]

    def learn_from(self, evaluation: Mapping[str, float]) -> tuple[Self, str | None]:
        """Derives settings for the checkpoint from the validation results, ``eval_…``.

        Returns:
            The updated task, and a message that describes the change; ``None`` if there is none.
        """
        return self, None

    @abstractmethod
    def read_input(self, lines: Sequence[str], first: int = 1) -> dict[str, list[str]]:
        """Parses lines of user input (one input each) into columns for `encode`.

        Args:
            lines: the inputs.
            first: number of the first input, for error messages.

        Raises:
            DataError: a line is not in the form that the task expects.
        """

    def read_file(self, path: Path) -> Table | None:
        """Reads the inputs to predict from a file in a task-specific format into memory.

        Returns:
            A table for `columns_of`; ``None`` if the file name does not denote such a format: the file is then read as
            a table (``.csv`` etc.), or as one input per line.

        Raises:
            DataError: the file cannot be read.
        """
        return None

    @property
    def reads_neighbours(self) -> bool:
        """Returns whether the prediction for a table row also depends on neighbouring rows."""
        return False

    def read_fields(self, fields: Mapping[str, str | Sequence[str]]) -> dict[str, list[str]]:
        """Converts texts given by name (a question, its context) to columns for `encode`.

        Raises:
            DataError: the task has no fields of these names, or the texts do not match.
        """
        raise DataError(f"{self.name}: expected texts only, without {' or '.join(fields)}")

    def shown(self, columns: Mapping[str, Sequence[Any]]) -> Mapping[str, Sequence[Any]]:
        """Selects the input columns that are returned with the predictions."""
        return columns

    def columns_of(self, table: Table) -> dict[str, list[str]]:
        """Selects the columns of a table that `encode` needs, under the names it expects; labels are not required.

        Raises:
            DataError: a column is missing, or has values that are not text.
        """
        raise DataError(f"{table.source}: {self.name} does not predict for tables; give one text per line")

    def in_form(self, form: str, row: Mapping[str, Any]) -> dict[str, Any]:
        """Converts an input with its prediction to the form of another tool.

        Args:
            form: one of `output_forms`.
            row: the columns of the input that are shown, and the prediction.
        """
        raise DataError(f"{self.name}: predictions have no other forms")

    @abstractmethod
    def line(self, prediction: Mapping[str, Any]) -> str:
        """Formats a prediction of `decode` as a line for a terminal, without the input."""

    def highlighted(self, row: Mapping[str, Any]) -> str | None:
        """Formats an input with its prediction marked in it, in terminal colours; ``None`` if the task has no such
        view.

        Args:
            row: the columns of the input that are shown, and the prediction.
        """
        return None

    @abstractmethod
    def write_predictions(
        self, split: str, outputs: Outputs, features: Columns, examples: Columns, folder: Path
    ) -> Path:
        """Writes the predictions of a split in the format of its leaderboard; returns the path of the (first) file.

        Args:
            split: name of the split, one of `splits_to_write`.
            outputs, features, examples: as for `decode`.
            folder: the run directory.
        """

    def encode_split(self, split: Split, tokenizer: PreTrainedTokenizerBase) -> tuple[Dataset, Truncation]:
        """Encodes a whole split in batches; also returns its truncation statistics.

        The inputs of a large split are in a temporary file, which ends with the process, and not in memory.
        """

        def encode(rows: Columns, indices: Sequence[int]) -> dict[str, list[Any]]:
            features = self.encode(rows, tokenizer)
            if "example" in features:  # `encode` counts from 0 in each batch
                features["example"] = [indices[example] for example in features["example"]]
            return features

        with without_library_bars():
            features = split.examples.map(
                encode,
                batched=True,
                with_indices=True,
                remove_columns=split.examples.column_names,
                **_place_of(len(split.examples)),
            )
        kept, full = (features.data.column(name).to_numpy() for name in ("length", "full_length"))
        return features.remove_columns("full_length"), Truncation.of_lengths(kept, full)

    # ---- what `bertkit.checks` looks at -----------------------------------------------------------------------------

    def texts_of(self, examples: Columns) -> dict[str, list[str]]:
        """Returns the texts that the model reads, one per example, by column; by default the columns of strings."""
        columns = {name: examples[name] for name in examples}
        return {name: list(each) for name, each in columns.items() if len(each) and isinstance(each[0], str)}

    def classes_of(self, examples: Columns) -> list[list[str]] | None:
        """Returns the names of the classes of each example, in order; ``None`` if there are no classes."""
        return None

    def spans_of(self, examples: Columns) -> list[list[tuple[str, int, int]]] | None:
        """Returns the labelled spans of the words in ``tokens`` of each example as (type, start, exclusive end)."""
        return None

    def lost_labels(self, features: Columns, examples: Columns) -> tuple[int, int] | None:
        """Counts the labels that no input of `encode` contains, and all labels; ``None`` if every label is kept."""
        return None

    @property
    def stock_note(self) -> str | None:
        """Note on how plain transformers differs from bertkit for an exported checkpoint; ``None`` if it does not."""
        return None

    @property
    def window_note(self) -> str | None:
        """Sentence for the model card on the windows of texts that are too long for one; ``None`` if they are cut."""
        return None

    @property
    def onnx_obstacle(self) -> str | None:
        """Reason why the task cannot be exported to ONNX; ``None`` if it can."""
        return None

    def describe(self) -> dict[str, Any]:
        """Returns the values from which `task_of_checkpoint` rebuilds the task; stored in the checkpoint's
        ``config.json``."""
        return {
            "kind": self.kind,
            "task": dataclasses.asdict(self.task),
            "data": {name: getattr(self.data, name) for name in self.data.stored},
        }


def _place_of(rows: int) -> dict[str, Any]:
    """Returns the arguments of ``Dataset.map`` by which an encoded split of so many rows is in memory or in a file.

    The file is not in the cache of the ``datasets`` library, which keeps its files.
    """
    if rows <= _ROWS_IN_MEMORY:
        return {"keep_in_memory": True}
    from datasets.fingerprint import get_temporary_cache_files_directory

    place = Path(get_temporary_cache_files_directory()) / f"encoded-{uuid.uuid4().hex}.arrow"
    return {"cache_file_name": str(place), "load_from_cache_file": False}
