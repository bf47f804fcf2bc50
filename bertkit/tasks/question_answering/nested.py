"""Reads SQuAD's nested JSON into a table with one question per row."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bertkit.errors import DataError, raise_listed, shown
from bertkit.reading.row_files import lone_surrogate
from bertkit.reading.utf8 import decode_text
from bertkit.tables import Table

JSON = ".json"
_FORM = '{"data": [{"paragraphs": [{"context": …, "qas": [{"id": …, "question": …, "answers": […]}]}]}]}'


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
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        text = decode_text(content, str(path), path)
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not valid JSON ({error}); expected SQuAD's format {_FORM}") from error
    faults: list[str] = []
    rows: list[dict[str, Any]] = []
    escapes = "\\ud" if "\\ud" in text or "\\uD" in text else ""  # the whole text is searched only once
    for place, paragraph, question in _questions(document, faults):
        row = {"id": question.get("id"), "context": paragraph.get("context"), "question": question.get("question")}
        row["answers"] = _answers(question, place, faults)
        halves = {name: lone_surrogate(value, escapes) for name, value in row.items()}
        faults += [f"{place} (id {shown(row['id'])}): {name} {half}" for name, half in halves.items() if half]
        rows.append(row)
    if not rows and not faults:
        faults.append(f"no questions; expected SQuAD's format {_FORM}")
    raise_listed([f"{path}: {fault}" for fault in faults])
    names = [name for name in rows[0] if name != "answers" or any(row["answers"] is not None for row in rows)]
    fingerprint = f"sha256:{hashlib.sha256(content).hexdigest()[:16]}"
    return Table({name: [row[name] for row in rows] for name in names}, str(path), fingerprint)


def _questions(document: Any, faults: list[str]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yields the location, paragraph and question of every question; missing lists and objects are added to
    ``faults``."""
    for at_article, article in _each(document, "data", "", faults):
        for at_paragraph, paragraph in _each(article, "paragraphs", f"{at_article}.", faults):
            for place, question in _each(paragraph, "qas", f"{at_paragraph}.", faults):
                yield place, paragraph, question


def _each(parent: Any, key: str, place: str, faults: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    children = parent.get(key) if isinstance(parent, dict) else None
    if not isinstance(children, list):
        faults.append(f"no list {place}{key}; expected SQuAD's format {_FORM}, or rows in a .jsonl file")
        return
    for index, child in enumerate(children):
        if isinstance(child, dict):
            yield f"{place}{key}[{index}]", child
        else:
            faults.append(f"{place}{key}[{index}] is {str(child)[:40]!r}; expected an object")


def _answers(question: dict[str, Any], place: str, faults: list[str]) -> Any:
    answers = question.get("answers")
    impossible = question.get("is_impossible", False)
    if not isinstance(impossible, bool):
        faults.append(f"{place}.is_impossible is {impossible!r}; expected true or false")
    elif impossible and answers:
        faults.append(
            f"{place} (id {question.get('id')}): is_impossible is true, but there are answers; remove one of the two"
        )
    return [] if impossible and answers is None else answers
