"""GLUE: classification of a sentence or a pair, from the Hub or from GLUE's TSV files.

One recipe file describes one GLUE task (Wang et al. 2018, arXiv:1804.07461); this module has no task-specific code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from bertkit import metrics
from bertkit.data.reading.hub_sets import unreadable
from bertkit.data.tables import Table, read_table
from bertkit.data.tables.classes import class_ids
from bertkit.data.tables.labels import texts
from bertkit.data.tables.table import to_number
from bertkit.runtime.errors import DataError, noted, raise_all, shown
from bertkit.runtime.files import write_whole
from bertkit.runtime.options import setting
from bertkit.runtime.progress import counted
from bertkit.runtime.reading.hub import one_attempt
from bertkit.runtime.reading.paths import is_below
from bertkit.tasks.base import Outputs, one_array
from bertkit.tasks.classification.text_classification import TextClassification, TextData
from bertkit.tasks.splits import Columns, Split, hub_dataset, is_labelled
from bertkit.tasks.usual_recipes import recipe_of_bertkit

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

_FILES = {"train": "train.tsv", "validation": "dev.tsv", "test": "test.tsv"}
_INDEX_COLUMNS = ("index", "id")  # row ids of a test set, for the leaderboard; row numbers if neither exists


@dataclass(frozen=True, kw_only=True)
class TaskSettings(metrics.MetricSettings):
    """Description of a GLUE task."""

    name: str = setting("Name of the task, as on the Hub (`sst2`).")
    folder: str = setting("Its folder in GLUE's TSV download (`SST-2`).")
    text_columns: list[str] = setting(
        "The column of the sentence, or the two columns of the pair, as named on the Hub."
    )
    label_names: list[str] = setting("Class names in the order of their ids; empty for regression.", factory=list)
    label_column: str = setting("The column of the class or number, as named on the Hub.", default="label")
    file_text_columns: list[str] = setting("Names of the text columns in the TSV files, if they differ.", factory=list)
    file_label_column: str | None = setting("Name of the label column in the TSV files, if it differs.", default=None)
    file_labels: list[str] = setting(
        "The classes as written in the TSV files and for the leaderboard, in the order of `label_names`; empty "
        "if these are the names.",
        factory=list,
    )
    file_columns: dict[str, list[str]] = setting(
        "Split → column names of a TSV file without a header line.", factory=dict
    )
    files: dict[str, str] = setting("Split → TSV file, below `folder`.", factory=lambda: dict(_FILES))
    broken_rows: str = setting(
        "Treatment of TSV rows with a wrong number of fields: `error`, or `skip` to leave them out and count "
        "them, for data sets published with such rows.",
        default="error",
    )
    metric: str = setting("Name of the metric in `bertkit.metrics`.")
    main_metric: str = setting("The key of the metric by which checkpoints are compared.")
    hub_dataset: str = setting("The data set on the Hub; `name` is its configuration.", default="nyu-mll/glue")
    hub_splits: dict[str, str] = setting(
        "Split → its name on the Hub (`validation_matched`), or configuration and split (`ax/test`).", factory=dict
    )
    number_range: list[float] = setting(
        "The smallest and the largest number that the leaderboard accepts.", factory=list
    )
    submission: dict[str, str] = setting(
        "Split → name of its prediction file for the leaderboard (`SST-2.tsv`).", factory=dict
    )

    def __post_init__(self) -> None:
        if len(self.text_columns) not in (1, 2):
            raise ValueError(f"text_columns: expected one or two columns, got {self.text_columns}")
        if len(self.label_names) == 1:
            raise ValueError(f"label_names: expected at least two classes, or none for numbers, got {self.label_names}")
        for name, others in (("file_labels", self.label_names), ("file_text_columns", self.text_columns)):
            value = getattr(self, name)
            if value and len(value) != len(others):
                raise ValueError(f"{name}: expected one for each of {others}, got {value}")
        if self.broken_rows not in ("error", "skip"):
            raise ValueError(f"broken_rows: expected error or skip, got {self.broken_rows!r}")
        if self.metric not in metrics.names():
            raise ValueError(f"metric: unknown metric {self.metric!r}; expected one of {', '.join(metrics.names())}")
        if self.number_range and len(self.number_range) != 2:
            raise ValueError(f"number_range: expected the least and the greatest number, got {self.number_range}")
        if outside := [file for file in self.submission.values() if not is_below(file)]:
            raise ValueError(f"submission: {outside[0]!r} is not the name of a file in a folder")
        for name in ("train", "validation"):
            if name not in self.files:
                raise ValueError(f"files: expected one of the split {name}, got {', '.join(self.files) or 'none'}")
        if not is_below(self.name) or "/" in self.name:
            raise ValueError(f"name: {self.name!r} cannot be part of the name of a file")
        for name in ("file_columns", "hub_splits", "submission"):
            if unknown := getattr(self, name).keys() - self.files.keys():
                raise ValueError(
                    f"{name}: unknown splits {', '.join(sorted(unknown))}; expected {', '.join(self.files)}"
                )


@dataclass(frozen=True, kw_only=True)
class DataSettings(TextData):
    """Data settings of GLUE."""

    paths: ClassVar[tuple[str, ...]] = (*TextData.paths, "train_file")

    train_file: str | None = setting(
        "Table to train on instead of the task's training set, with columns as the task's files have them: "
        "`.csv`, `.tsv`, `.jsonl`, `.parquet` or `.xlsx`.",
        default=None,
    )


class GlueTask(TextClassification):
    """Classification of a sentence or a sentence pair, or regression on a pair."""

    kind = "glue"
    Settings = TaskSettings
    data_settings = DataSettings
    settings: TaskSettings
    data: DataSettings

    def __init__(self, settings: TaskSettings, data: DataSettings):
        super().__init__(settings, data)
        self.main_metric = settings.main_metric
        self.splits = tuple(settings.files)

    # ---- load -------------------------------------------------------------------------------------------------------

    def load(self, splits: Sequence[str] | None = None) -> tuple[Self, dict[str, Split]]:
        splits = self.splits if splits is None else splits
        own = [name for name in splits if name != "train" or self.data.train_file is None]
        found = self._load_folder(own) if self.data.data_dir is not None else self._load_hub(own)
        if "train" in splits and "train" not in own:
            table = read_table(str(self.data.train_file))
            self.columns_of(table)  # refuses rows without a text, which GLUE's own files may have
            found = {"train": self._split_of(table, "train"), **found}
        return self, {name: self.data.limited(name, split) for name, split in found.items()}

    def _load_folder(self, splits: Sequence[str]) -> dict[str, Split]:
        root, wanted = Path(str(self.data.data_dir)), self.settings.files["validation"]
        folder = next((each for each in (root / self.settings.folder, root) if (each / wanted).is_file()), None)
        if folder is None:
            raise DataError(
                f"{root}: contains neither {self.settings.folder}/{wanted} nor {wanted}; --data-dir takes GLUE's TSV "
                f"folder, or the folder of {self.settings.folder} itself"
            )
        found: dict[str, Split] = {}
        faults: list[str] = []
        for name in splits:
            path = folder / self.settings.files[name]
            if not path.is_file():
                if is_labelled(name):  # leaderboard files need a test set, training does not
                    faults.append(f"{path}: no such file")
                continue
            with noted(faults):
                table = read_table(
                    path, columns=self.settings.file_columns.get(name), skip_ragged=self.settings.broken_rows == "skip"
                )
                found[name] = self._split_of(table, name)
        raise_all(faults)
        return found

    def _split_of(self, table: Table, name: str) -> Split:
        """Builds the examples of a table, whose labels are named as in the task's TSV files; see `_in_own_names`."""
        table = self._in_own_names(table)
        columns = {column: table.column(column) for column in self.settings.text_columns}
        label = self.settings.file_label_column or self.settings.label_column
        index = next((each for each in _INDEX_COLUMNS if each in table.columns and not is_labelled(name)), None)
        columns["idx"] = table.column(index) if index else [str(row) for row in range(len(table))]
        if self._needs_labels(name) or (is_labelled(name) and label in table.columns):
            classes = self.settings.file_labels or self.settings.label_names
            columns["labels"] = class_ids(table, label, classes) if classes else table.numbers(label)
        notes = (f"{counted(table.skipped, 'broken row')} skipped",) if table.skipped else ()
        return Split.of_table(columns, table, notes)

    def columns_of(self, table: Table) -> dict[str, list[str]]:
        table = self._in_own_names(table)
        return {column: list(texts(table, column)) for column in self.settings.text_columns}

    def _in_own_names(self, table: Table) -> Table:
        """Returns a table with the names of the Hub for its text columns, which may have those of the TSV files."""
        own = self.settings.text_columns
        of_files = self.settings.file_text_columns or own
        table = table.with_names([*own, *of_files])
        if set(own) <= table.columns.keys() or not set(of_files) <= table.columns.keys():
            return table
        names = dict(zip(of_files, own, strict=True))
        return replace(table, columns={names.get(name, name): values for name, values in table.columns.items()})

    def _load_hub(self, splits: Sequence[str]) -> dict[str, Split]:
        loaded: dict[str, DatasetDict] = {}
        found = {}
        for name in splits:
            config, _, split = self.settings.hub_splits.get(name, name).rpartition("/")
            config = config or self.settings.name
            source = f"{self.settings.hub_dataset} ({config})"
            if config not in loaded:
                from datasets import load_dataset

                try:
                    with one_attempt():
                        loaded[config] = load_dataset(self.settings.hub_dataset, config)
                except Exception as error:  # the libraries raise errors of any type here, as in `find_set`
                    raise DataError(
                        f"{unreadable(f'data set {source}', error)}; without access to the Hub give GLUE's TSV folder "
                        "with --data-dir"
                    ) from error
            if split in loaded[config]:
                dataset = loaded[config][split]
                examples = self._hub_examples(dataset, f"{source}, {split}", labelled=is_labelled(name))
                found[name] = Split(examples, source, str(dataset._fingerprint))
            elif is_labelled(name):
                raise DataError(f"data set {source} has no split {split!r}, only {', '.join(loaded[config])}")
        return found

    def _hub_examples(self, dataset: Dataset, source: str, labelled: bool) -> Dataset:
        wanted = [*self.settings.text_columns, *([self.settings.label_column] if labelled else [])]
        missing = [column for column in wanted if column not in dataset.column_names]
        if missing:
            raise DataError(f"data set {source}: no column {missing[0]!r} among {', '.join(dataset.column_names)}")
        if "idx" not in dataset.column_names:
            dataset = dataset.add_column("idx", list(range(len(dataset))))
        examples = dataset.select_columns([*self.settings.text_columns, "idx"])
        if not labelled:  # the Hub has -1 in place of the leaderboard's private labels
            return examples
        given, known = dataset[self.settings.label_column][:], self.settings.label_names
        labels = np.array([known.index(label) if label in known else to_number(label) for label in given])
        if not known:
            unscored = np.flatnonzero(~np.isfinite(labels))
            if len(unscored):
                raise DataError(
                    f"data set {source}, row {unscored[0] + 1}: {self.settings.label_column} is "
                    f"{shown(given[unscored[0]])}; expected a finite number"
                )
            return examples.add_column("labels", labels.tolist())
        wrong = np.flatnonzero(~np.isin(labels, range(len(known))))
        if len(wrong):
            raise DataError(
                f"data set {source}, row {wrong[0] + 1}: label {shown(given[wrong[0]])} is not one of the {len(known)} "
                f"classes {', '.join(known)}"
            )
        labels = labels.astype(np.int64)
        names = getattr(dataset.features[self.settings.label_column], "names", known)
        if names != known and sorted(names) == sorted(known):  # a copy of other ids
            labels = np.asarray([known.index(name) for name in names])[labels]
        return examples.add_column("labels", labels.tolist())

    # ---- the leaderboard --------------------------------------------------------------------------------------------

    def write_predictions(
        self, split: str, outputs: Outputs, features: Columns, examples: Columns, folder: Path
    ) -> Path:
        path = folder / self.predictions_file(split)
        logits = one_array(outputs)
        if self.settings.label_names:  # labels as in the files; else numbers clipped to their range
            labels = self.settings.file_labels or self.settings.label_names
            predictions = [labels[index] for index in logits.argmax(axis=-1)]
        else:
            least, greatest = self.settings.number_range or (-np.inf, np.inf)
            predictions = [f"{number:.3f}" for number in logits[:, 0].clip(least, greatest)]
        rows = zip(examples["idx"], predictions, strict=True)
        write_whole(path, "index\tprediction\n" + "".join(f"{index}\t{label}\n" for index, label in rows))
        return path

    def predictions_file(self, split: str) -> str:
        """Returns the name of the prediction file of a split in a run directory.

        The prefix is that of a run's other results; ``submission`` holds the names for the leaderboard.
        """
        return f"predict_results_{self.name + split.removeprefix('test') if split.startswith('test') else split}.tsv"


@hub_dataset.register(GlueTask)
def _(task: GlueTask) -> tuple[str, str, str] | None:
    if task.data.data_dir is not None:
        return None
    config, _, split = task.settings.hub_splits.get("validation", "validation").rpartition("/")
    return task.settings.hub_dataset, config or task.settings.name, split


@recipe_of_bertkit.register(GlueTask)
def _(task: GlueTask) -> str:
    return f"finetune/glue/{task.name}"
