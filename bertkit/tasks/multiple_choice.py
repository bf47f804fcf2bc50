"""Multiple choice: selects the ending that continues a context (BERT §4.4, SWAG).

The model reads [CLS] context [SEP] ending [SEP] once per ending; a vector scores each pooled [CLS], with a softmax over
the endings of an example. An example has two or more endings.

Dimension letters: N inputs, B examples of a batch, C the most endings of any example, S tokens.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from bertkit import metrics
from bertkit.data.tables import Table
from bertkit.data.tables.classes import is_missing, values_of
from bertkit.data.tables.labels import texts
from bertkit.data.tables.table import find_column, matching, to_number, usual_column
from bertkit.runtime.errors import CheckpointError, DataError, noted, raise_all, raise_listed, shown
from bertkit.runtime.options import check_different, check_ranges, option, setting
from bertkit.runtime.progress import counted
from bertkit.tasks.base import Outputs, PerExampleTask, labels_of, one_array, softmax, texts_of
from bertkit.tasks.batches import grouped, padded_lists
from bertkit.tasks.splits import Columns, Split
from bertkit.tasks.table_data import TableData, TableTask
from bertkit.tasks.windows import cut_rows

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_CONTEXTS = ("context", "sent1", "question", "premise")
_ENDINGS = ("endings", "choices", "options", "answers")
_LABELS = ("label", "answer")
_UNLIKELY = 1e-6  # that no right ending of a table is the first one


@dataclass(frozen=True, kw_only=True)
class TaskSettings(metrics.MetricSettings):
    """Column names of the tables. Values that are not set are derived from the training data and stored in the
    checkpoint.
    """

    name: str = setting("Name of the task in results.", default="multiple-choice")
    context_column: str | None = option(
        "Column of the text that the endings continue; by default one with a usual name.", default=None
    )
    start_column: str | None = setting(
        "The beginning of every ending; `null` is `sent2` if the context is `sent1`, as in SWAG, else there is none.",
        default=None,
    )
    ending_columns: list[str] = option(
        "Column of lists of endings, or one column per ending (`ending0`, `ending1`), where an empty field "
        "means that there is none; by default those with usual names.",
        factory=list,
        flag="--ending-column",
    )
    label_column: str | None = option(
        "Column of the index of the correct ending, from 0; `label` or `answer` by default.", default=None
    )
    num_choices: int = setting(
        "The largest number of endings of an example in the loaded data, to which batches are padded; 0 derives"
        " it from the data. Inputs to predict may have more.",
        default=0,
        ge=0,
    )

    def __post_init__(self) -> None:
        check_ranges(self)
        check_different("ending_columns", self.ending_columns, "column")


@dataclass(frozen=True, kw_only=True)
class DataSettings(TableData):
    """Source of the table rows; ``max_seq_length`` limits the tokens of a context and an ending together."""


class MultipleChoiceTask(TableTask, PerExampleTask):
    """Selection of the correct ending among several."""

    kind: ClassVar[str] = "multiple_choice"
    Settings = TaskSettings
    data_settings = DataSettings
    head = "BertForMultipleChoice"
    pipeline_tag = "multiple-choice"
    main_metric = "accuracy"
    settings: TaskSettings
    data: DataSettings

    def config(self) -> dict[str, Any]:
        return {}

    # ---- load -------------------------------------------------------------------------------------------------------

    def load(self, splits: Sequence[str] | None = None) -> tuple[Self, dict[str, Split]]:
        task, loaded = super().load(splits)
        counts = [len(endings) for split in loaded.values() for endings in split.examples["endings"][:]]
        return task.with_settings(num_choices=max([task.settings.num_choices, *counts])), loaded

    def learn_from_table(self, table: Table) -> tuple[Self, tuple[str, ...]]:
        settings, names = self.settings, list(table.columns)
        if settings.num_choices and all((settings.context_column, settings.ending_columns, settings.label_column)):
            return self, ()  # as of a checkpoint
        context = settings.context_column or find_column(
            names, None, _CONTEXTS, table.source, "--context-column", "contexts"
        )
        endings = settings.ending_columns
        if not endings and usual_column(names, _ENDINGS) is None:
            keys = {name: name.strip().casefold() for name in names}
            numbers = {name: key.removeprefix("ending") for name, key in keys.items() if key.startswith("ending")}
            endings = sorted(
                (name for name, number in numbers.items() if number.isdecimal()), key=lambda name: int(numbers[name])
            )
        task = self.with_settings(
            context_column=context,
            start_column=settings.start_column or (matching("sent2", names) if matching("sent1", [context]) else None),
            ending_columns=endings or [find_column(names, None, _ENDINGS, table.source, "--ending-column", "endings")],
            label_column=settings.label_column or usual_column(names, _LABELS) or "label",
        )
        return task, ()

    def readable(self, table: Table) -> Table:
        settings = self.settings
        names = (settings.context_column, settings.start_column, *settings.ending_columns, settings.label_column)
        return table.with_names(filter(None, names))

    def read_split(self, name: str, table: Table) -> Split:
        columns: dict[str, list[Any]] = {}
        faults: list[str] = []
        table = self.readable(table)
        with noted(faults):
            columns = self.columns_of(table)
        label = str(self.settings.label_column)
        given = table.columns.get(label, ())
        # A column with only empty values or -1, as that of a test set on the Hub, has no labels.
        if self._needs_labels(name) or not all(is_missing(each) or to_number(each) == -1 for each in given):
            with noted(faults):
                columns["labels"] = _positions(table, label, columns.get("endings"))
        raise_all(faults)
        if name == "train" and "labels" in columns:
            chances = [1 - 1 / len(endings) for endings in columns["endings"]]
            if 0 not in columns["labels"] and math.prod(chances) < _UNLIKELY:  # labels that count from 1
                raise DataError(
                    f"{table.source}: {label} is never 0, the first ending, in {len(chances):,} rows, so it seems to "
                    "count from 1; subtract 1"
                )
        return Split.of_table(columns, table)

    def columns_of(self, table: Table) -> dict[str, list[Any]]:
        """Returns ``context``, and ``endings``: a list of texts per row."""
        found: dict[str, list[str]] = {}
        endings: list[list[str]] = []
        faults: list[str] = []
        table = self.readable(table)
        for name in (self.settings.context_column, self.settings.start_column):
            if name is not None:
                with noted(faults):
                    found[name] = list(texts(table, name))
        with noted(faults):
            endings = self._endings(table)
        raise_all(faults)
        if self.settings.start_column is not None:
            starts = found[self.settings.start_column]
            endings = [[f"{start} {ending}" for ending in row] for start, row in zip(starts, endings, strict=True)]
        return {"context": found[str(self.settings.context_column)], "endings": endings}

    def _endings(self, table: Table) -> list[list[str]]:
        """Reads the endings of every row."""
        table.select(*(name for name in self.settings.ending_columns if name not in table.columns))  # raises for these
        columns = [table.columns[name] for name in self.settings.ending_columns]
        found, faults = columns[0], []
        if len(columns) > 1:  # only the last ones may be empty, since the label is an index into the endings
            rows = list(zip(*columns, strict=True))
            filled = [[number for number, each in enumerate(row, 1) if not is_missing(each)] for row in rows]
            found = [list(row[: max(numbers, default=0)]) for row, numbers in zip(rows, filled, strict=True)]
        for row, endings in enumerate(found):
            if not isinstance(endings, list) or not all(isinstance(each, str) and each.strip() for each in endings):
                faults.append(
                    f"{table.place(row)}: expected a list of endings, none of them empty, got {shown(endings)}"
                )
            elif len(endings) < 2:
                faults.append(f"{table.place(row)}: {counted(len(endings), 'ending')}; expected two or more")
        raise_listed(faults)
        return list(found)

    # ---- encode → (model) → decode → score --------------------------------------------------------------------------

    def encode(self, examples: Columns, tokenizer: PreTrainedTokenizerBase) -> dict[str, list[Any]]:
        """Encodes as `Task.encode`; each input column holds a list per example, with one input per ending.

        ``choice_count`` is the number of endings of each example.
        """
        counts = [len(endings) for endings in examples["endings"]]
        whole = tokenizer(*_pairs(examples), truncation=False, padding=False, verbose=False)["input_ids"]
        cut = tokenizer(
            *_pairs(self.cut_texts(examples, tokenizer)),
            truncation=True,
            max_length=self.data.max_seq_length,
            padding=False,
            return_token_type_ids=True,
        )
        features = grouped({**cut, "whole": whole}, counts)
        features["full_length"] = [sum(map(len, row)) for row in features.pop("whole")]
        features["length"] = [sum(map(len, row)) for row in features["input_ids"]]
        features["choice_count"] = counts
        if "labels" in examples:
            features["labels"] = list(examples["labels"])
        return features

    def cut_texts(self, examples: Columns, tokenizer: PreTrainedTokenizerBase) -> Columns:
        """Returns examples whose texts are cut to what `encode` keeps of them, see `bertkit.tasks.windows`."""
        rows = [[context, *endings] for context, endings in zip(examples["context"], examples["endings"], strict=True)]
        rows = cut_rows(rows, tokenizer, self.data.max_seq_length)
        return {**examples, "context": [row[0] for row in rows], "endings": [row[1:] for row in rows]}

    def collate(
        self, rows: Sequence[Mapping[str, Any]], tokenizer: PreTrainedTokenizerBase, inputs: Sequence[str]
    ) -> dict[str, Tensor]:
        """Collates as `Task.collate`, with inputs (B, C, S) and ``choice_counts`` (B,).

        An example with fewer than C endings is padded with copies of its last one. C is ``num_choices``, so that all
        batches of the loaded data have the same C; it is larger if a row of the batch has more endings.
        """
        import torch

        counts = [len(row["input_ids"]) for row in rows]
        shaped = padded_lists(rows, tokenizer, inputs, max(self.settings.num_choices, *counts))
        return labels_of(rows) | {"choice_counts": torch.tensor(counts)} | shaped

    def prepare(self, model: PreTrainedModel) -> None:
        if not hasattr(model, "classifier"):
            raise CheckpointError(
                f"{type(model).__name__}: multiple choice needs a head with a classifier; give a BERT checkpoint"
            )
        _Choices(model, model.classifier)

    def decode(self, outputs: Outputs, features: Columns, examples: Columns) -> list[dict[str, Any]]:
        """Returns ``choice``, the index of the predicted ending from 0, its ``probability``, and all
        ``probabilities``."""
        logits = _of_endings(outputs, features)
        return [
            {
                "choice": int(row.argmax()),
                "probability": float(row.max()),
                "probabilities": [float(value) for value, logit in zip(row, scores, strict=True) if np.isfinite(logit)],
            }
            for row, scores in zip(softmax(logits), logits, strict=True)
        ]

    def predictions_and_references(
        self, outputs: Outputs, features: Columns, examples: Columns
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        return _of_endings(outputs, features).argmax(axis=-1), features["labels"]

    def compute_metrics(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        return metrics.compute("accuracy", predictions, references)

    def read_input(self, lines: Sequence[str], first: int = 1) -> dict[str, list[Any]]:
        """Parses lines of a context and its endings, separated by tabs."""
        rows = [line.split("\t") for line in lines]
        for number, row in enumerate(rows, first):
            if len(row) < 3 or not all(field.strip() for field in row):
                raise DataError(
                    f"input {number}: expected a context and two or more endings, separated by tabs, none of them empty"
                )
        return {"context": [row[0] for row in rows], "endings": [row[1:] for row in rows]}


@texts_of.register(MultipleChoiceTask)
def _(task: MultipleChoiceTask, examples: Columns) -> dict[str, list[str]]:
    return {"context": list(examples["context"]), "endings": ["\n".join(row) for row in examples["endings"]]}


class _Choices:
    """Hooks that take ``choice_counts`` from a model's inputs and mask the scores of padding choices.

    The scores are masked before the loss is computed of them: padding choices have probability 0 and no gradient. The
    mask is the lowest number instead of -inf, so that a score that is not finite is always a fault of the weights.

    Args:
        model: a model with a multiple-choice head; inputs (B, C, S).
        classifier: the layer of the model that scores each choice, (B · C, 1).
    """

    def __init__(self, model: PreTrainedModel, classifier: nn.Module):
        self.counts: Tensor | None = None
        model.register_forward_pre_hook(self._take, with_kwargs=True)
        classifier.register_forward_hook(self._mask)

    def _take(self, model: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        self.counts = kwargs.pop("choice_counts", None)
        return args, kwargs

    def _mask(self, classifier: nn.Module, args: Any, scores: Tensor) -> Tensor | None:
        if self.counts is None:
            return None
        import torch

        choices = torch.arange(len(scores) // len(self.counts), device=scores.device)
        is_padding = (choices >= self.counts[:, None]).reshape(-1, 1)
        return scores.masked_fill(is_padding, torch.finfo(scores.dtype).min)


def _positions(table: Table, column: str, endings: Sequence[Sequence[str]] | None) -> list[int]:
    """Reads the position of the correct ending of every row, from 0.

    Args:
        table, column: the labels.
        endings: the endings of every row; None if they are faulty, so that no position is too large.

    Raises:
        DataError: there is no such column, or a label is no position; the message names at most ten rows.
    """
    values, faults = values_of(table, column), []
    for row, value in enumerate(values):
        count = math.inf if endings is None else len(endings[row])
        if not (str(value).isdecimal() and to_number(value) < count):
            last = "" if endings is None else f" to {len(endings[row]) - 1}"
            faults.append(
                f"{table.place(row)}: label {shown(value)}; expected the position of the correct ending, from 0{last}"
            )
    raise_listed(faults)
    return list(map(int, values))


def _pairs(examples: Columns) -> tuple[list[str], list[str]]:
    """Returns for each ending its context and itself."""
    rows = zip(examples["context"], examples["endings"], strict=True)
    pairs = [(context, ending) for context, endings in rows for ending in endings]
    return [context for context, _ in pairs], [ending for _, ending in pairs]


def _of_endings(outputs: Outputs, features: Columns) -> np.ndarray:
    """Returns logits (N, C) with -inf for padding choices, including the padding between batches of different C."""
    logits = one_array(outputs)
    there = np.arange(logits.shape[-1]) < np.asarray(features["choice_count"])[:, None]
    return np.where(there, logits, -np.inf)
