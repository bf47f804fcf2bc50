"""Predictions of token classification: files of words and spans, forms of annotation tools, colours of entities."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertkit.inference.predicted import Predicted, predicted
from bertkit.metrics.entities import OUTSIDE, find_entities, split_tag
from bertkit.tables import Table
from bertkit.tasks.ner.annotations import FORMS, annotation
from bertkit.tasks.ner.conll import is_conll, read_conll
from bertkit.tasks.ner.highlighting import Span, highlight
from bertkit.tasks.ner.json_list import JSON, read_json_list
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
        return ids | annotation(form, text, [span._asdict() for span in spans], self.task.data.offset_unit)

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
