"""Predictions of token classification: files, forms of annotation tools, colours; metrics as functions of means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from bertkit.inference.predicted import Predicted, predicted
from bertkit.inference.scored import Scored, collapse_of, scored
from bertkit.metrics.entities import OUTSIDE, find_entities, split_tag
from bertkit.metrics.intervals import MeanDecomposition
from bertkit.tables import Table
from bertkit.tables.typed_rows import JSON, read_json_list
from bertkit.tasks.arrays import Outputs
from bertkit.tasks.ner.annotations import FORMS, annotation
from bertkit.tasks.ner.conll import is_conll, read_conll
from bertkit.tasks.ner.spans import Span, highlight
from bertkit.tasks.ner.task import IDS, NerTask
from bertkit.tasks.splits import Columns


class PredictedEntities(Predicted):
    """Entities of texts, or with plain tags the tags of words."""

    task: NerTask
    column_settings = frozenset({"token_column", "tag_column"})

    def __init__(self, task: NerTask):
        super().__init__(task)
        self.forms = () if task.task.scheme == "plain" else FORMS
        self.reads_neighbours = task.data.context == "document"

    def read_file(self, path: Path) -> Table | None:
        """Reads a column file, or a list of Label Studio's tasks."""
        if path.suffix.lower() == JSON:
            return read_json_list(path)
        return read_conll(path, self.task.data.comment_prefix) if is_conll(path) else None

    def repeated(self, columns: Columns) -> Columns:
        """Selects the texts with their ids, or the words; all other columns are for the model only."""
        names = ("text", *IDS) if "text" in columns else ("tokens",)
        return {name: columns[name] for name in names if name in columns}

    def in_form(self, form: str, row: Mapping[str, Any]) -> dict[str, Any]:
        text, spans = _spans(row)
        ids = {name: row[name] for name in IDS if name in row}
        return ids | annotation(form, text, spans, self.task.data.offset_unit)

    def highlighted(self, row: Mapping[str, Any]) -> str | None:
        if self.task.task.scheme == "plain":
            return None
        types = {split_tag(name)[1] for name in self.task.task.label_names if name != OUTSIDE}
        return highlight(*_spans(row), sorted(types))


predicted.register(NerTask, PredictedEntities)


def _spans(row: Mapping[str, Any]) -> tuple[str, list[Span]]:
    """Returns the text of an input and its entities as spans; words are joined with spaces."""
    if "text" in row:
        return row["text"], [Span(each["start"], each["end"], each["type"]) for each in row["entities"]]
    starts = [0]
    for token in row["tokens"]:
        starts.append(starts[-1] + len(token) + 1)
    spans = [Span(starts[start], starts[end] - 1, kind) for kind, start, end in find_entities(row["tags"])]
    return " ".join(row["tokens"]), spans


@scored.register
def _(task: NerTask) -> Scored:
    return ScoredTags(task)


class ScoredTags(Scored):
    """Metrics of entities, or of plain tags."""

    def terms(self, name: str, predictions: Sequence[Any], references: Sequence[Any]) -> MeanDecomposition | None:
        if self.task.task.scheme == "plain":
            return accuracy_terms(predictions, references)
        if name != "overall_f1":
            return None
        return f1_terms(self.task.to_labels(predictions), self.task.to_labels(references), self.task.task.strict)

    def collapse(self, outputs: Outputs, features: Columns, examples: Columns) -> str | None:
        """Compares the tags of words, since sentences differ in length."""
        sides = map(self.task.to_labels, self.task.predictions_and_references(outputs, features, examples))
        return collapse_of(*(chain.from_iterable(tags) for tags in sides))


def f1_terms(predicted: Sequence[Sequence[str]], true: Sequence[Sequence[str]], strict: bool) -> MeanDecomposition:
    """Returns the entities of each sentence that are correct, predicted and true, (N, 3), and F1 as their function."""
    rows = []
    for own, expected in zip(predicted, true, strict=True):
        entities, references = set(find_entities(own, strict)), set(find_entities(expected, strict))
        rows.append((len(entities & references), len(entities), len(references)))

    def f1(correct: Any, predicted: Any, actual: Any) -> Any:
        return 2 * correct / np.maximum(predicted + actual, 1e-12)

    return MeanDecomposition(np.array(rows, dtype=np.float64).reshape(-1, 3), f1, (0.0, 1.0))


def accuracy_terms(predicted: Sequence[Sequence[int]], true: Sequence[Sequence[int]]) -> MeanDecomposition:
    """Returns the correct tags and the words of each sentence, (N, 2), and accuracy as their function."""
    rows = [
        (np.sum(np.asarray(own) == np.asarray(expected)), len(expected))
        for own, expected in zip(predicted, true, strict=True)
    ]
    return MeanDecomposition(
        np.array(rows, dtype=np.float64).reshape(-1, 2), lambda correct, words: correct / words, (0.0, 1.0)
    )
