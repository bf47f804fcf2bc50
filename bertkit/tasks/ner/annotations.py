"""Forms in which annotation tools export and import texts with character spans.

===============  =====================================================================================================
``spans``        ``{"text": …, "spans": [{"start": 0, "end": 3, "label": "PER"}]}``: Prodigy, Argilla
``doccano``      ``{"text": …, "label": [[0, 3, "PER"]]}``, or ``entities`` with ``start_offset`` and ``end_offset``
Label Studio     ``{"data": {"text": …}, "annotations": [{"result": [{"value": {"start": 0, "end": 3, "text": "Ann",
                 "labels": ["PER"]}}]}]}``, or its JSON_MIN with such values in ``label``; only read
===============  =====================================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bertkit.errors import DataError, raise_listed, shown
from bertkit.tables import Table
from bertkit.tasks.ner.sentences import TOKENS
from bertkit.tasks.ner.spans import OffsetUnit, to_utf16, trimmed

FORMS = ("doccano", "spans")
"""Forms that `annotation` writes."""

_TEXT = "text"
_SPANS = ("spans", "entities", "labels", "label")
_DATA, _ANNOTATIONS = "data", "annotations"  # Label Studio
_STARTS, _ENDS, _LABELS = ("start", "start_offset"), ("end", "end_offset"), ("label", "type")


class GivenSpan(NamedTuple):
    """A span as given.

    Attributes:
        start, end: offsets in any unit.
        label: type of the entity.
        text: the text that it covers according to the source; ``None`` if the source does not say.
    """

    start: int
    end: int
    label: str
    text: str | None = None


class Unusable(NamedTuple):
    """Annotation of a row that cannot be read.

    Attributes:
        fault: description.
    """

    fault: str


class _LeftOut:
    """Annotation that was rejected or skipped, or has not been made."""


LEFT_OUT = _LeftOut()
Annotation = list[GivenSpan] | Unusable | _LeftOut | None
"""Annotation of a row; ``None`` if the row has no value."""


def raw_texts(table: Table, token_column: str | int | None) -> list[Any] | None:
    """Returns the values of the column of raw texts; ``None`` if the table has words instead.

    Args:
        table: table of words or texts.
        token_column: name of the column of words or texts; ``None`` looks for lists of words under the usual names,
            then for ``text``, then for Label Studio's ``data``.
    """
    name = "" if token_column is None else str(token_column)
    if name and (name in table.columns or not name.isdecimal()):  # a number is that of a column in column files
        values = table.columns.get(name, [])
        return values if any(isinstance(value, str) for value in values) else None
    if any(_is_words(value) for name in TOKENS for value in table.columns.get(name, ())):
        return None
    if _TEXT in table.columns:
        return table.columns[_TEXT]
    if _DATA in table.columns:
        return [_text_of_data(value) for value in table.columns[_DATA]]
    return None


def check_texts(table: Table, texts: Sequence[Any]) -> list[str]:
    """Checks that the values of `raw_texts` are text and returns them.

    Raises:
        DataError: they are not; the message names at most ten rows.
    """
    raise_listed([f"{table.place(row)}: {fault}" for row, text in enumerate(texts) if (fault := fault_of_text(text))])
    return list(texts)


def fault_of_text(text: Any) -> str:
    """Returns what is wrong with a value that must be text; empty if nothing is."""
    return "" if isinstance(text, str) else f"the text is {shown(text)}; expected text"


def span_column(table: Table, given: str | int | None, needed: bool) -> str | None:
    """Returns the column of the spans, or of Label Studio's annotations.

    Args:
        table: table of texts.
        given: its name; ``None`` looks for the usual names.
        needed: whether it must exist; otherwise the result can be ``None``.

    Raises:
        DataError: it is needed and does not exist; the message lists the columns that do.
    """
    names = list(table.columns)
    usual = (_ANNOTATIONS, *_SPANS) if _DATA in names else _SPANS
    found = str(given) if given is not None else next((name for name in usual if name in names), None)
    if found in names:
        return found
    if not needed:
        return None
    lacks = f"no column {found!r} among" if found else f"texts without a column {', '.join(usual)} among"
    raise DataError(f"{table.source}: {lacks} {', '.join(names)}; give the column of the spans with --tag-column")


def read_annotations(table: Table, column: str) -> list[Annotation]:
    """Reads the annotation of every row from a column of `span_column`."""
    values = table.columns[column]
    if column == _ANNOTATIONS and _DATA in table.columns:
        values = [_of_label_studio(value) for value in values]
    # Class names of the labels within the spans, if the source has ids.
    names = next((table.class_names[name] for key in _LABELS if (name := f"{column}.{key}") in table.class_names), ())
    answers = table.columns.get("answer", [None] * len(values))  # Prodigy
    return [
        LEFT_OUT if answer in ("reject", "ignore") else _read(value, names)
        for value, answer in zip(values, answers, strict=True)
    ]


def annotation(form: str, text: str, entities: Sequence[Mapping[str, Any]], unit: OffsetUnit) -> dict[str, Any]:
    """Returns a text with its entities in one of `FORMS`.

    Args:
        form: the form.
        text: the text.
        entities: ``start`` and ``end`` in characters, and ``type``.
        unit: unit of the offsets to return.

    >>> annotation("doccano", "Ann left", [{"start": 0, "end": 3, "type": "PER"}], "character")
    {'text': 'Ann left', 'label': [[0, 3, 'PER']]}
    """
    spans = []
    for entity in entities:
        start, end = trimmed(text, entity["start"], entity["end"])
        if unit == "utf16":
            start, end = to_utf16(text, start), to_utf16(text, end)
        spans.append(GivenSpan(start, end, entity["type"]))
    if form == "doccano":
        return {"text": text, "label": [[span.start, span.end, span.label] for span in spans]}
    return {"text": text, "spans": [{"start": span.start, "end": span.end, "label": span.label} for span in spans]}


# ---- reading --------------------------------------------------------------------------------------------------------


def _is_words(value: Any) -> bool:
    return isinstance(value, list) and isinstance(next(iter(value), None), str)  # Prodigy's tokens are objects


def _text_of_data(data: Any) -> Any:
    """Returns the text of a Label Studio task: ``text``, or the only value that is text."""
    if not isinstance(data, Mapping):
        return data
    texts = [value for value in data.values() if isinstance(value, str)]
    return data.get(_TEXT, texts[0] if len(texts) == 1 else data)


def _of_label_studio(annotations: Any) -> Any:
    """Returns the spans of the annotation of a task: the ground truth if one is marked, else the only one."""
    if not isinstance(annotations, list) or not all(isinstance(each, Mapping) for each in annotations):
        return annotations
    made = [each for each in annotations if not each.get("was_cancelled")]
    made = [each for each in made if each.get("ground_truth")] or made
    results = [[_of_result(each) for each in one.get("result") or [] if _marks_span(each)] for one in made]
    if not results:
        return LEFT_OUT
    if any(other != results[0] for other in results[1:]):
        return Unusable(f"{len(results)} annotations that differ; keep one, or mark one as ground truth")
    return results[0]


def _marks_span(result: Any) -> bool:
    """Returns whether a part of a Label Studio annotation is a span; others are choices, relations and so on."""
    return not isinstance(result, Mapping) or result.get("type", "labels") in ("labels", "hypertextlabels")


def _of_result(result: Any) -> Any:
    value = result.get("value") if isinstance(result, Mapping) else result
    if isinstance(value, Mapping) and isinstance(value.get("globalOffsets"), Mapping):  # of HTML
        return {**value, **value["globalOffsets"]}
    return value


def _read(value: Any, names: Sequence[str]) -> Annotation:
    """Reads the spans of a row.

    Args:
        value: a list of objects or triples; or an object of lists, as ``datasets`` gives a sequence of objects.
        names: names of the labels in the order of their ids, if they are ids.
    """
    if value is None or isinstance(value, (Unusable, _LeftOut)):
        return value
    if isinstance(value, Mapping) and all(isinstance(each, list) for each in value.values()):
        value = [dict(zip(value, each, strict=True)) for each in zip(*value.values(), strict=False)]
    if not isinstance(value, list):
        return Unusable(f"the spans are {shown(value)}; expected a list")
    spans = [_span(each, names) for each in value]
    wrong = [each for each, span in zip(value, spans, strict=True) if span is None]
    if wrong:
        return Unusable(f"a span is {shown(wrong[0])}; expected start and end, whole numbers, and one label, a text")
    return [span for span in spans if span is not None]


def _span(value: Any, names: Sequence[str]) -> GivenSpan | None:
    """Reads one span; ``None`` if it is malformed."""
    text = None
    if isinstance(value, list) and len(value) == 3:
        start, end, label = value
    elif isinstance(value, Mapping):
        start, end, label = (_first(value, keys) for keys in (_STARTS, _ENDS, _LABELS))
        labels, text = value.get("labels"), value.get("text")
        if label is None and isinstance(labels, list) and len(labels) == 1:
            label = labels[0]
    else:
        return None
    if _is_whole(label) and 0 <= label < len(names):
        label = names[label]
    if not (_is_whole(start) and _is_whole(end) and isinstance(label, str) and label.strip()):
        return None
    return GivenSpan(start, end, label, text if isinstance(text, str) else None)


def _first(value: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((value[key] for key in keys if value.get(key) is not None), None)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
