"""Sequence labelling: named entities, chunks, part-of-speech tags (BERT §5.3).

The label of a word is predicted from its first piece, as in the paper. Every word gets exactly one tag, in
texts of any length.

Dimension letters: B inputs of a batch, S tokens, C labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from bertkit import metrics
from bertkit.data.tables import Table
from bertkit.metrics.entities import OUTSIDE, find_entities, score_entities
from bertkit.model.checkpoint.encoders import label_fields
from bertkit.model.labels_bert import IGNORE_INDEX
from bertkit.runtime.errors import CheckpointError, DataError, collected
from bertkit.tasks.base import Outputs, PerExampleTask, one_array, padded, softmax, texts_of
from bertkit.tasks.folds import groups
from bertkit.tasks.ner import sentences
from bertkit.tasks.ner.annotations import SpanTable, check_texts, raw_texts, with_words
from bertkit.tasks.ner.inputs import NO_WORD, InputForm, neighbours, split_words, word_pieces
from bertkit.tasks.ner.schemes import (
    find_labels,
    inside,
    label_ids,
    line_on_labels,
    name_of_scheme,
    note_on_impossible,
    with_usual_tags,
)
from bertkit.tasks.ner.sentences import write_conll
from bertkit.tasks.ner.settings import DataSettings, TaskSettings
from bertkit.tasks.ner.word_rows import DOCUMENT_ID
from bertkit.tasks.splits import Columns, Split, splits_to_write
from bertkit.tasks.table_data import TableTask, groups_of_table

if TYPE_CHECKING:
    from collections.abc import Collection

    from datasets import Dataset
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

_NEIGHBOURS = ("before", "after")
IDS = ("id", DOCUMENT_ID)  # of texts; predictions keep them, so that they can be matched and trained on


class Sentences(NamedTuple):
    """Sentences of a split.

    Attributes:
        table: their table.
        words: words of each sentence.
        tags: tags of each word; ``None`` for a test set without tags.
        form: a note on tags of another form than prefix, hyphen and type, or under other names than the model's.
    """

    table: Table
    words: list[list[str]]
    tags: list[list[str]] | None
    form: str = ""


class NerTask(TableTask, PerExampleTask):
    """Sequence labelling with one tag per word."""

    kind = "ner"
    Settings = TaskSettings
    data_settings = DataSettings
    head = "BertForTokenClassification"
    pipeline_tag = "token-classification"
    settings: TaskSettings
    data: DataSettings

    @property
    def main_metric(self) -> str:  # type: ignore[override]
        return "accuracy" if self._plain else "overall_f1"

    @property
    def _plain(self) -> bool:
        return self.settings.scheme == "plain"

    @property
    def model_labels(self) -> Sequence[str]:
        """Returns the labels of the model's outputs in the order of their ids."""
        return self.settings.label_names

    def config(self) -> dict[str, Any]:
        return label_fields(self.settings.label_names)

    # ---- load -------------------------------------------------------------------------------------------------------

    def load(self, splits: Sequence[str] | None = None) -> tuple[Self, dict[str, Split]]:
        splits = self.splits if splits is None else splits
        read = collected(self._read, self.data.tables(splits))
        task = self
        if read and not (self.settings.scheme and self.settings.label_names):
            first = next(iter(read.values()))  # the training set, if it is read
            column = sentences.tag_column(first.table, self.settings.tag_column)
            names = self.settings.label_names
            scheme, names = find_labels(first.table, column, first.tags or [], self.settings.scheme, names)
            task = self.with_settings(scheme=scheme, label_names=names)
        task, loaded = task._with_validation(splits, collected(task._split_of, read))
        return task, task.limit_splits(splits, loaded)

    def _read(self, name: str, table: Table) -> Sentences:
        """Reads the words and tags of a table; texts with spans are converted to words with tags."""
        settings, needs_tags = self.settings, self._needs_labels(name)
        table = self.in_words(table, needs_tags)
        token_column = sentences.token_column(table, settings.token_column)
        words = sentences.read_words(table, token_column)
        if not needs_tags and not sentences.has_tags(table, settings.tag_column):
            return Sentences(table, words, None)
        if self._plain and isinstance(table, SpanTable):
            raise DataError(f"{table.source}: has spans, and task.scheme plain has a tag for every word; remove it")
        column = sentences.tag_column(table, settings.tag_column)
        if column == token_column:
            raise DataError(
                f"{table.source}: column {column} contains the words; give the column of the tags with --tag-column"
            )
        tags = sentences.read_tags(table, column, words)
        return Sentences(table, words, *((tags, "") if self._plain else with_usual_tags(tags)))

    def readable(self, table: Table) -> Table:
        return self.in_words(table, needs_tags=True)

    def in_words(self, table: Table, needs_tags: bool) -> Table:
        """Converts a table of texts with spans to one of words, see `with_words`."""
        columns = self.settings.token_column, self.settings.tag_column
        return with_words(table, *columns, needs_tags=needs_tags, snap=self.data.snap, unit=self.data.offset_unit)

    def _split_of(self, name: str, of_split: Sentences) -> Split:
        table, words, tags, form = of_split
        columns: dict[str, list[Any]] = {"tokens": words, **self._context(table, words)}
        if tags is None:
            return Split.of_table(columns, table)
        scheme = self.settings.scheme or "plain"
        columns["labels"] = label_ids(table, tags, self.settings.label_names, scheme)
        line = self._line_on_labels(columns["labels"]) if name == "train" else ""
        notes: list[str] = []
        doubts: dict[str, str] = {}
        if isinstance(table, SpanTable):
            notes += table.notes
        elif scheme != "plain":
            notes += [] if line else [name_of_scheme(scheme)]  # the line names it too
            if impossible := note_on_impossible(table, tags, scheme):
                notes.append(f"warning: {impossible}")
                doubts["impossible-tags"] = impossible
        split = Split.of_table(columns, table, tuple(filter(None, (line, *notes, form))), doubts)
        return replace(split, labels=line, line_on_labels=lambda part: self._line_on_labels(part["labels"]))

    def _line_on_labels(self, labels: Sequence[Sequence[int]]) -> str:
        """Returns the sentence on the labels of a training set."""
        tags = list(map(self._tags, labels))
        types = tags if self._plain else [[kind for kind, _, _ in find_entities(each)] for each in tags]
        counts = Counter(chain.from_iterable(types))
        names = self.settings.label_names if self._plain else sorted(counts)
        return line_on_labels(self.settings.scheme or "plain", {name: counts[name] for name in names})

    def _context(self, table: Table, words: list[list[str]]) -> dict[str, list[list[str]]]:
        if self.data.context == "sentence":
            return {}
        before, after = neighbours(words, sentences.document_ids(table), self.data.max_seq_length)
        return {"before": before, "after": after}

    # ---- encode -----------------------------------------------------------------------------------------------------

    def encode(self, examples: Columns, tokenizer: PreTrainedTokenizerBase) -> dict[str, list[Any]]:
        """Encodes as `Task.encode`; ``word_ids`` marks the token of each tagged word, see
        `bertkit.tasks.ner.inputs`."""
        cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
        if cls is None or sep is None:
            raise CheckpointError("this tokenizer has no [CLS] or [SEP] token, under any name; give that of an encoder")
        ids = {name: index for index, name in enumerate(self.settings.label_names)}
        further = None
        if self.settings.label_all_subwords:
            further = [index if self._plain else ids[inside(name)] for name, index in ids.items()]
        form = InputForm(self.data.max_seq_length, self.data.overlap, cls, sep, further)
        columns = [word_pieces(examples["tokens"], tokenizer)]
        for name in _NEIGHBOURS:
            columns.append(word_pieces(examples[name], tokenizer) if name in examples else [[] for _ in columns[0]])
        labelled = "labels" in examples
        features: dict[str, list[Any]] = {"input_ids": [], "word_ids": [], "example": []}
        if labelled:
            features["labels"] = []
        for example, (pieces, before, after) in enumerate(zip(*columns, strict=True)):
            labels = examples["labels"][example] if labelled else None
            for input_ids, word_ids, tagged in form.inputs(pieces, before, after, labels):
                features["input_ids"].append(input_ids)
                features["word_ids"].append(word_ids)
                features["example"].append(example)
                if labelled:
                    features["labels"].append(tagged)
        lengths = list(map(len, features["input_ids"]))
        features["attention_mask"] = [[1] * length for length in lengths]
        features["token_type_ids"] = [[0] * length for length in lengths]
        return {**features, "length": lengths, "full_length": lengths}

    def collate(
        self, rows: Sequence[Mapping[str, Any]], tokenizer: PreTrainedTokenizerBase, inputs: Sequence[str]
    ) -> dict[str, Tensor]:
        """Collates as `Task.collate`; ``labels`` are (B, S) int64, padded with -100."""
        import torch
        from torch.nn.utils.rnn import pad_sequence

        batch = dict(padded(rows, tokenizer, inputs))
        if "labels" not in rows[0]:
            return batch
        labels = [torch.tensor(row["labels"]) for row in rows]
        return {"labels": pad_sequence(labels, batch_first=True, padding_value=IGNORE_INDEX), **batch}

    # ---- decode → score ---------------------------------------------------------------------------------------------

    def word_probabilities(self, outputs: Outputs, features: Columns, examples: Columns) -> list[np.ndarray]:
        """Computes the label probabilities of each word, one array (words, C) per example.

        A word without pieces is not part of the input; its label has probability 1: ``O``, or without ``O`` the first
        label, the most frequent one of the training set unless ``task.label_names`` was given.
        """
        logits, names = one_array(outputs), self.model_labels
        unseen = np.eye(1, len(names), names.index(OUTSIDE) if OUTSIDE in names else 0)
        probabilities = [np.repeat(unseen, len(words), axis=0) for words in examples["tokens"]]
        for row, example, word_ids in zip(logits, features["example"], features["word_ids"], strict=True):
            words = np.asarray(word_ids)
            tokens = np.flatnonzero(words != NO_WORD)
            if len(tokens):
                probabilities[example][words[tokens]] = softmax(row[tokens])
        return probabilities

    def _tags(self, ids: Sequence[int] | np.ndarray) -> list[str]:
        return [self.settings.label_names[index] for index in ids]

    def decode(self, outputs: Outputs, features: Columns, examples: Columns) -> list[dict[str, Any]]:
        """Returns predictions for sentences.

        Inputs given as words have ``tags``, one per word, and their ``probabilities``. Raw texts have ``entities``,
        each with ``text``, ``type``, ``probability`` (the mean over the tags of its words), ``start`` and ``end`` in
        characters; for plain tags they have ``words``, with ``tag`` in place of ``type``.
        """
        predictions: list[dict[str, Any]] = []
        for example, probabilities in enumerate(self.word_probabilities(outputs, features, examples)):
            tags, best = self._tags(probabilities.argmax(axis=-1)), probabilities.max(axis=-1, initial=0)
            if "text" not in examples:
                predictions.append({"tags": tags, "probabilities": best.tolist()})
                continue
            text, starts, ends = (examples[name][example] for name in ("text", "starts", "ends"))
            words = [(tag, word, word + 1) for word, tag in enumerate(tags)]
            spans = words if self._plain else find_entities(tags)
            predictions.append(self._in_text(text, spans, starts, ends, best))
        return predictions

    def _in_text(
        self,
        text: str,
        spans: Iterable[tuple[str, int, int]],
        starts: Sequence[int],
        ends: Sequence[int],
        probabilities: np.ndarray,
    ) -> dict[str, Any]:
        """Returns the prediction for a raw text.

        Args:
            text: the text.
            spans: type or plain tag, first unit and end of the units (words or tokens) of each entity.
            starts, ends: characters of each unit.
            probabilities: probability of the tag of each unit, (units,).
        """
        key, kind = ("words", "tag") if self._plain else ("entities", "type")
        return {
            key: [
                {
                    "text": text[starts[first] : ends[end - 1]],
                    kind: value,
                    "probability": float(probabilities[first:end].mean()),
                    "start": starts[first],
                    "end": ends[end - 1],
                }
                for value, first, end in spans
                if starts[first] < ends[end - 1]  # not of white space alone
            ]
        }

    def predictions_and_references(
        self, outputs: Outputs, features: Columns, examples: Columns
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Returns the label ids of the words of each sentence."""
        probabilities = self.word_probabilities(outputs, features, examples)
        return [rows.argmax(axis=-1) for rows in probabilities], examples["labels"]

    def to_labels(self, values: Sequence[Any]) -> list[Any]:
        return list(map(self._tags, values))

    def compute_metrics(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        """Computes ``accuracy`` for plain tags, else ``overall_f1`` and the other scores of `score_entities`, and
        ``entity/PER/f1`` etc. for each type."""
        if self._plain:
            flat, flat_expected = np.concatenate(predictions), np.concatenate(references)
            return metrics.compute("accuracy", flat, flat_expected)
        scores, counts = score_entities(self.to_labels(predictions), self.to_labels(references), self.settings.strict)
        of_types = {
            kind: zip(("precision", "recall", "f1"), each.scores(), strict=True) for kind, each in counts.items()
        }
        return scores | {f"entity/{kind}/{name}": value for kind, each in of_types.items() for name, value in each}

    # ---- what users give and get ------------------------------------------------------------------------------------

    def read_input(self, lines: Sequence[str], first: int = 1) -> dict[str, list[Any]]:
        """Splits raw texts into words with `bertkit.tasks.ner.inputs`."""
        words = [split_words(line) for line in lines]
        return {
            "text": list(lines),
            "tokens": [[word.text for word in of_line] for of_line in words],
            "starts": [[word.start for word in of_line] for of_line in words],
            "ends": [[word.end for word in of_line] for of_line in words],
        }

    def columns_of(self, table: Table) -> dict[str, list[Any]]:
        texts = raw_texts(table, self.settings.token_column)
        if texts is not None:
            columns = self.read_input(check_texts(table, texts))
            ids = {name: list(table.columns[name]) for name in IDS if name in table.columns}
            ids = {name: values for name, values in ids.items() if all(isinstance(each, str | int) for each in values)}
            words = columns.get("tokens")  # none where texts stay whole, see `bertkit.tasks.ner.stock`
            return {**columns, **ids, **(self._context(table, words) if words is not None else {})}
        words = sentences.read_words(table, sentences.token_column(table, self.settings.token_column))
        return {"tokens": words, **self._context(table, words)}

    def write_predictions(
        self, split: str, outputs: Outputs, features: Columns, examples: Columns, folder: Path
    ) -> Path:
        """Writes ``predictions.conll``: token, gold tag if known, predicted tag; entity tags are in IOB2."""
        columns = [examples["tokens"]]
        if "labels" in examples:
            columns.append([self._tags(ids) for ids in examples["labels"]])
        columns.append([prediction["tags"] for prediction in self.decode(outputs, features, examples)])
        path = folder / "predictions.conll"
        write_conll(path, columns)
        return path


@groups.register(NerTask)
def _(task: NerTask, examples: Dataset) -> Sequence[Hashable] | None:
    """Returns the values of a column of the training table; of a column with a value for each word, that of the first
    word."""

    def of_first_words(values: Sequence[Any]) -> list[Any]:
        rows = zip(values, examples["tokens"], strict=True)
        return [value[0] if isinstance(value, list) and len(value) == len(words) else value for value, words in rows]

    return groups_of_table(task, examples, of_first_words)


@texts_of.register(NerTask)
def _(task: NerTask, examples: Columns) -> dict[str, list[str]]:
    return {"tokens": [" ".join(words) for words in examples["tokens"]]}


@splits_to_write.register(NerTask)
def _(task: NerTask, splits: Collection[str]) -> list[str]:
    """Selects the test set, or without one the validation set."""
    return ["test" if "test" in splits else "validation"]
