"""GLUE: classification of one sentence or a pair, from the Hub set or from GLUE's own TSV folder.

One recipe file describes one GLUE task; nothing here knows a task by name. ([CLS] A [SEP] B [SEP]) goes in, the
pooled [CLS] goes through one linear layer (BERT §4.1).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bertkit import metrics
from bertkit.corpus.documents import read_text
from bertkit.errors import DataError, listed
from bertkit.tasks.base import FineTuningData, Split, Task

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

_FILES = {"train": "train.tsv", "validation": "dev.tsv", "test": "test.tsv"}


@dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """One GLUE task.

    Attributes:
        name: as users and the Hub call it (``sst2``).
        folder: its folder in GLUE's TSV download (``SST-2``).
        text_columns: the column of the sentence, or the two columns of the pair.
        label_names: the classes, in the order of their ids.
        file_labels: the classes as the TSV files and the leaderboard write them, in the same order.
        label_column: the column of the class.
        metric: what scores it, a name of ``bertkit.metrics``.
        main_metric: the key of the metric by which checkpoints are compared.
        hub_dataset: the data set on the Hub; ``name`` is its configuration.
    """

    name: str
    folder: str
    text_columns: list[str]
    label_names: list[str]
    file_labels: list[str]
    label_column: str = "label"
    metric: str
    main_metric: str
    hub_dataset: str = "nyu-mll/glue"

    def __post_init__(self) -> None:
        if len(self.text_columns) not in (1, 2):
            raise ValueError(f"text_columns: expected one or two columns, got {self.text_columns}")
        if len(self.label_names) < 2:
            raise ValueError(f"label_names: expected at least two classes, got {self.label_names}")
        if len(self.file_labels) != len(self.label_names):
            raise ValueError(f"file_labels: expected one for each of {self.label_names}, got {self.file_labels}")
        if self.metric not in metrics.names():
            raise ValueError(f"metric: unknown metric {self.metric!r}; expected one of {', '.join(metrics.names())}")


class DataSettings(FineTuningData):
    """GLUE needs nothing beyond what all tasks share."""


class GlueTask(Task):
    """Classification of a sentence or a pair of sentences."""

    kind = "glue"
    head = "BertForSequenceClassification"
    pipeline_tag = "text-classification"
    task: TaskSettings

    def __init__(self, task: TaskSettings, data: FineTuningData):
        super().__init__(task, data)
        self.main_metric = task.main_metric
        self.metric = metrics.load(task.metric)

    @property
    def name(self) -> str:
        return self.task.name

    @property
    def dataset(self) -> tuple[str, str, str] | None:
        return (self.task.hub_dataset, self.task.name, "validation") if self.data.data_dir is None else None

    # ---- load -------------------------------------------------------------------------------------------------------

    def load(self, splits: Sequence[str] = ("train", "validation", "test")) -> dict[str, Split]:
        found = self._load_folder(splits) if self.data.data_dir is not None else self._load_hub(splits)
        return {name: self._limit(name, split) for name, split in found.items()}

    def _limit(self, name: str, split: Split) -> Split:
        limit = {"train": self.data.max_train_samples, "validation": self.data.max_eval_samples}.get(name)
        if limit is None or limit >= len(split.examples):
            return split
        return Split(split.examples.select(range(limit)), split.source, split.fingerprint)

    def _load_folder(self, splits: Sequence[str]) -> dict[str, Split]:
        assert self.data.data_dir is not None
        root = Path(self.data.data_dir)
        folder = next(
            (path for path in (root / self.task.folder, root) if (path / _FILES["validation"]).is_file()), None
        )
        if folder is None:
            raise DataError(
                f"{root}: no {self.task.folder}/{_FILES['validation']} and no {_FILES['validation']} there; "
                f"--data-dir takes GLUE's TSV folder, or the folder of {self.task.folder} itself"
            )
        found: dict[str, Split] = {}
        faults: list[str] = []
        for name in splits:
            path = folder / _FILES[name]
            if path.is_file():
                found[name] = self._read_tsv(path, labelled=name != "test", faults=faults)
            elif name != "test":  # leaderboard files need a test set, training does not
                faults.append(f"{path}: no such file")
        if faults:
            raise DataError(listed(faults, at_most=10))
        return found

    def _read_tsv(self, path: Path, labelled: bool, faults: list[str]) -> Split:
        """GLUE's TSV: a header, a tab between fields, quotes are plain characters, no escapes."""
        from datasets import Dataset

        text = read_text(path)
        lines = text.split("\n")
        header = lines[0].split("\t")
        wanted = [*self.task.text_columns, *([self.task.label_column] if labelled else [])]
        missing = [column for column in wanted if column not in header]
        if missing:
            faults.append(f"{path}, line 1: no column {', '.join(map(repr, missing))} among {', '.join(header)}")
            return Split(Dataset.from_dict({}), str(path), "")
        columns: dict[str, list[Any]] = {name: [] for name in [*self.task.text_columns, "idx"]}
        ids = {label: index for index, label in enumerate(self.task.file_labels)}
        labels: list[int] = []
        for number, line in enumerate(lines[1:], start=2):
            if not line:
                continue
            fields = line.split("\t")
            if len(fields) != len(header):
                faults.append(f"{path}, line {number}: {len(fields)} fields where the header has {len(header)}")
                continue
            row = dict(zip(header, fields, strict=True))
            if labelled and row[self.task.label_column] not in ids:
                label = row[self.task.label_column]
                faults.append(f"{path}, line {number}: label {label!r} is none of {', '.join(map(repr, ids))}")
                continue
            for column in self.task.text_columns:
                columns[column].append(row[column])
            columns["idx"].append(row.get("index", str(len(columns["idx"]))))
            if labelled:
                labels.append(ids[row[self.task.label_column]])
        if not columns["idx"] and not faults:
            faults.append(f"{path}: no examples after the header")
        examples = Dataset.from_dict(columns | ({"labels": labels} if labelled else {}))
        return Split(examples, str(path), "sha256:" + hashlib.sha256(text.encode()).hexdigest()[:16])

    def _load_hub(self, splits: Sequence[str]) -> dict[str, Split]:
        from datasets import load_dataset

        source = f"{self.task.hub_dataset} ({self.task.name})"
        try:
            loaded = load_dataset(self.task.hub_dataset, self.task.name)
        except (OSError, ValueError) as error:
            raise DataError(
                f"data set {source} cannot be loaded: {str(error).strip().splitlines()[0]}; "
                "without access to the Hub give GLUE's TSV folder with --data-dir"
            ) from error
        found = {}
        for name in splits:
            if name not in loaded:
                if name == "test":
                    continue
                raise DataError(f"data set {source} has no split {name!r}, only {', '.join(loaded)}")
            found[name] = Split(self._hub_examples(loaded[name], name, source), source, str(loaded[name]._fingerprint))
        return found

    def _hub_examples(self, dataset: Dataset, split: str, source: str) -> Dataset:
        wanted = [*self.task.text_columns, self.task.label_column]
        missing = [column for column in wanted if column not in dataset.column_names]
        if missing:
            raise DataError(
                f"data set {source}, {split}: no column {missing[0]!r} among {', '.join(dataset.column_names)}"
            )
        labels = np.asarray(dataset[self.task.label_column][:])
        if "idx" not in dataset.column_names:
            dataset = dataset.add_column("idx", list(range(len(dataset))))
        examples = dataset.select_columns([*self.task.text_columns, "idx"])
        if split == "test":  # the Hub writes -1 for the labels that the leaderboard keeps
            return examples
        wrong = np.flatnonzero((labels < 0) | (labels >= len(self.task.label_names)))
        if len(wrong):
            raise DataError(
                f"data set {source}, {split}, row {wrong[0]}: label {labels[wrong[0]]} is none of the "
                f"{len(self.task.label_names)} classes {', '.join(self.task.label_names)}"
            )
        return examples.add_column("labels", labels.tolist())

    # ---- encode → (model) → decode → score --------------------------------------------------------------------------

    def config(self) -> dict[str, Any]:
        names = self.task.label_names
        return {
            "num_labels": len(names),
            "id2label": dict(enumerate(names)),
            "label2id": {name: index for index, name in enumerate(names)},
            "problem_type": "single_label_classification",
        }

    def encode(self, examples: Mapping[str, Sequence[Any]], tokenizer: PreTrainedTokenizerBase) -> dict[str, list[Any]]:
        texts = [list(examples[column]) for column in self.task.text_columns]
        features = dict(tokenizer(*texts, truncation=False, padding=False, return_token_type_ids=True, verbose=False))
        full_lengths = [len(ids) for ids in features["input_ids"]]
        long = [row for row, length in enumerate(full_lengths) if length > self.data.max_seq_length]
        if long:
            cut = tokenizer(
                *[[column[row] for row in long] for column in texts],
                truncation=True,
                max_length=self.data.max_seq_length,
                padding=False,
                return_token_type_ids=True,
            )
            for name in self.model_inputs:
                for row, values in zip(long, cut[name], strict=True):
                    features[name][row] = values
        features["length"] = [len(ids) for ids in features["input_ids"]]
        features["full_length"] = full_lengths
        if "labels" in examples:
            features["labels"] = list(examples["labels"])
        return features

    def decode(self, logits: np.ndarray) -> list[dict[str, Any]]:
        shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
        probabilities = shifted / shifted.sum(axis=-1, keepdims=True)
        names = self.task.label_names
        return [
            {
                "label": names[int(row.argmax())],
                "probability": float(row.max()),
                "probabilities": {name: float(value) for name, value in zip(names, row, strict=True)},
            }
            for row in probabilities
        ]

    def score(self, logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
        return dict(self.metric.compute(predictions=logits.argmax(axis=-1), references=labels))

    def read_input(self, lines: Sequence[str]) -> dict[str, list[str]]:
        columns = self.task.text_columns
        if len(columns) == 1:
            return {columns[0]: list(lines)}
        pairs = [line.split("\t") for line in lines]
        for number, pair in enumerate(pairs, start=1):
            if len(pair) != 2:
                raise DataError(
                    f"input {number}: expected two texts with a tab between them, got {lines[number - 1]!r}"
                )
        return {column: [pair[position] for pair in pairs] for position, column in enumerate(columns)}

    def line(self, prediction: Mapping[str, Any]) -> str:
        return f"{prediction['label']}\t{prediction['probability']:.4f}"

    def write_test_predictions(self, examples: Dataset, logits: np.ndarray, folder: Path) -> Path:
        path = folder / f"predict_results_{self.name}.tsv"
        labels = [self.task.file_labels[index] for index in logits.argmax(axis=-1)]
        rows = [f"{index}\t{label}\n" for index, label in zip(examples["idx"], labels, strict=True)]
        path.write_text("index\tprediction\n" + "".join(rows), encoding="utf-8")
        return path


TASK = GlueTask
