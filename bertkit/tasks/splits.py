"""Examples of fine-tuning tasks: shared data settings, and splits of a data set."""

from __future__ import annotations

import dataclasses
import uuid
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from bertkit.data.tables.stored_columns import StoredColumn
from bertkit.runtime.options import check_ranges, option, setting
from bertkit.runtime.progress import counted

if TYPE_CHECKING:
    from datasets import Dataset

    from bertkit.data.tables import Table

_ROWS_OF_A_BATCH = 1000


Columns = Mapping[str, Sequence[Any]]
"""Column name → values, one per row: examples, or the model inputs from `Task.encode`."""


def is_scored(name: str) -> bool:
    """Returns whether a run scores the split of this name: ``validation``, ``validation_mm``, …"""
    return name.startswith("validation")


def is_labelled(name: str) -> bool:
    """Returns whether the split of this name must have labels: training and scored splits do."""
    return name == "train" or is_scored(name)


def suffix_of(name: str) -> str:
    """Returns what the names of the results of a split without labels end in: nothing for ``test``.

    >>> suffix_of("test"), suffix_of("test_mismatched"), suffix_of("diagnostic")
    ('', '_mismatched', '_diagnostic')
    """
    return name.removeprefix("test") if name.startswith("test") else f"_{name}"


@dataclass(frozen=True, kw_only=True)
class FineTuningData:
    """The part of a fine-tuning recipe's ``data`` block that all tasks share.

    Attributes:
        paths: (class attribute) the fields that hold a file or a folder; ``recipe.yaml`` stores absolute paths.
        kept: (class attribute) the fields stored in a checkpoint, since its predictions depend on them.
    """

    paths: ClassVar[tuple[str, ...]] = ("data_dir",)
    kept: ClassVar[tuple[str, ...]] = ("max_seq_length",)

    data_dir: str | None = option(
        "Folder with the data; without it, the data set is loaded from the Hub.", default=None
    )
    max_seq_length: int = option(
        "Maximum number of tokens of an input, special tokens included; longer inputs are truncated and counted.",
        default=128,
        ge=3,  # [CLS], a token and [SEP]
        le=2**20,
    )
    max_train_samples: int | None = option(
        "Use at most this number of training examples, the first ones.", default=None, ge=1, rare=True
    )
    max_eval_samples: int | None = option(
        "Use at most this number of validation examples, the first ones; a run predicts the whole test set, since "
        "leaderboards require that, and its folds score every row.",
        default=None,
        ge=1,
        rare=True,
    )
    folds: int | None = setting(
        "Divide the training set into this number of folds. With `fold`, one of them is the validation set instead of "
        "the given one. Without, every row is scored by a model that is trained on the other folds, and the run's own "
        "model is trained on all rows; `null` does that for tables of up to 1,000 rows without a validation set, with "
        "5 folds, and 0 never.",
        default=None,
        ge=0,
    )
    fold: int | None = setting("Number of the fold that is the validation set, from 0.", default=None, ge=0)
    group_column: str | None = setting("Column whose equal values stay in the same fold.", default=None)
    split_seed: int = setting(
        "Seed of the folds and of validation sets that are held out from the training set; independent of the "
        "run's seed, so that runs with different seeds are scored on the same rows.",
        default=42,
        ge=0,
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        if not self.folds:
            for name in ("fold", "group_column"):
                if getattr(self, name) is not None:
                    raise ValueError(f"{name}: {getattr(self, name)!r} needs folds; give --folds")
        elif self.folds == 1:
            raise ValueError("folds: expected at least 2, or 0 for none, got 1")
        elif self.fold is not None and self.fold >= self.folds:
            raise ValueError(f"fold: expected 0 to {self.folds - 1}, got {self.fold}")

    @property
    def scores_all_rows(self) -> bool:
        """Returns whether every training row is scored, by models of folds, so that no row is a validation set."""
        return bool(self.folds) and self.fold is None

    @property
    def has_validation_set(self) -> bool:
        """Returns whether a validation set is named, or a data folder or a Hub data set, which may have one."""
        return any(getattr(self, name, None) for name in ("data_dir", "validation_file", "dataset_name"))

    @property
    def stored(self) -> tuple[str, ...]:
        """Names of the values that a checkpoint stores: `kept`, and those of the fold that it was not trained on."""
        folds = () if self.fold is None else ("folds", "fold", "group_column", "split_seed")
        return tuple(dict.fromkeys((*self.kept, *folds)))

    def run_code(self) -> None:
        """Runs the code that the settings name, if a task has such settings; loading a recipe does not run it.

        Raises:
            RecipeError: the code fails; the message begins with the name of the setting.
        """

    def limited(self, name: str, split: Split) -> Split:
        """Returns the split, limited to the number of examples that the settings give for its name."""
        if name == "train":
            return split.first(self.max_train_samples)
        return split.first(self.max_eval_samples) if is_scored(name) else split


@dataclass(frozen=True, kw_only=True)
class WindowedData(FineTuningData):
    """Data settings of tasks that can read texts longer than ``max_seq_length`` tokens in overlapping windows."""

    kept: ClassVar[tuple[str, ...]] = (*FineTuningData.kept, "stride")

    stride: int | None = option(
        "Tokens that neighbouring windows share; by default a quarter of `max_seq_length`.", default=None, rare=True
    )

    @property
    def overlap(self) -> int:
        """Number of tokens that neighbouring windows share."""
        return self.max_seq_length // 4 if self.stride is None else self.stride

    def check_overlap(self) -> None:
        """Checks that the overlap leaves at least one new token per window.

        Raises:
            ValueError: it does not; the message begins with the name of the setting.
        """
        if not 0 <= self.overlap < self.max_seq_length - 2:
            raise ValueError(
                f"stride: windows of {self.max_seq_length} tokens, [CLS] and [SEP] included, cannot share "
                f"{self.overlap}; expected 0 to {self.max_seq_length - 3}"
            )


def number_in_source(numbers: Sequence[int] | Sequence[str] | None, row: int) -> int | str:
    """Returns the number of an example in the source, or the path of its file; ``row`` counts from 0."""
    return row + 1 if numbers is None else numbers[row]


@dataclass(frozen=True)
class Split:
    """One split of a data set.

    Attributes:
        examples: one row per example; the task defines the columns.
        source: the file or Hub data set of the split, for messages and the model card.
        fingerprint: digest of the content, for ``run.json``.
        notes: remarks on the data, which are printed and recorded.
        labels: what the labels of a training set were taken for, also one of the notes; empty if nothing was inferred.
        line_on_labels: returns ``labels`` for other examples of the split, so that its counts follow a selection.
        doubts: code of a rule of `bertkit.features.checks` → what is doubtful in the source and cannot be seen in
            ``examples``.
        numbers: number of each example in the source, from 1, or the path of its file; ``None`` numbers the examples
            themselves.
        unit: what ``numbers`` count: ``line``, ``row`` or ``file``.
    """

    examples: Dataset
    source: str
    fingerprint: str
    notes: tuple[str, ...] = ()
    doubts: Mapping[str, str] = field(default_factory=dict)
    numbers: Sequence[int] | Sequence[str] | None = None
    unit: str = "row"
    labels: str = ""
    line_on_labels: Callable[[Columns], str] | None = None

    @classmethod
    def of_table(
        cls,
        columns: Mapping[str, Sequence[Any]],
        table: Table,
        notes: tuple[str, ...] = (),
        doubts: Mapping[str, str] | None = None,
    ) -> Split:
        """Returns the split whose examples are the rows of a table, with ``columns`` as the task defines them."""
        examples = cast("Dataset", Rows(columns))
        return cls(examples, table.source, table.fingerprint, notes, doubts or {}, table.numbers_of_rows, table.unit)

    def place(self, row: int) -> str:
        """Returns the place of an example in the source, such as ``line 7``; ``row`` counts from 0."""
        return f"{self.unit} {number_in_source(self.numbers, row)}"

    def select(self, rows: Sequence[int] | np.ndarray) -> Split:
        """Returns the split with only the examples at ``rows``, which count from 0."""
        numbers: Any = [number_in_source(self.numbers, int(row)) for row in rows]
        numbers = numbers if self.unit == "file" else array("q", numbers)
        part = dataclasses.replace(self, examples=self.examples.select(rows), numbers=numbers)
        if not self.labels or self.line_on_labels is None:
            return part
        line = self.line_on_labels(ColumnsOf(part.examples))
        notes = tuple(line if note == self.labels else note for note in self.notes)
        return dataclasses.replace(part, labels=line, notes=notes)

    def first(self, limit: int | None) -> Split:
        """Returns the split with only its first ``limit`` examples; ``None`` keeps all."""
        if limit is None or limit >= len(self.examples):
            return self
        return self.select(range(limit))


class Rows:
    """Columns of a table that become a `datasets.Dataset` if more is used than columns, number and selections of rows.

    An evaluation does without, and importing datasets takes a second.
    """

    def __init__(self, columns: Mapping[str, Sequence[Any]]):
        self._columns = dict(columns)
        self._dataset: Dataset | None = None

    @property
    def column_names(self) -> list[str]:
        return list(self._columns) if self._dataset is None else list(self._dataset.column_names)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), ())) if self._dataset is None else len(self._dataset)

    def __getitem__(self, key: Any) -> Any:
        if self._dataset is None and isinstance(key, str):
            return self._columns[key]
        if self._dataset is None and isinstance(key, slice):
            return {name: values[key] for name, values in self._columns.items()}
        return self.dataset[key]

    def select(self, rows: Sequence[int] | np.ndarray) -> Any:
        """Returns only the rows of these numbers, which count from 0."""
        if self._dataset is not None or self._are_stored:
            return self.dataset.select(rows)
        return Rows({name: [values[row] for row in rows] for name, values in self._columns.items()})

    @property
    def dataset(self) -> Dataset:
        """The rows as a data set, which holds them from then on."""
        if self._dataset is None:
            from datasets import Dataset

            if self._are_stored:
                import pyarrow as pa

                arrow = {
                    name: values.to_arrow() if isinstance(values, StoredColumn) else values
                    for name, values in self._columns.items()
                }
                # Without a fingerprint, the library would hash all the rows.
                self._dataset = Dataset(pa.table(arrow), fingerprint=uuid.uuid4().hex)
            else:
                self._dataset = Dataset.from_dict(self._columns)
            self._columns = {}
        return self._dataset

    @property
    def _are_stored(self) -> bool:
        return any(isinstance(values, StoredColumn) for values in self._columns.values())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("_columns", "_dataset"):  # not there yet while a copy is being made
            raise AttributeError(name)
        return getattr(self.dataset, name)


class ColumnsOf(Columns):
    """Columns of a data set; each is read into memory on access."""

    def __init__(self, rows: Dataset):
        self._rows = rows

    def __getitem__(self, name: str) -> list[Any]:
        if name not in self._rows.column_names:
            raise KeyError(name)
        values: list[Any] = self._rows[name][:]
        return values

    def __contains__(self, name: object) -> bool:
        return name in self._rows.column_names

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows.column_names)

    def __len__(self) -> int:
        return len(self._rows.column_names)

    def each(self, name: str) -> Iterator[Any]:
        """Yields the values of a column without reading all of it into memory."""
        values = self._rows[name]
        if isinstance(values, list | StoredColumn):
            yield from values
        else:
            for batch in self._rows.select_columns([name]).iter(_ROWS_OF_A_BATCH):
                yield from batch[name]


@dataclass(frozen=True)
class Truncation:
    """Truncation statistics of a split.

    Attributes:
        examples: number of truncated inputs.
        tokens: number of tokens cut off.
        of_examples, of_tokens: total numbers of inputs and of tokens before truncation.
    """

    examples: int
    tokens: int
    of_examples: int
    of_tokens: int

    @classmethod
    def of_lengths(cls, kept: Any, full: Any) -> Truncation:
        """Returns the statistics of N inputs.

        Args:
            kept, full: (N,) integers, ``length`` and ``full_length`` of `Task.encode`.
        """
        full = np.asarray(full)
        cut = full - np.asarray(kept)
        return cls(int((cut > 0).sum()), int(cut.sum()), len(full), int(full.sum()))

    def __str__(self) -> str:
        if not self.examples:
            return "nothing cut"
        share = 100 * self.examples / self.of_examples
        inputs, tokens = counted(self.of_examples, "input", form=","), counted(self.tokens, "token", form=",")
        return f"{self.examples:,} of {inputs} cut ({share:.1f} %), {tokens} lost"


# ---- what kinds of tasks say of their splits ------------------------------------------------------------------------


@singledispatch
def hub_dataset(task: Any) -> tuple[str, str, str] | None:
    """Returns the Hub id, the configuration and the scored split of a task's data; ``None`` for local files."""
    return None


@singledispatch
def splits_to_write(task: Any, splits: Collection[str]) -> list[str]:
    """Selects the splits whose predictions are written to files, by default those without labels."""
    return [name for name in splits if not is_labelled(name)]
