"""Predictions of token classification: files, forms of annotation tools, colours; metrics as functions of means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from bertkit.data.tables import Table
from bertkit.data.tables.table_files import read_table_parts
from bertkit.data.tables.typed_rows import JSON, read_json_list
from bertkit.inference.facts import (
    Facts,
    are_rare,
    classes_in_words,
    collapse_of,
    interval_of,
    is_wide,
    never_predicted,
    score_in_words,
)
from bertkit.inference.outcome import Outcome, TaskInference, task_inference
from bertkit.metrics.entities import OUTSIDE, count_entities, find_entities, split_tag
from bertkit.metrics.intervals import MeanDecomposition
from bertkit.runtime.errors import DataError
from bertkit.runtime.progress import counted, printable, quietly
from bertkit.runtime.reading.paths import JSON_LINES, PARQUET, XLSX, file_kind, workbook_and_sheet
from bertkit.runtime.reading.text import iterating
from bertkit.tasks.base import Outputs
from bertkit.tasks.ner.sentences import is_conll, is_of_words, read_sentences
from bertkit.tasks.ner.spans import OffsetUnit, Span, to_utf16, trimmed
from bertkit.tasks.ner.task import IDS, NerTask
from bertkit.tasks.ner.word_rows import sentences_of_words
from bertkit.tasks.splits import Columns

_FORMS = ("doccano", "spans")  # of annotation tools, see `bertkit.tasks.ner.annotations`
_COLOURS = (32, 34, 35, 36, 33, 31)  # ECMA-48 codes: green, blue, magenta, cyan, yellow, red
_DIM, _RESET = "\x1b[2m", "\x1b[0m"


class EntityInference(TaskInference):
    """Entities of texts, or with plain tags the tags of words."""

    task: NerTask
    example = "sentence"
    column_settings = frozenset({"token_column", "tag_column"})

    def __init__(self, task: NerTask):
        super().__init__(task)
        self.forms = () if task.settings.scheme == "plain" else _FORMS
        self.reads_neighbours = task.data.context == "document"

    def read_file(self, path: Path) -> Table | None:
        """Reads a column file, a table of one word per row, or a list of Label Studio's tasks."""
        if path.suffix.lower() == JSON:
            return read_json_list(path)
        is_read_whole = is_conll(path) or is_of_words(path) or _begins_with_a_word(path)
        return read_sentences(path, self.task.data.comment_prefix) if is_read_whole else None

    def columns_beside(self, columns: Columns) -> Columns:
        """Selects the texts with their ids, or the words; all other columns are for the model only."""
        names = ("text", *IDS) if "text" in columns else ("tokens",)
        return {name: columns[name] for name in names if name in columns}

    def format_prediction(self, prediction: Mapping[str, Any]) -> str:
        if "tags" in prediction:
            return " ".join(prediction["tags"])
        if "words" in prediction:
            return " ".join(f"{word['text']}/{word['tag']}" for word in prediction["words"])
        return "; ".join(
            f"{entity['text']} ({entity['type']} {entity['probability']:.4f})" for entity in prediction["entities"]
        )

    def to_form(self, form: str, row: Mapping[str, Any]) -> dict[str, Any]:
        text, spans = _read_spans(row)
        ids = {name: row[name] for name in IDS if name in row}
        return ids | annotation(form, text, spans, self.task.data.offset_unit)

    def highlight(self, row: Mapping[str, Any]) -> str | None:
        if self.task.settings.scheme == "plain":
            return None
        types = {split_tag(name)[1] for name in self.task.settings.label_names if name != OUTSIDE}
        # Tokens that are not joined to entities have tags in the place of types.
        return highlight_spans(*_read_spans(row), [*sorted(types), *self.task.model_labels])

    def facts(self, outcome: Outcome) -> Facts:
        own, true = outcome.predictions_and_references()
        if not len(true):
            return Facts()
        if self.task.settings.scheme == "plain":
            return self._facts_of_tags(outcome)
        strict = self.task.settings.strict
        tags = self.task.to_labels(own), self.task.to_labels(true)
        counts_of_types = count_entities(*tags, strict)
        names = [name or "(none)" for name in counts_of_types]
        right, predicted, actual = (
            np.array([getattr(each, side) for each in counts_of_types.values()], dtype=np.int64)
            for side in ("right", "predicted", "actual")
        )
        entities = counted(int(actual.sum()), "entity", form=",")
        terms = f1_terms(*tags, strict)
        interval = interval_of(terms, outcome.same_texts)
        f1 = score_in_words("F1", float(terms.function(*terms.values.mean(axis=0))), interval)
        line = (
            f"Of {entities}, {right.sum():,} are found with type and bounds, and of {predicted.sum():,} predicted ones "
            f"{right.sum():,} are right: {f1}; predicting none gives 0."
        )
        never = never_predicted(names, actual, predicted, what=("type", "types"), unit="entity")
        short = never_continued(*tags, strict)
        in_training = self._entities_in_training(outcome, list(counts_of_types))
        lacks_rare = are_rare(actual if in_training is None else in_training, (actual > 0) & (predicted == 0))
        return Facts(
            (line, *never, *short),
            lacks_classes=bool(never),
            is_wide=is_wide(interval),
            is_underfit=bool(short),
            lacks_rare=lacks_rare,
        )

    def _facts_of_tags(self, outcome: Outcome) -> Facts:
        """Returns the facts of plain tags, which are exclusive classes of words."""
        own, true = outcome.predictions_and_references()
        rows = self.task.word_probabilities(outcome.outputs, outcome.features, outcome.examples)
        names, counts = self.task.settings.label_names, self._tags_in_training(outcome)
        words = (np.concatenate(own), np.concatenate(true), np.concatenate(rows), names, counts)
        terms, texts = accuracy_terms(own, true), outcome.same_texts
        return classes_in_words(*words, what=("tag", "tags"), unit="word", terms=terms, texts=texts)

    def _tags_in_training(self, outcome: Outcome) -> np.ndarray | None:
        """Returns the number of training words of each tag, (C,); None if they are unknown."""
        if outcome.training is None or "labels" not in outcome.training:
            return None
        words = np.fromiter(chain.from_iterable(outcome.training["labels"]), dtype=np.int64)
        return np.bincount(words, minlength=len(self.task.settings.label_names))

    def _entities_in_training(self, outcome: Outcome, types: Sequence[str]) -> np.ndarray | None:
        """Returns the number of training entities of each type; None if they are unknown."""
        if (begun := self._tags_in_training(outcome)) is None:
            return None
        counts = Counter[str]()
        for name, count in zip(self.task.settings.label_names, begun.tolist(), strict=True):
            prefix, kind = split_tag(name)
            counts[kind] += count if prefix == "B" else 0
        return np.array([counts[kind] for kind in types], dtype=np.int64)

    def count_units(self, name: str, predictions: Sequence[Any], references: Sequence[Any]) -> str:
        if name.endswith("accuracy"):
            return counted(sum(map(len, references)), "word", form=",")
        true = self.task.to_labels(references)
        counts = count_entities(true, true, self.task.settings.strict)
        of_type = name.removeprefix("entity/").rpartition("/")[0]
        number = sum(each.actual for kind, each in counts.items() if of_type in ("", kind))
        return counted(number, "entity", form=",")

    def terms(self, name: str, predictions: Sequence[Any], references: Sequence[Any]) -> MeanDecomposition | None:
        if self.task.settings.scheme == "plain":
            return accuracy_terms(predictions, references)
        if name != "overall_f1":
            return None
        return f1_terms(self.task.to_labels(predictions), self.task.to_labels(references), self.task.settings.strict)

    def for_metrics(self, predictions: Any, references: Any) -> tuple[Any, Any]:
        """Returns the tags of the words of each sentence, as ``seqeval`` reads them."""
        return self.task.to_labels(predictions), self.task.to_labels(references)

    def collapse(self, outputs: Outputs, features: Columns, examples: Columns) -> str | None:
        """Compares the tags of words, since sentences differ in length."""
        sides = map(self.task.to_labels, self.task.predictions_and_references(outputs, features, examples))
        return collapse_of(*(chain.from_iterable(tags) for tags in sides))


task_inference.register(NerTask, EntityInference)


def _begins_with_a_word(path: Path) -> bool:
    """Returns whether the first row of an Excel, Parquet or JSON lines file is a word of a sentence; False where it
    cannot be read, which is reported with the other rows."""
    file = Path(workbook_and_sheet(path)[0])
    if not file.is_file() or file_kind(file.name, (XLSX, PARQUET, JSON_LINES)) is None:  # nothing of a pipe is lost
        return False
    with quietly(), suppress(DataError), iterating(read_table_parts(path, 1, lambda share: None)) as parts:
        return any(sentences_of_words(first) is not None for first in islice(parts, 1))
    return False


def _read_spans(row: Mapping[str, Any]) -> tuple[str, list[Span]]:
    """Returns the text of an input and its entities as spans; words are joined with spaces."""
    if "text" in row:
        return row["text"], [Span(each["start"], each["end"], each["type"]) for each in row["entities"]]
    starts = [0]
    for token in row["tokens"]:
        starts.append(starts[-1] + len(token) + 1)
    spans = [Span(starts[start], starts[end] - 1, kind) for kind, start, end in find_entities(row["tags"])]
    return " ".join(row["tokens"]), spans


def annotation(form: str, text: str, entities: Sequence[Span], unit: OffsetUnit) -> dict[str, Any]:
    """Returns a text with its entities in a form of annotation tools, without invisible characters at their ends.

    Args:
        form: ``doccano`` or ``spans``.
        text: the text.
        entities: entities in characters; those of invisible characters alone are left out.
        unit: unit of the offsets to return.

    >>> annotation("doccano", "Ann left \\u200b", [Span(0, 4, "PER"), Span(9, 10, "PER")], "character")
    {'text': 'Ann left \\u200b', 'label': [[0, 3, 'PER']]}
    """
    spans = []
    for entity in entities:
        start, end = trimmed(text, entity.start, entity.end)
        if start == end:  # of invisible characters alone, such as a word that is a zero-width space
            continue
        if unit == "utf16":
            start, end = to_utf16(text, start), to_utf16(text, end)
        spans.append((start, end, entity.type))
    if form == "doccano":
        return {"text": text, "label": [list(span) for span in spans]}
    return {"text": text, "spans": [{"start": start, "end": end, "label": label} for start, end, label in spans]}


def highlight_spans(text: str, spans: Sequence[Span], types: Sequence[str]) -> str:
    r"""Returns the text with each span in the terminal colour of its type, followed by the type; other control
    characters are escaped.

    Args:
        text: the whole text.
        spans: spans of the text, in order.
        types: all possible types; the index of a type determines its colour.

    >>> highlight_spans("Ann left", [Span(0, 3, "PER")], ["LOC", "PER"])
    '\x1b[1;34mAnn\x1b[0m\x1b[2m[PER]\x1b[0m left'
    """
    pieces = []
    end = 0
    for span in spans:
        colour = _COLOURS[types.index(span.type) % len(_COLOURS)]
        before, entity = printable(text[end : span.start]), printable(text[span.start : span.end])
        pieces += [before, f"\x1b[1;{colour}m", entity, _RESET]
        pieces += [_DIM, printable(f"[{span.type}]"), _RESET]
        end = span.end
    return "".join([*pieces, printable(text[end:])])


def never_continued(predicted: Sequence[Sequence[str]], true: Sequence[Sequence[str]], strict: bool) -> list[str]:
    """Returns a sentence if no predicted entity has several words, and some entities have.

    >>> never_continued([["B-PER", "B-PER"]], [["B-PER", "I-PER"]], False)
    ['No predicted entity has more than one word, so that 1 entity of several words cannot be right.']
    """
    own, expected = (
        [entity.end - entity.start for tags in side for entity in find_entities(tags, strict)]
        for side in (predicted, true)
    )
    long = sum(length > 1 for length in expected)
    if not long or not own or max(own) > 1:
        return []
    entities = counted(long, "entity", form=",")
    return [f"No predicted entity has more than one word, so that {entities} of several words cannot be right."]


def f1_terms(predicted: Sequence[Sequence[str]], true: Sequence[Sequence[str]], strict: bool) -> MeanDecomposition:
    """Returns the entities of each sentence that are correct, predicted and true, (N, 3), and F1 as their function."""
    rows = []
    for own, expected in zip(predicted, true, strict=True):
        entities, references = set(find_entities(own, strict)), set(find_entities(expected, strict))
        rows.append((len(entities & references), len(entities), len(references)))

    def f1(correct: Any, found: Any, actual: Any) -> Any:
        return 2 * correct / np.maximum(found + actual, 1e-12)

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
