"""Sequence labelling: named entities, chunks, part-of-speech tags (BERT §5.3).

The label of a word is predicted from its first piece, as in the paper. Every word gets exactly one tag, in
texts of any length.

Dimension letters: N inputs, S tokens, C labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bertkit import metrics
from bertkit.checkpoint.encoders import label_fields
from bertkit.errors import CheckpointError, DataError, noted, raise_all
from bertkit.metrics.entities import OUTSIDE, find_entities, score_entities
from bertkit.model.labels_bert import IGNORE_INDEX
from bertkit.tables import Table
from bertkit.tasks.base import Outputs, one_array, padded, softmax
from bertkit.tasks.ner import sentences
from bertkit.tasks.ner.annotations import SpanTable, check_texts, raw_texts, with_words
from bertkit.tasks.ner.inputs import NO_WORD, InputForm, neighbours, split_words, word_pieces
from bertkit.tasks.ner.schemes import (
    find_labels,
    inside,
    label_ids,
    line_on_labels,
    notes_on_tags,
    with_usual_tags,
)
from bertkit.tasks.ner.sentences import DOCUMENT_ID, write_conll
from bertkit.tasks.ner.settings import DataSettings, TaskSettings
from bertkit.tasks.splits import Columns, Split
from bertkit.tasks.table_data import TableTask

if TYPE_CHECKING:
    from collections.abc import Collection

    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

_NEIGHBOURS = ("before", "after")
IDS = ("id", DOCUMENT_ID)  # of texts; predictions keep them, so that they can be matched and trained on


class NerTask(TableTask):
    """Sequence labelling with one tag per word."""

    kind = "ner"
    settings = TaskSettings
    data_settings = DataSettings
    head = "BertForTokenClassification"
    pipeline_tag = "token-classification"
    task: TaskSettings
    data: DataSettings

    @property
    def main_metric(self) -> str:  # type: ignore[override]
        return "accuracy" if self._plain else "overall_f1"

    @property
    def _plain(self) -> bool:
        return self.task.scheme == "plain"

    @property
    def model_labels(self) -> Sequence[str]:
        """Returns the labels of the model's outputs in the order of their ids."""
        return self.task.label_names

    def config(self) -> dict[str, Any]:
        return label_fields(self.task.label_names)

    # ---- load -------------------------------------------------------------------------------------------------------

    def load(self, splits: Sequence[str] | None = None) -> tuple[Self, dict[str, Split]]:
        splits = self.splits if splits is None else splits
        tables = self.data.tables(splits)
        faults: list[str] = []
        read: dict[str, tuple[list[list[str]], list[list[str]] | None]] = {}
        forms: dict[str, str] = {}  # notes on tags of another form
        for name in tables:
            with noted(faults):
                tables[name] = self._with_words(name, tables[name])
                words, tags = self._read(name, tables[name])
                if tags is not None and not self._plain:
                    tags, forms[name] = with_usual_tags(tags)
                read[name] = words, tags
        raise_all(faults)
        task = self
        if not (self.task.scheme and self.task.label_names):
            first = next(iter(tables))  # the training set, if it is read
            column = sentences.tag_column(tables[first], self.task.tag_column)
            scheme, names = find_labels(
                tables[first], column, read[first][1] or [], self.task.scheme, self.task.label_names
            )
            task = self.with_settings(scheme=scheme, label_names=names)
        loaded: dict[str, Split] = {}
        for name, table in tables.items():
            with noted(faults):
                split = task._split_of(table, *read[name])
                line = task._line_on_labels(split) if name == "train" else ""
                # The first note names the scheme, as the line does.
                others = split.notes if isinstance(table, SpanTable) or not line else split.notes[1:]
                notes = (line, *others, forms.get(name, ""))
                loaded[name] = replace(split, notes=tuple(filter(None, notes)), labels=line)
        raise_all(faults)
        task, loaded = task._with_validation(splits, loaded)
        return task, task._limited(splits, loaded)

    def _line_on_labels(self, train: Split) -> str:
        """Returns the sentence on the labels of a training set; empty if it has none."""
        if "labels" not in train.examples.column_names:
            return ""
        tags = [self._tags(labels) for labels in train.examples["labels"]]
        types = tags if self._plain else [[kind for kind, _, _ in find_entities(each)] for each in tags]
        counts = Counter(chain.from_iterable(types))
        names = self.task.label_names if self._plain else sorted(counts)
        return line_on_labels(self.task.scheme or "plain", {name: counts[name] for name in names})

    def _with_words(self, name: str, table: Table) -> Table:
        """Converts a table of texts with spans to words with tags."""
        settings, data = self.task, self.data
        of_words = with_words(
            table,
            settings.token_column,
            settings.tag_column,
            needs_tags=self.needs_labels(name),
            snap=data.snap,
            unit=data.offset_unit,
        )
        if self._plain and isinstance(of_words, SpanTable):
            raise DataError(f"{table.source}: has spans, and task.scheme plain has a tag for every word; remove it")
        return of_words

    def _read(self, name: str, table: Table) -> tuple[list[list[str]], list[list[str]] | None]:
        """Reads the words and tags of a table; a test set may lack tags."""
        tokens = sentences.token_column(table, self.task.token_column)
        words = sentences.read_words(table, tokens)
        if not self.needs_labels(name) and not sentences.has_tags(table, self.task.tag_column):
            return words, None
        tags = sentences.tag_column(table, self.task.tag_column)
        if tags == tokens:
            raise DataError(
                f"{table.source}: column {tags} contains the words; give the column of the tags with --tag-column"
            )
        return words, sentences.read_tags(table, tags, words)

    def _split_of(self, table: Table, words: list[list[str]], tags: list[list[str]] | None) -> Split:
        columns: dict[str, list[Any]] = {"tokens": words, **self._context(table, words)}
        notes: list[str] = []
        doubts: dict[str, str] = {}
        if tags is not None:
            scheme = self.task.scheme or "plain"
            columns["labels"] = label_ids(table, tags, self.task.label_names, scheme)
            notes = list(table.notes) if isinstance(table, SpanTable) else notes_on_tags(table, tags, scheme)
            if len(notes) > 1 and not isinstance(table, SpanTable):  # the first one names the scheme
                doubts = {"impossible-tags": notes[1].removeprefix("warning: ")}
        return Split.of_table(columns, table, tuple(notes), doubts)

    def _context(self, table: Table, words: list[list[str]]) -> dict[str, list[list[str]]]:
        if self.data.context == "sentence":
            return {}
        before, after = neighbours(words, sentences.document_ids(table), self.data.max_seq_length)
        return {"before": before, "after": after}

    # ---- encode -----------------------------------------------------------------------------------------------------

    def encode(self, examples: Columns, tokenizer: PreTrainedTokenizerBase) -> dict[str, list[Any]]:
        """Encodes as `Task.encode`; ``word_ids`` marks the token of each tagged word, see
        `bertkit.tasks.ner.inputs`."""
        form = self._form(tokenizer)
        columns = [word_pieces(examples["tokens"], tokenizer)]
        for name in _NEIGHBOURS:
            columns.append(word_pieces(examples[name], tokenizer) if name in examples else [[] for _ in columns[0]])
        labelled = "labels" in examples
        features: dict[str, list[Any]] = {"input_ids": [], "word_ids": [], "example": []}
        if labelled:
            features["labels"] = []
        for example, (pieces, before, after) in enumerate(zip(*columns, strict=True)):
            labels = examples["labels"][example] if labelled else None
            for row in form.inputs(pieces, before, after, labels):
                features["input_ids"].append(row.input_ids)
                features["word_ids"].append(row.word_ids)
                features["example"].append(example)
                if labelled:
                    features["labels"].append(row.labels)
        lengths = [len(ids) for ids in features["input_ids"]]
        features["attention_mask"] = [[1] * length for length in lengths]
        features["token_type_ids"] = [[0] * length for length in lengths]
        return {**features, "length": lengths, "full_length": lengths}

    def _form(self, tokenizer: PreTrainedTokenizerBase) -> InputForm:
        cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
        if cls is None or sep is None:
            raise CheckpointError("this tokenizer has no [CLS] or [SEP] token, under any name; give that of an encoder")
        ids = {name: index for index, name in enumerate(self.task.label_names)}
        further = None
        if self.task.label_all_subwords:
            further = [index if self._plain else ids[inside(name)] for name, index in ids.items()]
        return InputForm(self.data.max_seq_length, self.data.overlap, cls, sep, further)

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

    def texts_of(self, examples: Columns) -> dict[str, list[str]]:
        return {"tokens": [" ".join(words) for words in examples["tokens"]]}

    # ---- decode → score ---------------------------------------------------------------------------------------------

    def _probabilities(self, outputs: Outputs, features: Columns, examples: Columns) -> list[np.ndarray]:
        """Computes the label probabilities of each word, one array (words, C) per example.

        A word without pieces is not part of the input; its label has probability 1: ``O``, or without ``O`` the first
        label, which is the most frequent in the training set.
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
        return [self.task.label_names[index] for index in ids]

    def decode(self, outputs: Outputs, features: Columns, examples: Columns) -> list[dict[str, Any]]:
        """Returns predictions for sentences.

        Inputs given as words have ``tags``, one per word, and their ``probabilities``. Raw texts have ``entities``,
        each with ``text``, ``type``, ``probability`` (the mean over the tags of its words), ``start`` and ``end`` in
        characters; for plain tags they have ``words``, with ``tag`` in place of ``type``.
        """
        results: list[dict[str, Any]] = []
        for example, probabilities in enumerate(self._probabilities(outputs, features, examples)):
            tags, best = self._tags(probabilities.argmax(axis=-1)), probabilities.max(axis=-1, initial=0)
            if "text" not in examples:
                results.append({"tags": tags, "probabilities": best.tolist()})
                continue
            text, starts, ends = (examples[name][example] for name in ("text", "starts", "ends"))
            if self._plain:
                spans = [("tag", tag, word, word + 1) for word, tag in enumerate(tags)]
            else:
                spans = [("type", *entity) for entity in find_entities(tags)]
            results.append(
                {
                    "words" if self._plain else "entities": [
                        {
                            "text": text[starts[first] : ends[end - 1]],
                            key: value,
                            "probability": float(best[first:end].mean()),
                            "start": starts[first],
                            "end": ends[end - 1],
                        }
                        for key, value, first, end in spans
                    ]
                }
            )
        return results

    def predictions_and_references(
        self, outputs: Outputs, features: Columns, examples: Columns
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Returns the label ids of the words of each sentence."""
        probabilities = self._probabilities(outputs, features, examples)
        return [rows.argmax(axis=-1) for rows in probabilities], examples["labels"]

    def to_labels(self, values: Sequence[Any]) -> list[Any]:
        return list(map(self._tags, values))

    def score(self, outputs: Outputs, features: Columns, examples: Columns) -> dict[str, float]:
        return self.compute_metrics(*self.predictions_and_references(outputs, features, examples))

    def compute_metrics(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        """Computes ``accuracy`` for plain tags, else ``overall_f1`` and the other scores of `score_entities`, and
        ``entity/PER/f1`` etc. for each type."""
        if self._plain:
            flat, flat_expected = np.concatenate(predictions), np.concatenate(references)
            return metrics.compute("accuracy", flat, flat_expected)
        scores, counts = score_entities(self.to_labels(predictions), self.to_labels(references), self.task.strict)
        of_types = {
            kind: zip(("precision", "recall", "f1"), each.scores(), strict=True) for kind, each in counts.items()
        }
        return scores | {f"entity/{kind}/{name}": value for kind, each in of_types.items() for name, value in each}

    @property
    def weighted_labels(self) -> list[str]:
        return self.task.label_names

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
        texts = raw_texts(table, self.task.token_column)
        if texts is not None:
            columns = self.read_input(check_texts(table, texts))
            ids = {name: table.columns[name] for name in IDS if name in table.columns}
            ids = {name: values for name, values in ids.items() if all(isinstance(each, str | int) for each in values)}
            return {**columns, **ids, **self._context(table, columns["tokens"])}
        words = sentences.read_words(table, sentences.token_column(table, self.task.token_column))
        return {"tokens": words, **self._context(table, words)}

    def line(self, prediction: Mapping[str, Any]) -> str:
        if "tags" in prediction:
            return " ".join(prediction["tags"])
        if "words" in prediction:
            return " ".join(f"{word['text']}/{word['tag']}" for word in prediction["words"])
        return "; ".join(
            f"{entity['text']} ({entity['type']} {entity['probability']:.4f})" for entity in prediction["entities"]
        )

    def splits_to_write(self, splits: Collection[str]) -> list[str]:
        return ["test" if "test" in splits else "validation"]

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
