"""Tables as data of a task, from local files or the Hub; and validation sets that are held out from them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from bertkit.data.tables import Table, check_disjoint, hub_splits, load_hub_table, read_table
from bertkit.data.tables.classes import is_missing
from bertkit.data.tables.folds import hold_out, joined
from bertkit.data.tables.table import copies_in_words, numbered
from bertkit.runtime.errors import DataError, collected, raise_listed
from bertkit.runtime.options import option, setting
from bertkit.runtime.progress import counted, inflected, quietly
from bertkit.tasks.base import Task
from bertkit.tasks.folds import groups, text_numbers
from bertkit.tasks.splits import FineTuningData, Split, hub_dataset

if TYPE_CHECKING:
    from datasets import Dataset

_USUAL_FRACTION = 0.1  # of the training rows, held out for validation


@dataclass(frozen=True, kw_only=True)
class HubData(FineTuningData):
    """A Hub data set."""

    dataset_name: str | None = option("Hub data set, instead of files.", default=None)
    dataset_config: str | None = option("Configuration of the Hub data set.", default=None, rare=True)
    train_split: str | None = option(
        "Split of the Hub data set to train on, or a part of one, such as `train[:90%]` or `train+extra`; by "
        "default the split of this name, unless another setting names it.",
        default=None,
        rare=True,
    )
    validation_split: str | None = option(
        "Split of the Hub data set to evaluate on, or a part of one.", default=None, rare=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dataset_config is not None and self.dataset_name is None:
            raise ValueError("dataset_config: is for a Hub data set; give dataset_name, or remove it")
        uses: dict[str, str] = {}
        for use, split in self.given_splits.items():
            if not split.strip():
                raise ValueError(f"{use}_split: expected a split such as train or train[:90%], got {split!r}")
            if split in uses:
                raise ValueError(f"{use}_split: {split} is the {uses[split]}_split too; give another split or part")
            uses[split] = use

    @property
    def given_splits(self) -> dict[str, str]:
        """Split expressions that the settings give, by their use: ``train``, ``validation``, ``test``."""
        by_use = {use: getattr(self, f"{use}_split", None) for use in ("train", "validation", "test")}
        return {use: split for use, split in by_use.items() if split is not None}

    def splits_of(self, known: Sequence[str], uses: Sequence[str]) -> dict[str, str]:
        """Returns use → split expression for the uses that a Hub data set has a split for.

        A use without a setting has the split of the same name, unless another setting names this split or a part of it:
        with ``validation_split`` ``test``, there is no test set.
        """
        by_use, named = self.given_splits, self._named_splits()
        return {use: by_use.get(use, use) for use in uses if use in by_use or (use in known and use not in named)}

    def missing(self, hub_id: str, use: str, known: Sequence[str]) -> DataError:
        """Returns the error for a required use that has no split."""
        if use in known:
            return DataError(
                f"{hub_id}: --{self._named_splits()[use]}-split takes the split {use} or a part of it; give "
                f"--{use}-split for the rest, such as '{use}[:90%]' beside '{use}[90%:]'"
            )
        return DataError(
            f"{hub_id}: no split {use!r}; available: {', '.join(map(repr, known)) or 'none'}; give --{use}-split"
        )

    def _named_splits(self) -> dict[str, str]:
        """Returns split → use for the splits that the settings name, whole or in part."""
        by_use = self.given_splits
        return {part.partition("[")[0].strip(): use for use, split in by_use.items() for part in split.split("+")}


@dataclass(frozen=True, kw_only=True)
class TableData(HubData):
    """Sources of the tables."""

    paths: ClassVar[tuple[str, ...]] = ("train_file", "validation_file", "test_file")
    # The last two ensure that a checkpoint is scored on the same held-out rows, which were not in its training set.
    kept: ClassVar[tuple[str, ...]] = ("max_seq_length", "validation_fraction", "split_seed")

    data_dir: str | None = setting("Folder of GLUE's files; not for tables.", default=None)
    train_file: str | None = option(
        "Table to train on: .csv, .tsv, .jsonl, .parquet, .xlsx (FILE.xlsx#SHEET), or a folder of texts or mails.",
        default=None,
    )
    validation_file: str | None = option("Table to evaluate on; without it, held-out rows, or folds.", default=None)
    test_file: str | None = option("Table to predict, with or without labels.", default=None)
    test_split: str | None = option("Split of the Hub data set to predict, or a part of one.", default=None, rare=True)
    validation_fraction: float | None = setting(
        "Fraction of the training rows held out for validation if there is no validation set; by default a tenth, "
        "unless models of folds score all rows of a small table.",
        default=None,
        gt=0,
        lt=1,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.data_dir is not None:
            raise ValueError("data_dir: tables are files; give train_file, validation_file and test_file")
        files = [name for name in self.paths if getattr(self, name) is not None]
        if self.dataset_name is not None and files:
            raise ValueError(f"dataset_name: give either a Hub data set or files; {', '.join(files)} is given too")
        if self.dataset_name is None and self.given_splits:
            use = next(iter(self.given_splits))
            raise ValueError(f"{use}_split: is for a Hub data set; give dataset_name, or {use}_file for a file")

    def tables(self, splits: Sequence[str]) -> dict[str, Table]:
        """Reads the tables of the available splits, the training set first.

        The training set is also read if the validation set has to be held out from it.

        Raises:
            DataError: a required training set is missing, or a table cannot be read.
        """
        if self.dataset_name is not None:
            known = hub_splits(self.dataset_name, self.dataset_config)
            places = self.splits_of(known, ("train", "validation", "test"))
        else:
            files = {"train": self.train_file, "validation": self.validation_file, "test": self.test_file}
            places = {name: file for name, file in files.items() if file is not None}
        needed = set(splits) | ({"train"} if "validation" in splits and "validation" not in places else set())
        if ("train" in needed and "train" not in places) or not places:
            if self.dataset_name is not None:
                raise self.missing(self.dataset_name, "train", known)
            raise DataError(
                "no table to read; give --train-file (and --validation-file, --test-file), or --dataset-name"
            )
        read = {name: place for name, place in places.items() if name in needed}
        tables = {name: self._table(place) for name, place in read.items()}
        if self.dataset_name is not None and len(read) > 1 and self.given_splits:
            check_disjoint(self.dataset_name, self.dataset_config, read)
        return tables

    def _table(self, place: str) -> Table:
        if self.dataset_name is None:
            return read_table(place)
        return load_hub_table(self.dataset_name, self.dataset_config, place)

    def held_out(
        self,
        train: Split,
        classes: Sequence[Hashable] | None,
        texts: np.ndarray,
        of_groups: Sequence[Hashable] | None,
    ) -> dict[str, Split]:
        """Splits one table into a training and a validation set; DataError if the table has too few rows.

        Args:
            train: the whole table.
            classes: class of each row, for a stratified split; None samples from all rows alike.
            texts: number of the text of each row, (N,), as of `bertkit.data.tables.table.same_texts`, so that copies
                stay on one side.
            of_groups: group of each row, as of `bertkit.tasks.folds.groups`, which stays on one side too.
        """
        rows, units = len(texts), texts if of_groups is None else joined(texts, numbered(of_groups))
        fraction = _USUAL_FRACTION if self.validation_fraction is None else self.validation_fraction
        kept, held = hold_out(classes, units, fraction, self.split_seed)
        copies = copies_in_words(texts, "example", "copies are on one side")
        if not len(held) and of_groups is None and copies:
            kept, held = hold_out(classes, np.arange(rows), fraction, self.split_seed)
            copies = (
                f"warning: {counted(len(np.unique(texts)), 'different text is', 'different texts are')} too few to "
                "keep copies on one side, so the scores are too high"
            )
        if not len(held):
            if classes is not None and (names := len(set(classes))) > rows / 2:
                raise DataError(
                    f"{train.source}: {rows} rows have {names} different labels; give the column of the classes with "
                    "--label-column"
                )
            number = len(np.unique(units))
            grouped = "" if of_groups is None else f" in {counted(number, 'group')}"
            raise DataError(
                f"{train.source}: {counted(rows, 'example')}{grouped} {inflected(rows, 'is', 'are')} too few to hold "
                f"out {fraction} of {'them' if classes is None else 'each class'}; give "
                f"--validation-file{', or a larger data.validation_fraction' if number > 1 else ''}"
            )
        note = f"{len(held)} of {rows} examples of {train.source}, drawn with data.split_seed {self.split_seed}"
        notes = (f"{note}; {copies}" if copies else note,)
        return {
            "train": train.select(kept),
            "validation": replace(train, notes=notes, doubts={}, labels="").select(held),
        }


class TableTask(Task):
    """Base class of tasks on tables; without a validation set, a part of the training set is held out.

    A task defines `read_split`, `learn_from_table` if its settings depend on the data, and `readable` if it leaves rows
    of a table out.
    """

    data: TableData
    scored_split = "validation"  # of a Hub data set
    can_score_by_folds: ClassVar[bool] = False  # a run may score every row by models of folds: outputs are of examples

    def load(self, splits: Sequence[str] | None = None) -> tuple[Self, dict[str, Split]]:
        splits = self.splits if splits is None else splits
        tables = self.data.tables(splits)
        task, notes = self, tuple[str, ...]()
        if tables:
            task, notes = self.learn_from_table(next(iter(tables.values())))  # the training set, where it is read
        loaded = collected(task.read_split, tables)
        if notes and "train" in loaded:
            loaded["train"] = replace(loaded["train"], notes=(*notes, *loaded["train"].notes))
        task, loaded = task._with_validation(splits, loaded)
        return task, task.limit_splits(splits, loaded)

    def learn_from_table(self, table: Table) -> tuple[Self, tuple[str, ...]]:
        """Returns the task with the settings that a table determines, such as its columns, and notes on them.

        Args:
            table: the training set, or another one if that is not read.
        """
        return self, ()

    def readable(self, table: Table) -> Table:
        """Returns the rows of a table that become examples, in order; by default all."""
        return table

    def read_split(self, name: str, table: Table) -> Split:
        """Builds the examples of a table, as `Split.of_table`; DataError with all its faults.

        Args:
            name: ``train``, ``validation`` or ``test``.
            table: its rows; those of a test set may lack labels.
        """
        raise NotImplementedError

    def _with_validation(
        self,
        splits: Sequence[str],
        loaded: dict[str, Split],
        classes: Sequence[Hashable] | None = None,
    ) -> tuple[Self, dict[str, Split]]:
        """Holds out a validation set if one is requested and missing; returns the changed task and the splits."""
        if "validation" not in splits or "validation" in loaded:
            return self, loaded
        if not {*self.label_columns} & {*loaded["train"].examples.column_names}:
            raise DataError(
                f"{loaded['train'].source}: no labels, so no validation set can be held out from it; give "
                "--validation-file with labels"
            )
        task, train = copy.copy(self), loaded["train"]
        task.scored_split = "train"
        known = groups(self, train.examples)
        return task, loaded | self.data.held_out(train, classes, text_numbers(self, train.examples), known)

    def hold_out(self, splits: Mapping[str, Split]) -> tuple[Self, dict[str, Split]]:
        """Returns what `load` does of splits that were read without a validation set: the task and all splits.

        They must be whole: `load` holds rows out before ``max_train_samples`` and ``max_eval_samples`` limit them.
        """
        return self._with_validation(["validation"], dict(splits))

    def limit_splits(self, splits: Sequence[str], loaded: Mapping[str, Split]) -> dict[str, Split]:
        """Returns the requested splits, limited to the number of examples in the settings."""
        return {name: self.data.limited(name, loaded[name]) for name in splits if name in loaded}


@groups.register(TableTask)
def groups_of_table(
    task: TableTask, examples: Dataset, convert: Callable[[Sequence[Any]], Sequence[Any]] = list
) -> list[str] | None:
    """Returns the values of any column of the training table, also of one that is no input.

    ``convert`` makes the group of each row from the values of the column.
    """
    column = task.data.group_column
    if column is None:
        return None
    with quietly():  # what is left out was said when the rows were read
        table = task.readable(task.data.tables(["train"])["train"])
    values = convert(table.column(column)[: len(examples)])
    raise_listed(
        [f"{table.place(row)}: no value for {column!r}" for row, each in enumerate(values) if is_missing(each)]
    )
    return list(map(str, values))


@hub_dataset.register(TableTask)
def _(task: TableTask) -> tuple[str, str, str] | None:
    data, use = task.data, task.scored_split
    if data.dataset_name is None:
        return None
    return data.dataset_name, data.dataset_config or "default", data.given_splits.get(use, use)
