"""Reads questions from tables and SQuAD's nested JSON, and checks the position of each answer in its context."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

from bertkit.data.reading.row_files import lone_surrogate, missing_column, unique_keys
from bertkit.data.tables import Table, read_table
from bertkit.data.tables.labels import texts
from bertkit.data.tables.typed_rows import JSON
from bertkit.runtime.errors import DataError, collected, noted, raise_all, raise_listed, shown
from bertkit.runtime.reading.text import read_with_fingerprint

_SQUAD = '{"data": [{"paragraphs": [{"context": …, "qas": [{"id": …, "question": …, "answers": […]}]}]}]}'

Answers = dict[str, list[Any]]
"""``text`` and ``answer_start`` of each answer to a question; the start counts characters (code points) of the context,
from 0. Both lists are empty if there is no answer."""


_MEANING = {"id": "ids", "question": "questions", "context": "texts", "answers": "answers"}


class ColumnNames(NamedTuple):
    """Columns of a table of questions."""

    id: str = "id"
    question: str = "question"
    context: str = "context"
    answers: str = "answers"


_USUAL = ColumnNames()


@dataclass(frozen=True)
class Questions:
    """Labelled questions, one per row.

    Attributes:
        columns: ``id``, ``context``, ``question``, and ``answers`` as in `Answers`.
        rows: row of each question in the table, from 0.
        misplaced: one line for each answer that is not at its ``answer_start``: the id of the question, the answer, and
            the text found at this position.
        dropped: number of questions left out because none of their answers is at its ``answer_start``.
    """

    columns: dict[str, list[Any]]
    rows: Sequence[int]
    misplaced: tuple[str, ...]
    dropped: int = 0

    def notes(self, total: int) -> tuple[str, ...]:
        """Returns a note on misplaced answers, which lists ten; ``total`` is the number of questions in the source."""
        if not self.misplaced:
            return ()
        what = f"{self.dropped} of {total} questions dropped" if self.dropped else "no question dropped"
        more = f"; and {len(self.misplaced) - 10} more" if len(self.misplaced) > 10 else ""
        counted = f"answers that are not in the context at answer_start: {len(self.misplaced)}, {what}"
        return (f"{counted}: {'; '.join(self.misplaced[:10])}{more}",)


def read_questions(path: str | Path) -> Table:
    """Reads a file of questions: SQuAD's nested JSON (``.json``), or a format of `bertkit.data.tables.read_table`.

    Raises:
        DataError: the file cannot be read, or has an unsupported format.
    """
    return read_nested(path) if str(path).lower().endswith(JSON) else read_table(path)


def text_columns_of(table: Table, names: ColumnNames) -> dict[str, list[str]]:
    """Returns ``question`` and ``context`` of every row.

    Raises:
        DataError: a column does not exist, or a value is missing, empty or not text; the message names at most ten.
    """
    return collected(
        lambda name, _: list(texts(table, _existing(table, name, names))), dict.fromkeys(("question", "context"))
    )


def questions_of(table: Table, names: ColumnNames = _USUAL, *, unanswerable: bool, drop: bool) -> Questions:
    """Reads the questions of a table with ``id``, ``question``, ``context`` and ``answers``.

    Args:
        table: its answers are ``{"text": […], "answer_start": […]}`` or a list of ``{"text", "answer_start"}``; or the
            text of one answer, which is taken where it first occurs in the context, empty or None for no answer.
            Without a column of ids they are the numbers of the rows, from 1.
        names: the columns.
        unanswerable: allow questions without answers.
        drop: leave out answers that are not at their ``answer_start``, and questions with such answers only, since
            wrong positions must not be trained on. Otherwise they are kept, since metrics compare texts only.

    Raises:
        DataError: a value is missing or malformed, two questions have the same id, or no question is left. One message
            names at most ten faults of each kind, with their locations.
    """
    faults: list[str] = []
    columns: dict[str, list[Any]] = {"id": [], "answers": []}
    with noted(faults):
        columns["id"] = _ids(table, names)
    with noted(faults):
        columns |= text_columns_of(table, names)
    with noted(faults):
        column = _existing(table, "answers", names)
        columns["answers"] = _answers(table, column, columns.get("context", ()), names.id, unanswerable)
    raise_all(faults)
    misplaced: list[str] = []
    kept: list[int] = []
    rows = zip(columns["id"], columns["context"], columns["answers"], strict=True)
    for row, (key, context, answers) in enumerate(rows):
        in_place = []
        for text, start in zip(answers["text"], answers["answer_start"], strict=True):
            at_start = context[start : start + len(text)] if start >= 0 else None
            in_place.append(at_start == text)
            if at_start != text:
                misplaced.append(f"{key} (at {start})" if start < 0 else f"{key} ({text!r}, found {at_start!r})")
        if drop:
            columns["answers"][row] = {name: list(compress(values, in_place)) for name, values in answers.items()}
        if not drop or not in_place or any(in_place):
            kept.append(row)
    if not kept:
        raise DataError(
            f"{table.source}: no answer is in its context at answer_start, the first is that of question "
            f"{misplaced[0]}; answer_start counts characters (code points) from 0, not bytes"
        )
    left = {name: [values[row] for row in kept] for name, values in columns.items()}
    return Questions(left, kept, tuple(misplaced), len(table) - len(kept))


def _existing(table: Table, name: str, names: ColumnNames) -> str:
    """Returns the column that holds ``name``, a field of `ColumnNames`."""
    column: str = getattr(names, name)
    if column not in table.columns:
        raise DataError(
            f"{table.source}: {missing_column(column, table.columns)}; give that of the {_MEANING[name]} with "
            f"--{name}-column"
        )
    return column


def _ids(table: Table, names: ColumnNames) -> list[str]:
    if names.id == _USUAL.id and names.id not in table.columns:
        return list(map(str, range(1, len(table) + 1)))
    column = _existing(table, "id", names)
    ids = [str(value) for value in table.column(column)]
    counts = Counter(ids)
    raise_listed(
        [
            f"{table.place(row)}: several questions have the id {key!r}; ids must be unique"
            for row, key in enumerate(ids)
            if counts[key] > 1
        ]
    )
    return ids


def _answers(table: Table, column: str, contexts: Sequence[str], id_column: str, unanswerable: bool) -> list[Answers]:
    faults: list[str] = []
    ids = table.columns.get(id_column)
    answers, values = [], table.columns[column]
    are_texts = any(isinstance(value, str) for value in values)
    for row, value in enumerate(values):
        place = table.place(row) if ids is None else f"{table.place(row)} (id {ids[row]})"
        if isinstance(value, str) or (value is None and are_texts):  # it is where it first occurs; empty: no answer
            answer = (value or "").strip()
            start = contexts[row].find(answer) if contexts else 0
            if start < 0:
                faults.append(f"{place}: the answer {shown(answer)} is not in its text; copy it from there")
            value = [{"text": answer, "answer_start": max(start, 0)}] if answer else []
        answers.append(_in_columns(value, place, unanswerable, faults))
    raise_listed(faults)
    return answers


def _in_columns(value: Any, place: str, unanswerable: bool, faults: list[str]) -> Answers:
    """Converts the answers to one question to `Answers`; errors are added to ``faults``."""
    none: Answers = {"text": [], "answer_start": []}
    if isinstance(value, dict):
        lists: Sequence[Any] = [value.get("text"), value.get("answer_start")]
    elif isinstance(value, list) and all(isinstance(each, dict) for each in value):
        lists = [[each.get(name) for each in value] for name in none]
    else:
        lists = []
    if not lists or not all(isinstance(each, list) for each in lists) or len(lists[0]) != len(lists[1]):
        faults.append(
            f"{place}: answers is {shown(value)}; expected {{'text': […], 'answer_start': […]}}, of equal length"
        )
        return none
    for text, start in zip(*lists, strict=True):
        if not isinstance(text, str) or not text.strip():
            faults.append(f"{place}: an answer is {text!r}; expected text")
        elif not isinstance(start, int) or isinstance(start, bool):
            faults.append(f"{place}: answer_start is {start!r}; expected a whole number")
    if not lists[0] and not unanswerable:
        faults.append(f"{place}: no answer; give --version-2-with-negative if questions may have none")
    return dict(zip(none, map(list, lists), strict=True))


# ---- SQuAD's nested JSON -------------------------------------------------------------------------------------------


def read_nested(path: str | Path) -> Table:
    """Reads the questions of a file in SQuAD's format, 1.1 or 2.0, in order.

    Args:
        path: UTF-8 ``.json`` file; ``~`` is the home folder.

    Returns:
        Columns ``id``, ``context`` and ``question``; and, if any question has them, ``answers``, a list of ``{"text",
        "answer_start"}`` or None for a question without this key. ``plausible_answers`` of 2.0 are not answers and are
        left out.

    Raises:
        DataError: the file cannot be read, is not JSON, or has another structure; a text has half of a surrogate pair;
            or a question is marked impossible and has answers. One message names at most ten faults, with their
            locations in the file.
    """
    path = Path(os.path.expanduser(path))
    text, fingerprint = read_with_fingerprint(path)
    try:
        document = json.loads(text, object_pairs_hook=unique_keys)
    except DataError as fault:
        raise DataError(f"{path}: {fault}") from fault
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not valid JSON ({error}); expected SQuAD's format {_SQUAD}") from error
    faults: list[str] = []
    rows: list[dict[str, Any]] = []
    escapes = "\\ud" if "\\ud" in text or "\\uD" in text else ""  # the whole text is searched only once
    questions = (
        (place, paragraph, question)
        for at_article, article in _each(document, "data", "", faults)
        for at_paragraph, paragraph in _each(article, "paragraphs", f"{at_article}.", faults)
        for place, question in _each(paragraph, "qas", f"{at_paragraph}.", faults)
    )
    for place, paragraph, question in questions:
        row = {"id": question.get("id"), "context": paragraph.get("context"), "question": question.get("question")}
        answers = question.get("answers")
        impossible = question.get("is_impossible", False)
        if not isinstance(impossible, bool):
            faults.append(f"{place}.is_impossible is {impossible!r}; expected true or false")
        elif impossible and answers:
            faults.append(
                f"{place} (id {row['id']}): is_impossible is true, but there are answers; remove one of the two"
            )
        row["answers"] = [] if impossible and answers is None else answers
        halves = {name: lone_surrogate(value, escapes) for name, value in row.items()}
        faults += [f"{place} (id {shown(row['id'])}): {name} {half}" for name, half in halves.items() if half]
        rows.append(row)
    if not rows and not faults:
        faults.append(f"no questions; expected SQuAD's format {_SQUAD}")
    raise_listed([f"{path}: {fault}" for fault in faults])
    names = [name for name in rows[0] if name != "answers" or any(row["answers"] is not None for row in rows)]
    return Table({name: [row[name] for row in rows] for name in names}, str(path), fingerprint)


def _each(parent: Any, key: str, place: str, faults: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the location and content of each object in the list of this key; adds what is missing to ``faults``."""
    children = parent.get(key) if isinstance(parent, dict) else None
    if not isinstance(children, list):
        faults.append(f"no list {place}{key}; expected SQuAD's format {_SQUAD}, or rows in a .jsonl file")
        return
    for index, child in enumerate(children):
        if isinstance(child, dict):
            yield f"{place}{key}[{index}]", child
        else:
            faults.append(f"{place}{key}[{index}] is {shown(child)}; expected an object")
