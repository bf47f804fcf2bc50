"""Converts tables of texts with character spans to tables of words with tags."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bertkit.errors import DataError, listed, shown
from bertkit.tables import Table
from bertkit.tasks.ner.annotations import (
    LEFT_OUT,
    Annotation,
    GivenSpan,
    Unusable,
    fault_of_text,
    raw_texts,
    read_annotations,
    span_column,
)
from bertkit.tasks.ner.highlighting import Span
from bertkit.tasks.ner.sentences import TAGS, TOKENS
from bertkit.tasks.ner.spans import OffsetUnit, align, from_utf16
from bertkit.tasks.ner.words import split_words

_MOST_FAULTS = 10
_OTHER: Mapping[OffsetUnit, OffsetUnit] = {"character": "utf16", "utf16": "character"}
_BOTH_UNITS = re.compile("[\\u0000-\\uffff]*")  # texts whose offsets are the same in both units
_IN_WORDS = {"character": "characters, as Python does", "utf16": "UTF-16 code units, as JavaScript does"}


@dataclass(frozen=True, eq=False)
class SpanTable(Table):
    """Table of texts that were split into words, with tags made from spans.

    Attributes:
        rows: index of each row in the source, since rows without an annotation are left out.
        notes: notes on the spans.
    """

    rows: Sequence[int] = ()
    notes: tuple[str, ...] = ()

    def place(self, row: int) -> str:
        return super().place(self.rows[row])


@dataclass
class _Found:
    """Words and tags of all rows, and what was found in their spans."""

    words: list[list[str]] = field(default_factory=list)
    tags: list[list[str]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    spans: int = 0
    snapped: int = 0
    trimmed: int = 0

    @property
    def misplaced(self) -> int:
        """Number of spans that do not fit the words."""
        return len(self.faults) + self.snapped


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
            a word; or two spans overlap. The message names at most ten places.
    """
    texts = raw_texts(table, token_column)
    if texts is None:
        return table
    column = span_column(table, tag_column, needs_tags)
    given: list[Annotation] = [None] * len(texts) if column is None else read_annotations(table, column)
    rows = [row for row, annotation in enumerate(given) if annotation is not LEFT_OUT]
    if not rows:
        raise DataError(f"{table.source}: no row has an accepted annotation")
    labelled = needs_tags or any(given[row] is not None for row in rows)

    def align_all(unit: OffsetUnit) -> _Found:
        found = _Found()
        for row in rows:
            annotation = given[row] if labelled else []
            _add(found, table.place(row), texts[row], annotation, snap, unit)
        return found

    found = align_all(unit)
    hint = ""
    differ = any(isinstance(text, str) and not _BOTH_UNITS.fullmatch(text) for text in texts)
    if found.misplaced and differ and (other := align_all(_OTHER[unit]).misplaced) < found.misplaced:
        hint = (
            f"spans that do not fit their text: {found.misplaced}; if the offsets count {_IN_WORDS[_OTHER[unit]]}, "
            f"give --offset-unit {_OTHER[unit]}, with which there are {other}"
        )
    if found.faults:
        raise DataError(listed(found.faults, at_most=_MOST_FAULTS) + (f"\n{hint}" if hint else ""))
    columns: dict[str, list[Any]] = {
        name: [values[row] for row in rows]
        for name, values in table.columns.items()
        if name not in (*TOKENS, *TAGS, column)
    }
    columns[str(token_column or TOKENS[0])] = found.words
    if labelled:
        columns[str(tag_column or TAGS[0])] = found.tags
    notes = _notes(found, hint)
    if len(rows) < len(given):
        notes += (f"{len(given) - len(rows)} of {len(given)} rows have no accepted annotation and are left out",)
    return SpanTable(columns, table.source, table.fingerprint, table.lines, rows=rows, notes=notes)


def _add(found: _Found, place: str, text: Any, annotation: Annotation, snap: bool, unit: OffsetUnit) -> None:
    """Adds the words and tags of a row."""
    fault = fault_of_text(text)
    words = [] if fault else split_words(text)
    if not words:
        found.faults.append(f"{place}: {fault or 'the text has no words; remove the row'}")
        return
    found.words.append([word.text for word in words])
    if not isinstance(annotation, list):
        fault = annotation.fault if isinstance(annotation, Unusable) else "no spans; write an empty list if it has none"
        found.faults.append(f"{place}: {fault}")
        return
    spans, faults = _in_characters(text, annotation, unit)
    aligned = align(text, words, spans, snap)
    found.tags.append(aligned.tags)
    found.faults += [f"{place}: {fault}" for fault in (*faults, *aligned.faults)]
    found.spans += len(annotation)
    found.snapped += aligned.snapped
    found.trimmed += aligned.trimmed


def _in_characters(text: str, given: Sequence[GivenSpan], unit: OffsetUnit) -> tuple[list[Span], list[str]]:
    """Converts offsets to characters; returns the spans, and the faults of those that do not match the text."""
    spans: list[Span] = []
    faults: list[str] = []
    for each in given:
        start: int | None = each.start
        end: int | None = each.end
        if unit == "utf16":
            start, end = from_utf16(text, each.start), from_utf16(text, each.end)
        if start is None or end is None:
            faults.append(f"span {each.start}:{each.end} ({each.label}) is outside of the text or divides a character")
            continue
        covered = text[max(start, 0) : max(end, 0)]
        if each.text is None or _plain(each.text) == _plain(covered):
            spans.append(Span(start, end, each.label))
        else:
            faults.append(
                f"span {each.start}:{each.end} ({each.label}) is {shown(covered)} in the text, and {shown(each.text)} "
                "in the span"
            )
    return spans, faults


def _plain(text: str) -> str:
    # Label Studio writes a line break within a span as \n, a backslash and a letter.
    return " ".join(text.replace("\\n", "\n").split())


def _notes(found: _Found, hint: str) -> tuple[str, ...]:
    notes = []
    if found.snapped:
        notes.append(f"{found.snapped} of {found.spans} spans cut words and were extended to whole words")
        notes += [f"warning: {hint}"] if hint else []
    if found.trimmed:
        notes.append(f"{found.trimmed} of {found.spans} spans begin or end with white space, which was left out")
    return tuple(notes)
