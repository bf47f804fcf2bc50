"""Texts with character spans, as annotation tools export them, and the tables of words with tags made from them.

===============  =====================================================================================================
``spans``        ``{"text": …, "spans": [{"start": 0, "end": 3, "label": "PER"}]}``: Prodigy, Argilla
``doccano``      ``{"text": …, "label": [[0, 3, "PER"]]}``, or ``entities`` with ``start_offset`` and ``end_offset``
Label Studio     ``{"data": {"text": …}, "annotations": [{"result": [{"value": {"start": 0, "end": 3, "text": "Ann",
                 "labels": ["PER"]}}]}]}``, or its JSON_MIN with such values in ``label``
brat             a folder, see `bertkit.tasks.ner.brat`
===============  =====================================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bertkit.data.tables import Table
from bertkit.data.tables.annotated import REJECTED
from bertkit.runtime.errors import DataError, listed, raise_listed, shown
from bertkit.runtime.progress import inflected
from bertkit.tasks.ner.inputs import split_words
from bertkit.tasks.ner.sentences import TAGS
from bertkit.tasks.ner.spans import Alignment, OffsetUnit, Span, align
from bertkit.tasks.ner.word_rows import TOKENS

_TEXT = "text"
_SPANS = ("spans", "entities", "labels", "label")
_DATA, _ANNOTATIONS = "data", "annotations"  # Label Studio
_STARTS, _ENDS, _LABELS = ("start", "start_offset"), ("end", "end_offset"), ("label", "type")
_IN_WORDS = {"character": "characters, as Python does", "utf16": "UTF-16 code units, as JavaScript does"}


def raw_texts(table: Table, token_column: str | int | None) -> Sequence[Any] | None:
    """Returns the values of the column of raw texts; ``None`` if the table has words instead.

    Without the name of a column, it looks for lists of words under the usual names, then for ``text``, then for Label
    Studio's ``data``.
    """
    name = "" if token_column is None else str(token_column)
    if name and (name in table.columns or not name.isdecimal()):  # a number is that of a column in column files
        values = table.columns.get(name, [])
        return values if any(isinstance(value, str) for value in values) else None
    lists = [value for usual in TOKENS for value in table.columns.get(usual, ()) if isinstance(value, list)]
    if any(isinstance(next(iter(value), None), str) for value in lists):  # Prodigy's tokens are objects
        return None
    if _TEXT in table.columns:
        return table.columns[_TEXT]
    if _DATA not in table.columns:
        return None
    texts = []
    for data in table.columns[_DATA]:
        if isinstance(data, Mapping):  # a task of Label Studio has ``text``, or one value that is text
            of_data = [value for value in data.values() if isinstance(value, str)]
            data = data.get(_TEXT, of_data[0] if len(of_data) == 1 else data)
        texts.append(data)
    return texts


def check_texts(table: Table, texts: Sequence[Any]) -> list[str]:
    """Checks that the values of `raw_texts` are text and returns them.

    Raises:
        DataError: they are not; the message names at most ten rows.
    """
    raise_listed(
        [f"{table.place(row)}: {_no_text(text)}" for row, text in enumerate(texts) if not isinstance(text, str)]
    )
    return list(texts)


def _no_text(value: Any) -> str:
    return f"the text is {shown(value)}; expected text"


@dataclass(frozen=True, eq=False)
class SpanTable(Table):
    """Table of texts that were split into words, with tags made from spans.

    Attributes:
        notes: notes on the spans.
    """

    notes: tuple[str, ...] = ()


def with_words(
    table: Table,
    token_column: str | int | None,
    tag_column: str | int | None,
    *,
    needs_tags: bool,
    snap: bool,
    unit: OffsetUnit,
) -> Table:
    """Converts a table of texts with spans to one of words with IOB2 tags; returns a table of words unchanged.

    Args:
        table: the table.
        token_column, tag_column: columns of the texts and of the spans; ``None`` looks for their usual names.
        needs_tags: whether the table must have spans; otherwise it gets tags only if a row has spans.
        snap: extend spans that cut words to whole words.
        unit: unit of the offsets.

    Raises:
        DataError: a text is missing or has no words; a span is malformed, outside of its text, without a word, or cuts
            a word; two spans overlap; no row has an accepted annotation; or there is no column of spans where one is
            needed. The message names at most ten places.
    """
    texts = raw_texts(table, token_column)
    if texts is None:
        return table
    column = _span_column(table, tag_column, needs_tags)
    annotations = dict.fromkeys(range(len(texts))) if column is None else _annotations(table, column)
    if not annotations:
        raise DataError(f"{table.source}: no row has an accepted annotation")
    labelled = needs_tags or any(spans is not None for spans in annotations.values())

    def align_rows(as_unit: OffsetUnit) -> list[Alignment]:
        return [_align_row(texts[row], spans if labelled else [], snap, as_unit) for row, spans in annotations.items()]

    aligned = align_rows(unit)
    misplaced, hint = _misplaced(aligned), ""
    if misplaced and any(isinstance(text, str) and not text.isascii() for text in texts):
        other: OffsetUnit = "utf16" if unit == "character" else "character"
        if (left := _misplaced(align_rows(other))) < misplaced:
            hint = (
                f"spans that do not fit their text: {misplaced}; if the offsets count {_IN_WORDS[other]}, "
                f"give --offset-unit {other}, with which there are {left}"
            )
    rows = list(annotations)
    faults = [
        f"{table.place(row)}: {fault}" for row, of_row in zip(rows, aligned, strict=True) for fault in of_row.faults
    ]
    if faults:
        raise DataError(listed(faults, at_most=10) + (f"\n{hint}" if hint else ""))
    columns: dict[str, list[Any]] = {
        name: [values[row] for row in rows]
        for name, values in table.columns.items()
        if name not in (*TOKENS, *TAGS, column)
    }
    columns[str(token_column or TOKENS[0])] = [of_row.words for of_row in aligned]
    if labelled:
        columns[str(tag_column or TAGS[0])] = [of_row.tags for of_row in aligned]
    notes = _notes(aligned, sum(len(spans or ()) for spans in annotations.values()), hint)
    if len(rows) < len(texts):
        left_out = len(texts) - len(rows)
        what = inflected(left_out, "has no accepted annotation and is", "have no accepted annotation and are")
        notes.append(f"{left_out} of {len(texts)} rows {what} left out")
    numbers: Sequence[Any] = table.numbers_of_rows
    lines = None if table.unit == "file" else [numbers[row] for row in rows]
    return SpanTable(columns, table.source, table.fingerprint, lines, unit=table.unit, notes=tuple(notes))


def _span_column(table: Table, requested: str | int | None, needed: bool) -> str | None:
    """Returns the column of the spans, or of Label Studio's annotations; None if there is none and none is needed."""
    names = list(table.columns)
    usual = (_ANNOTATIONS, *_SPANS) if _DATA in names else _SPANS
    column = str(requested) if requested is not None else next((name for name in usual if name in names), None)
    if column in names:
        return column
    if not needed:
        return None
    lacks = f"no column {column!r} among" if column else f"texts without a column {', '.join(usual)} among"
    raise DataError(f"{table.source}: {lacks} {', '.join(names)}; give the column of the spans with --tag-column")


def _align_row(text: Any, spans: list[Span] | str | None, snap: bool, unit: OffsetUnit) -> Alignment:
    """Aligns the spans of a row, or returns the fault of its text or annotation."""
    words = split_words(text) if isinstance(text, str) else []
    if not isinstance(text, str):
        fault = _no_text(text)
    elif not words:
        fault = "the text has no words; leave it out"
    elif spans is None:
        fault = "no spans; write an empty list if it has none"
    elif isinstance(spans, str):
        fault = spans
    else:
        return align(text, words, spans, snap, unit)
    return Alignment([], [], [fault])


def _misplaced(aligned: Sequence[Alignment]) -> int:
    """Returns the number of spans that do not fit the words; a fault without words is one of the whole row."""
    return sum(len(of_row.faults) + of_row.snapped for of_row in aligned if of_row.words)


def _notes(aligned: Sequence[Alignment], spans: int, hint: str) -> list[str]:
    snapped, trimmed = sum(of_row.snapped for of_row in aligned), sum(of_row.trimmed for of_row in aligned)
    notes = []
    if snapped:
        notes.append(f"{snapped} of {spans} spans cut words and were extended to whole words")
        notes += [f"warning: {hint}"] if hint else []
    if trimmed:
        notes.append(f"{trimmed} of {spans} spans begin or end with white space, which was left out")
    return notes


# ---- forms of annotation tools --------------------------------------------------------------------------------------


def _annotations(table: Table, column: str) -> dict[int, list[Span] | str | None]:
    """Returns for each row with an accepted annotation its spans, or what is wrong with them; ``None`` for no value.

    Annotations that were rejected or skipped, or have not been made, are left out.
    """
    # Class names of the labels within the spans, if the source has ids.
    names = next((table.class_names[name] for key in _LABELS if (name := f"{column}.{key}") in table.class_names), ())
    in_tasks = column == _ANNOTATIONS and _DATA in table.columns
    answers = table.columns.get("answer", [None] * len(table))
    accepted: dict[int, list[Span] | str | None] = {}
    for row, (value, answer) in enumerate(zip(table.columns[column], answers, strict=True)):
        try:
            choices = _of_label_studio(value) if in_tasks else [value]
            if choices and answer not in REJECTED:
                accepted[row] = None if choices[0] is None else _spans(choices[0], names)
        except DataError as fault:
            accepted[row] = str(fault)
    return accepted


def _of_label_studio(annotations: Any) -> list[Any]:
    """Returns the spans of the annotation of a task in a list of one: of the ground truth if one is marked, else of the
    only one; an empty list if there is none, or all were cancelled.

    Raises:
        DataError: several annotations differ, or the result of one is no list.
    """
    if not isinstance(annotations, list) or not all(isinstance(each, Mapping) for each in annotations):
        return [annotations]
    complete = [each for each in annotations if not each.get("was_cancelled")]
    complete = [each for each in complete if each.get("ground_truth")] or complete
    choices: list[list[Any]] = []
    for one in complete:
        choices.append([])
        results = one.get("result") or []
        if not isinstance(results, list):
            raise DataError(f"the result of an annotation is {shown(results)}; expected a list")
        for result in results:
            known = result if isinstance(result, Mapping) else {"value": result}
            if known.get("type", "labels") not in ("labels", "hypertextlabels"):
                continue  # a choice, a relation and so on, which mark no span
            choices[-1].append(known.get("value"))
        choices[-1].sort(key=repr)  # annotators mark the same spans in different orders
    if any(other != choices[0] for other in choices[1:]):
        raise DataError(f"{len(choices)} annotations that differ; keep one, or mark one as ground truth")
    return choices[:1]


def _spans(value: Any, names: Sequence[str]) -> list[Span]:
    """Reads the spans of a row: a list of objects or triples; or an object of lists, as ``datasets`` gives them.

    ``names`` are those of the labels in the order of their ids, if they are ids.
    """
    if isinstance(value, Mapping) and all(isinstance(each, list) for each in value.values()):
        if len(set(map(len, value.values()))) > 1:
            raise DataError(f"the spans are {shown(value)}; expected lists of equal length")
        value = [dict(zip(value, each, strict=True)) for each in zip(*value.values(), strict=True)]
    if not isinstance(value, list):
        raise DataError(f"the spans are {shown(value)}; expected a list")
    spans = []
    for given in value:
        start: Any = None
        end: Any = None
        label: Any = None
        text: Any = None
        if isinstance(given, list) and len(given) == 3:
            start, end, label = given
        elif isinstance(given, Mapping):
            offsets = given.get("globalOffsets")  # of Label Studio's HTML, whose start and end are paths of elements
            fields = {**given, **offsets} if isinstance(offsets, Mapping) else given
            start, end, label = (
                next((fields[key] for key in keys if fields.get(key) is not None), None)
                for keys in (_STARTS, _ENDS, _LABELS)
            )
            labels, text = given.get("labels") or given.get("hypertextlabels"), given.get("text")
            if label is None and isinstance(labels, list) and len(labels) == 1:
                label = labels[0]
        if _is_whole(label) and 0 <= label < len(names):
            label = names[label]
        if not (_is_whole(start) and _is_whole(end) and isinstance(label, str) and label.strip()):
            raise DataError(f"a span is {shown(given)}; expected start and end, whole numbers, and one label, a text")
        spans.append(Span(start, end, label, text if isinstance(text, str) else None))
    return spans


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
